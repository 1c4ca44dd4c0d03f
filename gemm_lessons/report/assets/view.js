// Lays out the record of a run. Every number and name comes from the record; nothing here counts or judges.
"use strict";

const DATA = JSON.parse(document.getElementById("record").textContent);
const NUMBER = new Intl.NumberFormat("en");
const say = (value) => NUMBER.format(Math.round(value));
const digits = (value) => (value < 9.995 ? value.toPrecision(3) : value.toFixed(1));
const NAMES = {
  shared_wavefronts: "shared wavefronts", global_load_sectors: "sectors loaded", global_store_sectors: "sectors stored",
  shared_load_instructions: "shared loads", shared_store_instructions: "shared stores",
  global_load_requests: "global load requests", global_store_requests: "global store requests",
};
const name_of = (short) => NAMES[short] || short.replaceAll("_", " ");

// -- small helpers ------------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "line", "path", "circle", "g", "title"].includes(tag) && tag !== "title";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const redraws = [];
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((draw) => draw()));
addEventListener("resize", () => redraws.forEach((draw) => draw()));

function section(id, title, ...children) {
  const heading = make("h2", { id: `${id}-title` }, title);
  const node = make("section", { id, "aria-labelledby": `${id}-title` }, heading, ...children);
  document.getElementById("main").append(node);
  document.getElementById("parts").append(make("li", {}, make("a", { href: `#${id}` }, title)));
  return node;
}

function table(columns, rows, attributes = {}, caption = "") {
  const head = make("tr", {}, ...columns.map((column) => make("th", { scope: "col" }, column)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, cell))));
  const node = make("table", attributes, caption ? make("caption", {}, caption) : null, make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption || columns.join(", ") }, node);
}

function key(...entries) {
  return make("ul", { class: "key" }, ...entries.map(([name, text]) => make("li", {}, make("i", { style: `background: var(--${name})` }), text)));
}

// A canvas that is sharp on every screen: draws in CSS pixels.
function sharp(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

// [3, 64]: the indices of the element that begins at a byte.
function element(side, array, byte) {
  const place = side.places[array];
  if (!place || byte < 0) return `${array} byte ${byte}`;
  const found = {};
  let rest = Math.floor(byte / place[0]);
  for (const stride of [...place[1]].sort((a, b) => b - a)) {
    found[stride] = Math.floor(rest / stride);
    rest %= stride;
  }
  return `${array}[${place[1].map((stride) => found[stride]).join(", ")}]`;
}

function ranges(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`)).join(", ");
}

// -- head and verdict ---------------------------------------------------------------------------------------------------

function head() {
  const badge = document.getElementById("badge");
  badge.textContent = DATA.verdict.title;
  badge.className = `badge ${DATA.verdict.kind}`;
  document.getElementById("path").textContent = DATA.path;
  document.getElementById("summary").textContent = DATA.verdict.summary;
  document.getElementById("about").textContent =
    `Made by gemm-lessons ${DATA.version} from a run on the simulator; the same inputs again: --seed ${DATA.seed}. Times are estimates, nothing was timed.`;
}

function verdict() {
  const node = section("verdict", "Verdict");
  node.append(table(DATA.table.columns, DATA.table.rows, { id: "table" }, DATA.about));
  for (const note of DATA.notes) node.append(make("p", { class: "soft" }, note));
  if (DATA.wrong) wrong(node, DATA.wrong);
  if (DATA.findings.length) {
    node.append(make("h3", {}, "Findings"), make("ul", {}, ...DATA.findings.map((it) => make("li", {},
      make("span", { class: it.severity === "error" ? "bad" : "doubt" }, `${it.kind}: `), it.message))));
  }
  if (DATA.gates.length) {
    node.append(make("h3", {}, "Gates: does it use this lesson's method?"), table(["gate", "value", "limit", ""], DATA.gates.map((gate) => [
      gate.name, gate.value === null ? "-" : String(Number(gate.value.toPrecision(4))), `${gate.most ? "≤" : "≥"} ${gate.limit}`,
      make("span", { class: gate.passed ? "good" : "doubt" }, gate.passed ? "met" : "missed")]), { class: "wrapping" }));
  }
  if (DATA.hints.length) node.append(make("h3", {}, "Hints"), make("ul", {}, ...DATA.hints.map((hint) => make("li", {}, hint))));
}

function wrong(node, it) {
  node.append(make("h3", {}, "Wrong elements"), make("p", {}, `${say(it.wrong)} of ${say(it.total)} elements of C are wrong.`));
  if (it.pattern) node.append(make("p", {}, make("strong", {}, "Looks like: "), it.pattern));
  node.append(table(["row", "column", "got", "expected"], it.first.map((row) => row.map(String))));
  if (!it.map || it.map.length * it.map[0].length < 2) return;
  const [rows, cols] = it.tile;
  const cells = it.map.flatMap((line, i) => line.map((count, j) => {
    const size = Math.min(rows, it.shape[0] - i * rows) * Math.min(cols, it.shape[1] - j * cols);
    return make("i", { class: count >= size ? "all" : count ? "some" : "none", title: `tile ${i}, ${j}: ${count} of ${size} wrong` });
  }));
  const summary = it.map.map((line, i) => `row ${i}: ${line.join(", ")}`).join("; ");
  node.append(make("figure", {}, make("figcaption", {}, rows * cols > 1 ? `Block tiles of C, ${rows} x ${cols} each` : "Elements of C"),
    make("div", { class: "scroll", tabindex: 0, role: "img", "aria-label": `Wrong elements by block tile. ${summary}` },
      make("div", { class: "tiles", style: `grid-template-columns: repeat(${it.map[0].length}, auto)` }, ...cells)),
    key(["bad", "all of it is wrong"], ["shared", "part of it"], ["good", "right"])));
}

// -- source, with heat, and what a line asks of memory ------------------------------------------------------------------

const KEYWORDS = /\b(__global__|__shared__|__device__|__restrict__|__launch_bounds__|__syncthreads|extern|const|constexpr|int|float|void|for|if|else|return|while|template|typename|unsigned|auto|struct|static_assert|blockIdx|threadIdx|blockDim|gridDim)\b/;

function coloured(text) {
  const cut = text.indexOf("//");
  const [code, comment] = cut < 0 ? [text, ""] : [text.slice(0, cut), text.slice(cut)];
  const parts = code.split(KEYWORDS).map((part, i) => (i % 2 ? make("span", { class: "keyword" }, part) : part));
  return [...parts, comment ? make("span", { class: "comment" }, comment) : null];
}

const WAITS = ["queue", "global", "shared", "product", "result", "barrier"];
const waits_of = (stall) => WAITS.reduce((sum, state) => sum + (stall.clocks[state] || 0), 0);

// What the heat can be: value by line, and its name.
function heats(side) {
  const found = side.heat.map((short) => [name_of(short), (line) => (side.counts[line] && side.counts[line][short] ? side.counts[line][short][0] : 0)]);
  if (side.timeline) {
    const by = Object.fromEntries(side.timeline.stalls.map((stall) => [stall.line, stall]));
    found.push(["clocks waited", (line) => (by[line] ? waits_of(by[line]) : 0)]);
    found.push(["instructions issued", (line) => (by[line] ? by[line].clocks.issue || 0 : 0)]);
  }
  return found;
}

function source() {
  const node = section("source", "Source: what each line asks of memory");
  node.append(make("p", { class: "soft" }, "Choose a line whose number is underlined: it accesses memory. Arrow keys go from one to the next."));
  tabs(node, "source", (side) => code_of(side));
}

function tabs(node, id, content) {
  const panel = make("div", { id: `${id}-panel`, role: "tabpanel", "aria-labelledby": `${id}-tab-0` });
  const buttons = DATA.sides.map((side, i) => make("button", {
    role: "tab", id: `${id}-tab-${i}`, "aria-controls": `${id}-panel`, type: "button", onclick: () => show(i), onkeydown: turn(i),
  }, side.label));
  if (DATA.sides.length > 1) {
    buttons.push(make("button", { role: "tab", id: `${id}-tab-${buttons.length}`, "aria-controls": `${id}-panel`, type: "button", onclick: () => show(DATA.sides.length), onkeydown: turn(DATA.sides.length) }, "both"));
  }
  const made = [];
  function turn(i) {
    return (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      const next = (i + (event.key === "ArrowRight" ? 1 : buttons.length - 1)) % buttons.length;
      show(next);
      buttons[next].focus();
    };
  }
  function show(i) {
    buttons.forEach((button, j) => {
      button.setAttribute("aria-selected", i === j);
      button.tabIndex = i === j ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${id}-tab-${i}`);
    made[i] = made[i] || (i < DATA.sides.length ? content(DATA.sides[i]) : make("div", { class: "split even beside" }, ...DATA.sides.map((side) => make("div", {}, make("h3", {}, side.label), content(side)))));
    panel.replaceChildren(made[i]);
  }
  if (buttons.length > 1) node.append(make("div", { class: "bar" }, make("div", { role: "tablist", "aria-label": "Which kernel" }, ...buttons)));
  node.append(panel);
  show(0);
}

