// What one access of a warp costs, by the rules of gemm_lessons/engine/costs/banks.py, and the expressions that give its
// addresses. A test executes both rules on the same accesses. `addresses` are bytes, `active` booleans, 32 of each.
"use strict";

const WARP = 32, BANKS = 32, WORD = 4, SECTOR = 32;
const div = (a, b) => Math.floor(a / b);
const range = (count, first = 0) => Array.from({ length: count }, (_, i) => first + i);

function words(addresses, lane, width) {
  return range(Math.max(1, width / WORD), div(addresses[lane], WORD));
}

// The different words that lanes want of each bank, in the order of the lanes: a Map from bank to an array.
function banks(addresses, lanes, width) {
  const found = new Map();
  for (const word of lanes.flatMap((lane) => words(addresses, lane, width))) {
    const wanted = found.get(word % BANKS) || [];
    if (!wanted.includes(word)) found.set(word % BANKS, [...wanted, word]);
  }
  return found;
}

// The lanes at each bank, which take turns when they are atomic: a Map from bank to an array.
function meeting(addresses, lanes) {
  const found = new Map();
  for (const lane of lanes) {
    const bank = div(addresses[lane], WORD) % BANKS;
    found.set(bank, [...(found.get(bank) || []), lane]);
  }
  return found;
}

const fullest = (addresses, lanes, width) => Math.max(0, ...[...banks(addresses, lanes, width).values()].map((it) => it.length));

function paired(addresses, active, lanes, strictly) {
  const same = (a, b) => (active[a] && active[b] ? addresses[a] === addresses[b] : !strictly || active[a] === active[b]);
  return [1, 2].some((distance) => lanes.every((lane) => same(lane, lane ^ distance)));
}

// The groups of lanes that shared memory serves together: [{lanes, cost}]. Their costs add up to the wavefronts.
function served(addresses, active, width, access) {
  const on = range(WARP).filter((lane) => active[lane]);
  if (access === "atomic") {
    return [{ lanes: on, cost: Math.max(0, ...[...meeting(addresses, on).values()].map((it) => it.length)) }];
  }
  const size = Math.min(WARP, (WARP * WORD) / width);
  const cut = (each) => range(WARP / each).map((i) => range(each, i * each));
  const costed = (lanes) => ((some) => ({ lanes: some, cost: fullest(addresses, some, width) }))(lanes.filter((it) => active[it]));
  if (access !== "load" || width <= WORD) return cut(size).map(costed);
  if (width === 16 && on.every((lane) => addresses[lane] === addresses[on[0]])) {
    return [{ lanes: on, cost: Math.ceil((on.length * width) / (2 * BANKS * WORD)) }];
  }
  return cut(2 * size).flatMap((both, half) => {
    const joined = costed(both), strictly = width === 16 && half === 0;
    const pairs = (strictly && !active[WARP - 1]) || paired(addresses, active, both, strictly);
    return joined.cost === 1 && pairs ? [joined] : [both.slice(0, size), both.slice(size)].map(costed);
  });
}

// [wavefronts, the fewest possible] of an access to shared memory.
function wavefronts(addresses, active, width, access) {
  const groups = served(addresses, active, width, access);
  const cost = groups.reduce((sum, it) => sum + it.cost, 0);
  if (access === "matrix") return [cost, groups.filter((it) => it.cost).length];
  return [cost, Math.min(cost, Math.ceil((active.filter(Boolean).length * width) / (BANKS * WORD)))];
}

// The different sectors of an access to global memory, as their numbers.
function sectors(addresses, active) {
  return [...new Set(range(WARP).filter((lane) => active[lane]).map((lane) => div(addresses[lane], SECTOR)))];
}

// -- expressions of C integers ------------------------------------------------------------------------------------------

const LEVELS = [["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]; // from the weakest
const OPERATORS = {
  "|": (a, b) => a | b, "^": (a, b) => a ^ b, "&": (a, b) => a & b, "<<": (a, b) => a << b, ">>": (a, b) => a >> b,
  "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b,
  "/": (a, b) => Math.trunc(a / nonzero(b)), "%": (a, b) => a % nonzero(b),
};
const FUNCTIONS = { min: Math.min, max: Math.max, ceil_div: (a, b) => Math.ceil(a / nonzero(b)), gcd: (a, b) => (b ? FUNCTIONS.gcd(b, a % b) : a) };
const LONGEST = 300; // characters

function nonzero(value) {
  if (value === 0) throw new Error("division by zero");
  return value;
}

// A function from {name: integer} to an integer. Nothing of the text is executed as script: links carry it.
function expression(text, names) {
  if (text.length > LONGEST) throw new Error("the expression is too long");
  const tokens = text.match(/\d+|[A-Za-z_]\w*|<<|>>|\S/g) || [];
  let at = 0;
  const fail = () => {
    throw new Error(at < tokens.length ? `"${tokens[at]}" is unexpected; use ${names.join(", ")}, numbers, + - * / % & | ^ << >> ~ ( )` : `"${text}" is incomplete`);
  };
  function factor() {
    const token = tokens[at];
    if (/^\d/.test(token)) return at++, () => Number(token);
    if (names.includes(token)) return at++, (values) => values[token];
    if (Object.hasOwn(FUNCTIONS, token) && tokens[at + 1] === "(") return call(FUNCTIONS[token]);
    if (!["-", "+", "~", "("].includes(token)) fail();
    at++;
    const inner = token === "(" ? binary(0) : factor();
    if (token === "(" && tokens[at++] !== ")") at--, fail();
    return token === "-" ? (values) => -inner(values) : token === "~" ? (values) => ~inner(values) : inner;
  }
  function call(apply) {
    const given = [];
    do {
      at += given.length ? 1 : 2;
      given.push(binary(0));
    } while (tokens[at] === ",");
    if (given.length < 2 || tokens[at] !== ")") fail();
    at++;
    return (values) => given.map((each) => each(values)).reduce((a, b) => apply(a, b));
  }
  function binary(level) {
    if (level === LEVELS.length) return factor();
    let left = binary(level + 1);
    while (LEVELS[level].includes(tokens[at])) {
      const apply = OPERATORS[tokens[at++]], a = left, b = binary(level + 1);
      left = (values) => apply(a(values), b(values));
    }
    return left;
  }
  const result = binary(0);
  if (at < tokens.length) fail();
  return (values) => result(values) + 0; // not -0
}
