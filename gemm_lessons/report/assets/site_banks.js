// Bank conflicts: lanes, banks and wavefronts of one request.
"use strict";

const CELL = 22, LEFT = 74, TOP = 22;

// The byte that each lane accesses first, and the lanes outside of the tile.
function request() {
  const rows = number("rows"), cols = number("cols"), pad = number("pad"), count = Number(field("width")) / WORD;
  const row_of = formula("row", ["lane"]), col_of = formula("col", ["lane"]), swizzle = formula("swizzle", ["row", "col"]);
  const places = range(WARP).map((lane) => {
    const row = row_of({ lane }), col = swizzle({ row, col: col_of({ lane }) });
    return { address: (row * (cols + pad) + col) * WORD, outside: row < 0 || row >= rows || col < 0 || col + count > cols };
  });
  return { addresses: places.map((it) => it.address), outside: range(WARP).filter((lane) => places[lane].outside) };
}

function draw_banks() {
  const width = Number(field("width")), access = field("access");
  const picture = document.getElementById("picture"), groups = document.getElementById("groups");
  picture.replaceChildren();
  groups.replaceChildren();
  const { addresses, outside } = request();
  if (outside.length) throw new Error(`Outside of the tile: lane ${lane_list(outside)}.`);
  const misaligned = range(WARP).filter((lane) => addresses[lane] % width);
  if (misaligned.length) throw new Error(`Misaligned: lane ${lane_list(misaligned)}. An access of ${width} bytes needs an address that is a multiple of ${width}.`);
  const active = range(WARP).map(() => true);
  const [cost, ideal] = wavefronts(addresses, active, width, access);
  ANSWER.replaceChildren(make("strong", {}, `${cost} wavefront${cost === 1 ? "" : "s"}`), cost === ideal ? ", the fewest possible: no bank conflict." : ` instead of ${ideal}: bank conflicts cost a factor of ${Number((cost / ideal).toFixed(2))}.`);
  const serving = served(addresses, active, width, access).filter((it) => it.lanes.length);
  picture.append(memory(addresses, width, access, serving, `${cost} wavefronts, ${ideal} at least`));
  picture.append(make("figcaption", {}, "One column for each bank, one row for each 128 bytes that the warp touches; the number is the first lane that wants the word. ",
    access === "atomic" ? "Lanes that meet at one bank take turns." : "Blue words are served in the first wavefront of their group; redder words wait longer."));
  const atomic = access === "atomic";
  groups.append(table(["lanes served together", "wavefronts", "fullest bank", atomic ? "lanes that meet there" : "words it is asked for"], serving.map((it) => {
    const [bank, wanted] = [...(atomic ? meeting(addresses, it.lanes) : banks(addresses, it.lanes, width))].sort((a, b) => b[1].length - a[1].length)[0];
    return [lane_list(it.lanes), it.cost, bank, wanted.join(", ")];
  })));
}

function memory(addresses, width, access, serving, label) {
  const cells = new Map(); // word -> who wants it, and in which wavefront of the group it is served
  for (const { lanes, cost } of serving) {
    const order = banks(addresses, lanes, width), met = meeting(addresses, lanes);
    for (const lane of lanes) for (const word of words(addresses, lane, width)) {
      const cell = cells.get(word) || { lanes: [], turn: 0 };
      const turn = access === "atomic" ? met.get(div(addresses[lane], WORD) % BANKS).indexOf(lane) : cost === 1 ? 0 : order.get(word % BANKS).indexOf(word);
      cells.set(word, { lanes: [...cell.lanes, lane], turn: Math.max(cell.turn, turn) });
    }
  }
  const rows = [...new Set([...cells.keys()].map((word) => div(word, BANKS)))].sort((a, b) => a - b);
  const text = (x, y, words, anchor = "middle") => make("text", { x, y, "text-anchor": anchor }, words);
  const nodes = [text(LEFT - 8, 14, "bank", "end"), ...range(BANKS).map((bank) => text(LEFT + (bank + 0.5) * CELL, 14, bank))];
  rows.forEach((row, i) => {
    nodes.push(text(LEFT - 8, TOP + (i + 0.7) * CELL, `word ${row * BANKS}`, "end"));
    for (const bank of range(BANKS)) {
      const word = row * BANKS + bank, cell = cells.get(word), x = LEFT + bank * CELL, y = TOP + i * CELL;
      const box = make("rect", { x, y, width: CELL - 2, height: CELL - 2, class: cell ? `turn${Math.min(cell.turn, 3)}` : "idle" });
      if (cell) box.append(make("title", {}, `bank ${bank}, word ${word}: lane ${lane_list(cell.lanes)}, wavefront ${cell.turn + 1} of its group`));
      nodes.push(box);
      if (cell) nodes.push(text(x + CELL / 2 - 1, y + 14, cell.lanes[0]));
    }
  });
  return make("svg", { viewBox: `0 0 ${LEFT + BANKS * CELL} ${TOP + rows.length * CELL}`, class: "banks", role: "img", "aria-label": label }, ...nodes);
}

start(draw_banks);