function code_of(side) {
  const detail = make("div", { class: "detail", role: "group", "aria-label": "What the chosen line asks of memory" });
  const told = make("p", { class: "hidden", role: "status" }); // what a screen reader says when another line is chosen
  const kinds = heats(side);
  const rows = side.source.map((text, i) => {
    const line = i + 1, asks = side.requests[line] !== undefined;
    const number = asks ? make("button", { type: "button", "aria-label": `line ${line}: ${text.trim()}`, onclick: () => choose(line) }, String(line)) : String(line);
    return make("tr", { "data-line": line }, make("td", { class: "no" }, number), make("td", { class: "heat" }), make("td", {}, ...coloured(text)));
  });
  const body = make("tbody", {
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || event.target.tagName !== "BUTTON") return;
      event.preventDefault();
      const lines = Object.keys(side.requests).map(Number);
      const at = lines.indexOf(Number(event.target.textContent)) + step;
      if (lines[at] !== undefined) {
        rows[lines[at] - 1].querySelector("button").focus();
        choose(lines[at]);
      }
    },
  }, ...rows);
  const title = make("th", { scope: "col" });
  const pick = make("select", { "aria-label": "Heat of the lines", onchange: () => heat(Number(pick.value)) },
    ...kinds.map(([name], i) => make("option", { value: i }, name)));

  function heat(chosen) {
    if (!kinds[chosen]) return;
    const [name, value] = kinds[chosen];
    title.textContent = name;
    const values = rows.map((_, i) => value(i + 1)), total = values.reduce((a, b) => a + b, 0) || 1;
    rows.forEach((row, i) => {
      const cell = row.querySelector(".heat"), share = values[i] / total;
      cell.textContent = values[i] ? say(values[i]) : "";
      cell.title = values[i] ? `${(100 * share).toFixed(1)}% of all` : "";
      cell.style.background = values[i] ? `rgba(var(--heat), ${(0.08 + 0.72 * share).toFixed(3)})` : "";
    });
  }
  function choose(line) {
    rows.forEach((row, i) => {
      row.classList.toggle("chosen", i + 1 === line);
      const button = row.querySelector("button");
      if (button) button.setAttribute("aria-pressed", i + 1 === line);
    });
    detail.replaceChildren(...detail_of(side, line));
    told.textContent = `Line ${line}: ${side.requests[line].shown.map((request) => request.heading).join("; ")}`;
  }
  heat(0);
    const asked = Object.keys(side.requests).map(Number);
  // The line to begin with: bank conflicts first, then sectors brought along for nothing, then any shared memory.
  const waste = (line) => side.requests[line].shown.reduce((sum, it) =>
    sum + it.times * (it.space === "shared" ? 1e6 * (it.cost - it.ideal) + 1 : it.cost - it.ideal), 0);
  const begin = asked.length ? asked.reduce((best, line) => (waste(line) > waste(best) ? line : best)) : 0;
  if (begin) choose(begin);
  requestAnimationFrame(() => begin && (pane.scrollTop = Math.max(0, rows[begin - 1].offsetTop - pane.clientHeight / 2)));
  const pane = make("div", { class: "pane", tabindex: 0, role: "group", "aria-label": `Source of ${side.label}` },
    make("table", { class: "code" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "line"), title, make("th", { scope: "col" }, side.path))), body));
  const notes = side.notes.map((note) => make("p", { class: "doubt" }, note));
  const chooser = kinds.length ? make("div", { class: "bar" }, make("label", {}, "Heat: ", pick), make("span", { class: "soft" }, `counted ${side.size}`)) : null;
  return make("div", {}, ...notes, ...(chooser ? [chooser] : []), make("div", { class: "split" }, pane, detail), told);
}

function detail_of(side, line) {
  const parts = [make("h3", {}, `Line ${line}`), make("code", { class: "quote" }, side.source[line - 1].trim())];
  const counts = Object.entries(side.counts[line] || {});
  if (counts.length) {
    parts.push(make("dl", { class: "counts" }, ...counts.flatMap(([short, [value, best]]) => [
      make("dt", {}, name_of(short)), make("dd", {}, say(value)),
      make("dd", { class: "best" }, best === null || best === value ? "" : `${say(best)} at best`)])));
  }
  const stall = side.timeline && side.timeline.stalls.find((it) => it.line === line);
  if (stall && waits_of(stall)) {
    const total = side.timeline.stalls.reduce((sum, it) => sum + waits_of(it), 0);
    parts.push(make("p", { class: "soft" }, `Warps wait here for ${((100 * waits_of(stall)) / total).toFixed(1)}% of all waiting: ${why(side, stall)}.`));
  }
  const requests = side.requests[line];
  for (const request of requests.shown) parts.push(request.space === "shared" ? banks(request) : sectors(side, request));
  if (requests.more > 0) parts.push(make("p", { class: "soft" }, `${requests.more} more kinds of requests look different, and waste less.`));
  return parts;
}

function why(side, stall) {
  const parts = WAITS.filter((state) => stall.clocks[state]).sort((a, b) => stall.clocks[b] - stall.clocks[a])
    .map((state) => `${DATA.spent[state]} ${say(stall.clocks[state])} clocks`);
  const lines = Object.keys(stall.for).map(Number).filter((line) => line && line !== stall.line);
  return parts.join(", ") + (lines.length ? `; for what line ${lines.join(" and line ")} loads` : "");
}

function captioned(request, ...children) {
  const times = `${say(request.times)} such requests of block 0, by ${request.instructions} instruction${request.instructions === 1 ? "" : "s"}; the first: `;
  const caption = make("figcaption", {}, make("strong", { class: request.cost > request.ideal ? "bad" : "" }, request.heading),
    make("br"), make("span", { class: "soft" }, times, make("code", {}, request.text)));
  return make("figure", { class: request.space }, caption, ...children);
}

// 32 lanes by 32 banks. A cell's number is its turn: the first word of a bank, the second, ...
function banks(request) {
  const left = 26, top = 14, cell = 13, high = 11, gap = 3;
  const groups = Math.ceil(32 / request.group);
  const width = left + 32 * cell + 2, height = top + 32 * high + (groups - 1) * gap + 2;
  const clashing = request.turns.some((turns) => turns > 1);
  const words = request.cells.map((cells) => cells.slice(1).map((turn, i) => [(cells[0] + i) % 32, Math.abs(turn), turn < 0]));
  const told = describe(request, words);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": told });
  for (let bank = 0; bank < 32; bank += 4) svg.append(make("text", { x: left + bank * cell + 2, y: top - 4 }, String(bank)));
  for (let lane = 0; lane < 32; lane++) {
    const y = top + lane * high + Math.floor(lane / request.group) * gap;
    if (lane % 4 === 0) svg.append(make("text", { x: left - 6, y: y + 9, "text-anchor": "end" }, String(lane)));
    svg.append(make("rect", { x: left, y, width: 32 * cell - 1, height: high - 1, style: "fill: var(--empty)" }));
    for (const [bank, turn, again] of words[lane]) {
      const kind = again ? "again" : turn > 1 ? "clash" : "one";
      svg.append(make("rect", { x: left + bank * cell, y, width: cell - 1, height: high - 1, class: kind, style: `fill: var(--${kind})` }));
      if (clashing && !again) {
        const number = make("text", { x: left + bank * cell + cell / 2 - 0.5, y: y + 8.5, "text-anchor": "middle", style: "fill: #fff; font-size: 8.5px" }, String(turn));
        svg.append(number);
      }
    }
  }
  const joined = request.turns.reduce((a, b) => a + b, 0) > request.cost;
  const figure = captioned(request, make("p", { class: "soft" }, "lanes down, banks across" + (groups > 1 ? `; ${request.group} lanes are served together` : "")), svg,
    key(["one", "a bank's first word"], ["clash", "another word of the same bank: a conflict, one wavefront more"], ["again", "the same word as a lane above: broadcast, free"]));
  if (joined) figure.append(make("p", { class: "soft" }, "Neighbouring groups want the same addresses in pairs and share wavefronts."));
  figure.append(make("details", {}, make("summary", {}, "as text"), make("pre", { tabindex: 0 }, as_text(request, words))));
  return figure;
}

function describe(request, words) {
  const worst = Math.max(...request.turns), group = request.turns.indexOf(worst);
  const told = `Bank map. ${request.heading}.`;
  if (worst < 2) return `${told} No two lanes want different words of one bank.`;
  const first = group * request.group, lanes = words.slice(first, first + request.group);
  const bank = lanes.flat().find(([, turn]) => turn === worst)[0];
  const who = lanes.flatMap((cells, i) => (cells.some(([at, , again]) => at === bank && !again) ? [first + i] : []));
  return `${told} Lanes ${ranges(who)} want different words of bank ${bank}.`;
}

function as_text(request, words) {
  const digits = "123456789abcdefghijklmnopqrstuvw";
  const lines = [`  bank   ${[0, 8, 16, 24].map((bank) => String(bank).padEnd(8)).join("")}`];
  words.forEach((cells, lane) => {
    if (lane && lane % request.group === 0) lines.push(`         ${"-".repeat(32)}`);
    const marks = Array(32).fill(".");
    for (const [bank, turn, again] of cells) marks[bank] = again ? "=" : digits[turn - 1];
    const at = request.lanes[lane];
    lines.push(`lane ${String(lane).padStart(2)}  ${marks.join("")}  ${at === null ? "-" : `${request.array} word ${Math.floor(at / 4)}`}`);
  });
  return lines.join("\n");
}

// One row for each 32-byte sector that the request touches: which of its words are used, by which lanes.
function sectors(side, request) {
  const touched = new Map();
  request.lanes.forEach((at, lane) => {
    if (at === null) return;
    for (let byte = at; byte < at + request.width; byte++) {
      const number = Math.floor(byte / 32), found = touched.get(number) || { bytes: new Set(), lanes: new Set() };
      touched.set(number, found);
      found.bytes.add(byte - 32 * number);
      found.lanes.add(lane);
    }
  });
  const rows = [...touched].sort(([a], [b]) => a - b).map(([number, { bytes, lanes }]) => {
    const cells = Array.from({ length: 8 }, (_, word) => make("i", { class: [0, 1, 2, 3].some((i) => bytes.has(4 * word + i)) ? "used" : "" }));
    return make("li", { class: "sector" }, make("span", { class: "mono" }, element(side, request.array, 32 * number)),
      make("span", { class: "words", "aria-hidden": "true" }, ...cells),
      make("span", { class: "soft" }, `${bytes.size} of 32 bytes, lane${lanes.size > 1 ? "s" : ""} ${ranges(lanes)}`));
  });
  const shown = rows.slice(0, 8), rest = rows.slice(8), list = (items) => make("ul", { style: "list-style: none; padding: 0; margin: .3rem 0" }, ...items);
  const more = rest.length ? make("details", {}, make("summary", {}, `${rest.length} more sectors`), list(rest)) : null;
  return captioned(request, list(shown), more, key(["one", "4 bytes that the warp asked for"], ["empty", "brought along for nothing"]));
}

// -- who owns which elements --------------------------------------------------------------------------------------------

function ownership() {
  const sides = DATA.sides.filter((side) => side.owners);
  if (!sides.length) return;
  const node = section("owners", `Who owns what: the threads of block 0 and their elements of ${sides[0].owners.buffer}`);
  node.append(make("p", { class: "soft" }, "Colours are warps. Choose a thread with the slider, or point at an element."));
  node.append(make("div", { class: "split even" }, ...sides.map(owners_of)));
}

function owners_of(side, index) {
  const it = side.owners, thread_at = it.which.map((number) => {
    const line = [];
    for (let i = 0; i < it.runs[number].length; i += 2) for (let n = 0; n < it.runs[number][i]; n++) line.push(it.runs[number][i + 1]);
    return line;
  });
  const warps = Math.ceil(side.threads / 32);
  const canvas = make("canvas", { class: "map", role: "img", "aria-label": `Map of ${it.rows} x ${it.cols} elements of ${it.buffer}, coloured by warp` });
  const slider = make("input", { type: "range", min: 0, max: side.threads - 1, value: 0, id: `thread-${index}`, oninput: () => draw() });
  const whole = make("input", { type: "checkbox", id: `warp-${index}`, onchange: () => draw() });
  const output = make("output", { for: `thread-${index}`, class: "readout", "aria-live": "polite" });

  function draw() {
    const room = Math.min(480, Math.max(240, (canvas.parentElement ? canvas.parentElement.clientWidth : 480) - 4));
    const scale = Math.max(1, Math.min(12, Math.floor(room / Math.max(it.cols, it.rows))));
    const pen = sharp(canvas, it.cols * scale, it.rows * scale);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, mine = Number(slider.value), lit = colour("ink");
    const warp = Math.floor(mine / 32);
    thread_at.forEach((line, row) => line.forEach((thread, col) => {
      if (thread < 0) return;
      const of = Math.floor(thread / 32), hue = (of * 360) / warps + 200;
      pen.fillStyle = `hsl(${hue} 45% ${dark ? 36 : 76}%)`;
      if (whole.checked && of === warp) pen.fillStyle = `hsl(${hue} 80% ${dark ? 60 : 45}%)`;
      if (thread === mine) pen.fillStyle = lit;
      pen.fillRect(col * scale, row * scale, scale, scale);
    }));
    pen.fillStyle = colour("ground"); // a line between elements of different threads
    pen.globalAlpha = 0.75;
    thread_at.forEach((line, row) => line.forEach((thread, col) => {
      if (col && line[col - 1] !== thread) pen.fillRect(col * scale - 0.5, row * scale, 1, scale);
      if (row && thread_at[row - 1][col] !== thread) pen.fillRect(col * scale, row * scale - 0.5, scale, 1);
    }));
    pen.globalAlpha = 1;
    const rows = new Set(), cols = new Set();
    let count = 0;
    thread_at.forEach((line, row) => line.forEach((thread, col) => {
      if (thread !== mine) return;
      rows.add(it.row + row);
      cols.add(it.col + col);
      count++;
    }));
    output.textContent = `Thread ${mine} (warp ${warp}, lane ${mine % 32}) stores ${count} element${count === 1 ? "" : "s"}` +
      (count ? `: row${rows.size > 1 ? "s" : ""} ${ranges(rows)}; column${cols.size > 1 ? "s" : ""} ${ranges(cols)}.` : ".");
  }
  canvas.addEventListener("pointerdown", pick);
  canvas.addEventListener("pointermove", (event) => event.pointerType === "mouse" && pick(event));
  function pick(event) {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * it.rows), col = Math.floor(((event.clientX - box.left) / box.width) * it.cols);
    const thread = thread_at[row] && thread_at[row][col];
    if (thread >= 0 && thread !== Number(slider.value)) {
      slider.value = thread;
      draw();
    }
  }
  redraws.push(draw);
  const twice = it.twice ? make("p", { class: "bad" }, `${say(it.twice)} elements are stored by more than one thread.`) : null;
  const node = make("figure", {}, make("figcaption", {}, make("strong", {}, side.label), `: ${it.rows} x ${it.cols} elements, ${side.threads} threads`),
    canvas, make("div", { class: "bar" }, make("label", { for: `thread-${index}` }, "thread "), slider, make("label", {}, whole, " its whole warp")), output, twice);
  requestAnimationFrame(draw);
  return node;
}

// -- who holds which elements of a product of tensor cores -------------------------------------------------------------

function fragments() {
  const products = [...new Map(DATA.sides.flatMap((side) => side.products).map((it) => [JSON.stringify([it.text, it.matrices.map((one) => one.type)]), it])).values()];
  if (!products.length) return;
  const node = section("fragments", "Fragments: which lane holds which element of a product");
  node.append(make("p", { class: "soft" }, "The number in an element is the lane that holds it, its colour the register. " +
    "Choose a lane with the slider, or point at an element. Lane t is number t % 4 in group t / 4."));
  products.forEach((it, index) => node.append(fragments_of(it, index)));
}

function fragments_of(product, index) {
  const slider = make("input", { type: "range", min: 0, max: 31, value: 5, id: `lane-${index}`, oninput: () => draw() });
  const output = make("output", { for: `lane-${index}`, class: "readout", "aria-live": "polite" });
  const drawn = product.matrices.map((it) => fragment_of(it, (lane) => {
    slider.value = lane;
    draw();
  }));
  function draw() {
    const mine = Number(slider.value);
    drawn.forEach(({ cells, it }) => cells.forEach((cell, i) => cell.classList.toggle("mine", it.lanes[i] === mine)));
    output.replaceChildren(`Lane ${mine} (group ${Math.floor(mine / 4)}, number ${mine % 4})`,
      ...product.matrices.map((it) => make("span", {}, `${it.name}: ${held_by(it, mine)}`)));
  }
  draw();
  const types = product.matrices.map((it) => it.type), sum = types[2];
  return make("figure", {}, make("figcaption", {}, make("strong", {}, product.text), `: ${types[0]} times ${types[1]}, summed in ${sum}`),
    make("div", { class: "fragments" }, ...drawn.map(({ node }) => node)),
    make("div", { class: "bar" }, make("label", { for: `lane-${index}` }, "lane "), slider), output);
}

// "a0: row 1, columns 2, 3; a1: ..."
function held_by(it, lane) {
  const found = new Map();
  it.lanes.forEach((of, i) => {
    if (of !== lane) return;
    const places = found.get(it.registers[i]) || { rows: new Set(), cols: new Set() };
    found.set(it.registers[i], places);
    places.rows.add(Math.floor(i / it.cols));
    places.cols.add(i % it.cols);
  });
  const plural = (word, numbers) => `${word}${numbers.size > 1 ? "s" : ""} ${ranges(numbers)}`;
  return [...found].sort(([a], [b]) => a - b).map(([register, { rows, cols }]) => `${it.prefix}${register} ${plural("row", rows)}, ${plural("column", cols)}`).join("; ");
}

function fragment_of(it, choose) {
  const rows = it.lanes.length / it.cols, wide = it.cols > 16 ? 15 : 19, high = 15, left = 20, top = 14;
  const count = Math.max(...it.registers) + 1;
  const told = `${it.name}, ${rows} x ${it.cols}, ${it.type}: ${count} register${count > 1 ? "s" : ""} ${it.prefix} of each lane. Lane 5: ${held_by(it, 5)}.`;
  const width = left + it.cols * wide + 2, svg = make("svg", { viewBox: `0 0 ${width} ${top + rows * high + 2}`, width, role: "img", "aria-label": told });
  for (let col = 0; col < it.cols; col += it.cols > 8 ? 4 : 2) svg.append(make("text", { x: left + col * wide + 2, y: top - 4 }, String(col)));
  for (let row = 0; row < rows; row += 4) svg.append(make("text", { x: left - 4, y: top + row * high + 11, "text-anchor": "end" }, String(row)));
  const cells = it.lanes.map((lane, i) => {
    const x = left + (i % it.cols) * wide, y = top + Math.floor(i / it.cols) * high, hue = (it.registers[i] * 360) / count + 210;
    const cell = make("g", { class: "element", style: `--hue: ${hue}` }, make("rect", { x, y, width: wide - 1, height: high - 1 }),
      make("text", { x: x + wide / 2 - 0.5, y: y + 10.5, "text-anchor": "middle" }, String(lane)));
    svg.append(cell);
    return cell;
  });
  const at = (event) => {
    const i = cells.indexOf(event.target.closest(".element"));
    if (i >= 0) choose(it.lanes[i]);
  };
  svg.addEventListener("pointerdown", at);
  svg.addEventListener("pointermove", (event) => event.pointerType === "mouse" && at(event));
  const registers = Array.from({ length: count }, (_, i) => make("li", {}, make("i", { class: "element", style: `--hue: ${(i * 360) / count + 210}` }), `${it.prefix}${i}`));
  return { it, cells, node: make("div", {}, make("h4", {}, `${it.name}, ${rows} x ${it.cols}`), make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Fragment of ${it.name}` }, svg), make("ul", { class: "key" }, ...registers)) };
}

// -- tiles in shared memory ---------------------------------------------------------------------------------------------

function tiles() {
  const sides = DATA.sides.filter((side) => side.tiles.length || side.shares);
  if (!sides.length) return;
  const node = section("tiles", "Tiles in shared memory: what wgmma reads");
  const text = (lines, name) => make("pre", { class: "scroll", tabindex: 0, role: "group", "aria-label": name }, lines);
  for (const side of sides) {
    node.append(make("h3", {}, side.label), ...side.tiles.map((tile) => text(tile, "Bytes of a tile")));
    if (side.shares) node.append(make("p", {}, "Copies of a cluster: who issues them, and for whom"), text(side.shares, "Copies of a cluster"));
  }
}

// -- the timeline -------------------------------------------------------------------------------------------------------

const AXIS = 18, UNIT = 12, MOST_ARROWS = 160;

function timelines() {
  const sides = DATA.sides.filter((side) => side.timeline);
  if (!sides.length) return;
  const first = sides[0].timeline;
  const node = section("timeline", "Timeline: what every warp does, clock by clock");
  node.append(make("p", {}, `As the estimate plays it: one multiprocessor of an ${first.gpu} with the blocks that fit on it. ` +
    "The thin line under a strip: a load from global memory is in flight. The curve on top: issue slots in use." +
    (sides.some((side) => side.roles) ? " The rows below it: copies by TMA in flight, by the barrier that they report to, and products; two shades are two roles. " +
      "Arrows lead from the act that completes a barrier's phase to the warps that wait for it; zoom in if there are too many." : "")));
  const view = { scale: 1, drawn: [] };
  // One scale for both only where both do the same work.
  const same = new Set(sides.map((side) => `${side.timeline.elements} ${side.timeline.size}`)).size === 1;
  const longest = (side) => (same ? Math.max(...sides.map((it) => it.timeline.loop)) : side.timeline.loop);
  const zoom = (factor) => () => {
    view.scale = Math.min(64, Math.max(0.05, view.scale * factor));
    view.drawn.forEach((draw) => draw());
  };
  const whole = () => {
    view.scale = Math.min(...sides.map((side) => longest(side) / side.timeline.clocks));
    view.drawn.forEach((draw) => draw());
  };
  node.append(make("div", { class: "bar", role: "group", "aria-label": "Zoom" },
    make("button", { type: "button", onclick: zoom(2) }, "zoom in"), make("button", { type: "button", onclick: zoom(0.5) }, "zoom out"),
    make("button", { type: "button", onclick: () => { view.scale = 1; zoom(1)(); } }, "the loop"),
    make("button", { type: "button", onclick: whole }, "all of it")));
  node.append(key(...DATA.states.map((state) => [state.name, state.text]), ["flight", "a load is in flight"]));
  sides.forEach((side, index) => node.append(strips_of(side, index, view, longest(side))));
  if (!same) node.insertBefore(make("p", { class: "soft" }, "The two do not compute equally much, so each has a scale of its own."), node.querySelector(".timeline"));
}

function parsed(strip) {
  const found = [];
  let at = 0;
  for (const [, ticks, letter, line] of strip.matchAll(/(\d+)([a-z])(\d+)/g)) {
    found.push([at, at + Number(ticks), letter, Number(line)]);
    at += Number(ticks);
  }
  return found;
}

function strips_of(side, index, view, longest) {
  const it = side.timeline, strips = it.strips.map(parsed), count = strips.length;
  const row = count > 40 ? 9 : 14, strip = row - (row > 10 ? 5 : 3), between = 8;
  const roles = side.roles, units = roles ? roles.units : [];
  const above = 58 + (units.length ? units.length * UNIT + 8 : 0), gutter = roles ? 104 : 52;
  const unit_top = (number) => 50 + number * UNIT;
  const height = above + count * row + (it.blocks - 1) * between + AXIS;
  const top = (warp) => above + warp * row + Math.floor(warp / it.warps) * between;
  const names = Object.fromEntries(DATA.states.map((state) => [state.letter, state]));
  const cursor = { warp: 0, clock: 0, shown: false };
  const canvas = make("canvas", {}), spacer = make("div");
  const readout = make("p", { class: "readout", "aria-live": "polite", id: `readout-${index}` }, "Point at a strip, or go with the arrow keys.");
  const scroller = make("div", {
    class: "strips", tabindex: 0, role: "application", "aria-describedby": `readout-${index}`,
    "aria-label": `Timeline of ${side.label}: ${count} warps, ${say(it.clocks)} clocks. Arrow keys move a cursor.`,
    onscroll: draw, onkeydown: press, onpointerdown: point, onpointermove: (event) => event.pointerType === "mouse" && point(event),
  }, canvas, spacer);
  const room = () => Math.max(200, scroller.clientWidth);
  const per_clock = () => ((room() - gutter - 8) / longest) * view.scale;

  function draw() {
    const wide = room(), px = per_clock(), from = scroller.scrollLeft / px;
    spacer.style.width = `${gutter + it.clocks * px + 8}px`;
    spacer.style.height = "1px";
    spacer.style.marginTop = "-1px";
    const pen = sharp(canvas, wide, height), x = (clock) => gutter + (clock - from) * px;
    const until = from + (wide - gutter) / px, paint = Object.fromEntries([...DATA.states.map((s) => s.name), "flight", "soft", "ink", "line", "accent", "panel"].map((name) => [name, colour(name)]));
    pen.save();
    pen.beginPath();
    pen.rect(gutter, 0, wide - gutter, height);
    pen.clip();
    curve(pen, x, paint);
    strips.forEach((parts, warp) => {
      const y = top(warp);
      for (const [start, end, letter] of parts) {
        if (end * it.tick < from || start * it.tick > until) continue;
        pen.fillStyle = paint[names[letter].name];
        pen.fillRect(x(start * it.tick), y, Math.max(0.6, (end - start) * it.tick * px + 0.3), strip);
      }
      pen.fillStyle = paint.flight;
      for (let i = 0; i < it.flights[warp].length; i += 2) {
        const [start, end] = it.flights[warp].slice(i, i + 2);
        if (end >= from && start <= until) pen.fillRect(x(start), y + strip + 0.5, Math.max(1, (end - start) * px), 2);
      }
    });
    engines(pen, x, paint);
    axis(pen, x, from, until, px, paint);
    arrows(pen, x, from, until, paint);
    if (cursor.shown) {
      pen.fillStyle = paint.ink;
      pen.fillRect(x(cursor.clock) - 0.75, above - 4, 1.5, height - above - AXIS + 4);
      pen.strokeStyle = paint.ink;
      pen.strokeRect(x(cursor.clock) - 3, top(cursor.warp) - 1, 6, strip + 2);
    }
    pen.restore();
    pen.font = "10px ui-monospace, Menlo, Consolas, monospace";
    pen.fillStyle = paint.soft;
    pen.textBaseline = "alphabetic";
    for (let warp = 0; warp < count; warp++) {
      const number = warp % it.warps;
      const role = roles && roles.roles.find((one) => one.first === number);
      if (role) pen.fillText(it.blocks > 1 ? `${role.name}, block ${Math.floor(warp / it.warps)}` : role.name, 2, top(warp) + strip);
      else if (number === 0) pen.fillText(`block ${warp / it.warps}`, 2, top(warp) + strip);
      else if (number % (row > 10 ? 1 : 4) === 0) pen.fillText(`w${number}`, gutter - 20, top(warp) + strip);
    }
    units.forEach((unit, number) => pen.fillText(unit.name, 2, unit_top(number) + UNIT - 4));
    pen.fillText("issue %", 2, 26);
  }
  function engines(pen, x, paint) {
    units.forEach((unit, number) => unit.spans.forEach(([start, end, block, role]) => {
      pen.fillStyle = unit.unit === "tensor" ? paint.run : paint.flight;
      pen.globalAlpha = unit.unit === "tensor" && (role + block) % 2 ? 0.45 : 1;
      pen.fillRect(x(start), unit_top(number), Math.max(1, x(end) - x(start) - 0.5), UNIT - 4);
      pen.globalAlpha = 1;
    }));
  }
  // From the act that completes a phase to the warps that wait for it.
  function arrows(pen, x, from, until, paint) {
    if (!roles) return;
    const seen = roles.passed.filter((one) => one.passed >= from && one.over <= until);
    if (seen.length > MOST_ARROWS) return;
    pen.strokeStyle = pen.fillStyle = paint.ink;
    pen.lineWidth = 0.8;
    for (const one of seen) {
      const of = (role) => top(one.block * it.warps + roles.roles[role].first) + strip / 2;
      const copied = units.findIndex((unit) => unit.name === `TMA ${one.barrier}` || unit.name === "TMA");
      const start = one.copy && copied >= 0 ? unit_top(copied) + UNIT / 2 - 2 : one.giver >= 0 ? of(one.giver) : above - 6;
      const end = of(one.taker), tip = end > start ? -4 : 4;
      pen.beginPath();
      pen.moveTo(x(one.over), start);
      pen.lineTo(x(one.passed), end);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x(one.passed), end);
      pen.lineTo(x(one.passed) - 2.5, end + tip);
      pen.lineTo(x(one.passed) + 2.5, end + tip);
      pen.fill();
    }
  }
  function curve(pen, x, paint) {
    const part = it.clocks / it.issued.length, high = 40;
    pen.fillStyle = paint.run;
    it.issued.forEach((percent, i) => pen.fillRect(x(i * part), 8 + high - (percent / 100) * high, x(part) - x(0) + 0.3, (percent / 100) * high));
    pen.strokeStyle = paint.line;
    pen.strokeRect(x(0), 8, x(it.clocks) - x(0), high);
  }
  function axis(pen, x, from, until, px, paint) {
    const raw = 90 / px, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw);
    pen.font = "10px ui-monospace, Menlo, Consolas, monospace";
    for (let clock = Math.ceil(from / step) * step; clock <= Math.min(until, it.clocks); clock += step) {
      pen.fillStyle = paint.line;
      pen.fillRect(x(clock), above - 6, 1, height - above - AXIS + 10);
      pen.fillStyle = paint.soft;
      pen.fillText(say(clock), x(clock) + 3, height - 5);
    }
  }
  function tell() {
    const tick = Math.floor(cursor.clock / it.tick), part = strips[cursor.warp].find(([start, end]) => start <= tick && tick < end);
    const block = Math.floor(cursor.warp / it.warps), flight = it.flights[cursor.warp].some((_, i, all) => i % 2 === 0 && all[i] <= cursor.clock && cursor.clock <= all[i + 1]);
    const awaited = roles && roles.passed.find((one) => one.block === block && one.asked <= cursor.clock && cursor.clock <= one.passed &&
      roles.roles[one.taker].first <= cursor.warp % it.warps && cursor.warp % it.warps <= roles.roles[one.taker].last);
    const cause = awaited ? ` for ${awaited.barrier}, completed at ${say(awaited.over)} by ${awaited.by}` : "";
    const text = part && part[3] ? ` Line ${part[3]}: ${side.source[part[3] - 1].trim()}` : "";
    readout.textContent = `Clock ${say(cursor.clock)}, block ${block}, warp ${cursor.warp % it.warps}: ` +
      (part ? `${names[part[2]].text}${names[part[2]].name === "barrier" ? cause : ""}${flight ? "; a load is in flight" : ""}.${text}` : "has ended.");
    draw();
  }
  function point(event) {
    const box = canvas.getBoundingClientRect(), y = event.clientY - box.top;
    let warp = 0;
    while (warp < count - 1 && y >= top(warp + 1)) warp++;
    const clock = Math.min(it.clocks, Math.max(0, (event.clientX - box.left - gutter + scroller.scrollLeft) / per_clock()));
    Object.assign(cursor, { warp, clock, shown: true });
    tell();
  }
  function press(event) {
    const step = Math.max(it.tick, 8 / per_clock()), moves = { ArrowLeft: [0, -step], ArrowRight: [0, step], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
    if (!moves[event.key]) return;
    event.preventDefault();
    if (!cursor.shown) cursor.clock = Math.min(it.clocks, scroller.scrollLeft / per_clock());
    const [warps, clocks] = moves[event.key];
    Object.assign(cursor, {
      warp: Math.min(count - 1, Math.max(0, cursor.warp + warps)), clock: Math.min(it.clocks, Math.max(0, cursor.clock + clocks)), shown: true,
    });
    const x = cursor.clock * per_clock();
    if (x < scroller.scrollLeft + 10 || x > scroller.scrollLeft + room() - gutter - 20) scroller.scrollLeft = x - (room() - gutter) / 2;
    tell();
  }
  redraws.push(draw);
  view.drawn.push(draw);
  requestAnimationFrame(draw);
  const title = make("h3", {}, side.label);
  const facts = make("p", { class: "soft" }, `${it.blocks} block${it.blocks > 1 ? "s" : ""} of ${it.warps} warps` + (it.elements ? ` for ${say(it.elements)} elements` : "") + ` ${it.size}: ${say(it.loop)} clocks` +
    (it.clocks > it.loop * 1.02 ? ` until the last barrier, ${say(it.clocks)} in all` : "") + `. Busy ${DATA.when}: ` +
    Object.entries(it.busy).map(([unit, percent]) => `${unit} ${percent}%`).join(", ") + ".");
  return make("div", { class: "timeline" }, title, facts, scroller, readout, stalls_of(side));
}

function stalls_of(side) {
  const states = Object.keys(DATA.spent), it = side.timeline;
  const total = it.stalls.reduce((sum, of) => sum + states.reduce((all, state) => all + (of.clocks[state] || 0), 0), 0);
  const share = (of, state) => (100 * (of.clocks[state] || 0)) / total, least = 0.3;
  const there = states.filter((state) => it.stalls.some((of) => share(of, state) >= least));
  const sum = (of) => there.reduce((all, state) => all + share(of, state), 0);
  const rows = it.stalls.filter((of) => sum(of) >= least).sort((a, b) => sum(b) - sum(a)).map((of) => [
    make("code", {}, of.line ? `${of.line}: ${side.source[of.line - 1].trim()}` : "other files"),
    ...there.map((state) => (share(of, state) >= 0.05 ? share(of, state).toFixed(1) : "")),
  ]);
  return make("details", { class: "stalls", open: innerWidth > 900 }, make("summary", {}, "Where the time goes, by source line"),
    table(["line", ...there.map((state) => DATA.spent[state])], rows, { class: "stalls" }, "Percent of all warps' time, lines with at least 0.3"));
}

// -- roofline -----------------------------------------------------------------------------------------------------------

function roofline() {
  const it = DATA.roofline;
  if (!it) return;
  const node = section("roofline", `Roofline at ${it.shape}, estimated for an ${it.gpu}`);
  const wide = 640, high = 350, left = 64, bottom = 44, knee = it.peak / it.bandwidth;
  const xs = [...it.dots.map((dot) => dot.x), knee], ys = [...it.dots.map((dot) => dot.y), it.peak];
  const x0 = Math.log(Math.min(...xs) / 2), x1 = Math.log(Math.max(...xs) * 4), y0 = Math.log(Math.min(...ys) / 3), y1 = Math.log(it.peak * 1.6);
  const x = (value) => left + ((Math.log(value) - x0) / (x1 - x0)) * (wide - left - 10), y = (value) => high - bottom - ((Math.log(value) - y0) / (y1 - y0)) * (high - bottom - 26);
  const svg = make("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `Roofline: ${it.dots.map((dot) => `${dot.label} ${digits(dot.y)} TFLOP/s`).join(", ")}; peak ${digits(it.peak)}` });
  for (let power = -8; power < 12; power++) {
    if (2 ** power < Math.exp(x0) || 2 ** power > Math.exp(x1)) continue;
    svg.append(make("line", { x1: x(2 ** power), x2: x(2 ** power), y1: 26, y2: high - bottom, style: "stroke: var(--line)" }),
      make("text", { x: x(2 ** power), y: high - bottom + 16, "text-anchor": "middle" }, power < 0 ? `1/${2 ** -power}` : String(2 ** power)));
  }
  for (const value of [-3, -2, -1, 0, 1, 2, 3].flatMap((power) => [1, 2, 5].map((n) => Number(`${n}e${power}`)))) {
    if (value < Math.exp(y0) || value > Math.exp(y1)) continue;
    svg.append(make("line", { x1: left, x2: wide - 10, y1: y(value), y2: y(value), style: "stroke: var(--line)" }),
      make("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, String(value)));
  }
  const start = Math.max(Math.exp(x0), Math.exp(y0) / it.bandwidth);
  svg.append(make("path", { d: `M${x(start)} ${y(start * it.bandwidth)}L${x(knee)} ${y(it.peak)}L${wide - 10} ${y(it.peak)}`, style: "fill: none; stroke: var(--ink); stroke-width: 1.8" }),
    make("text", { x: wide - 12, y: y(it.peak) - 6, "text-anchor": "end", style: "fill: var(--ink)" }, `fp32 peak, ${digits(it.peak)}`),
    make("text", { x: left + (wide - left) / 2, y: high - 8, "text-anchor": "middle" }, "operations per byte between a multiprocessor and shared memory or L1"),
    make("text", { x: 14, y: 12, style: "fill: var(--soft)" }, "TFLOP/s"));
  // Names beside their dots: the fastest above, the slowest below, so that neighbours do not cover each other.
  const order = [...it.dots].sort((one, other) => other.y - one.y);
  it.dots.forEach((dot, i) => {
    const rank = order.indexOf(dot), shift = rank === 0 ? -12 : rank === order.length - 1 ? 22 : 4;
    svg.append(make("circle", { cx: x(dot.x), cy: y(dot.y), r: 6, style: `fill: var(--${i ? "again" : "accent"}); stroke: var(--ink)` }),
      make("text", { x: x(dot.x) + (shift === 4 ? 11 : 0), y: y(dot.y) + shift, "text-anchor": shift === 4 ? "start" : "middle", style: "fill: var(--ink)" }, dot.label));
  });
  node.append(make("figure", {}, make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Roofline" }, svg)),
    table(["kernel", "operations per byte", "estimated TFLOP/s", "of the roof above it"], it.dots.map((dot) => [
      dot.label, dot.x.toPrecision(3), digits(dot.y), `${((100 * dot.y) / Math.min(it.peak, dot.x * it.bandwidth)).toFixed(0)}%`])));
}

head();
verdict();
source();
ownership();
fragments();
tiles();
timelines();
roofline();
document.documentElement.dataset.ready = "yes";
