// Who loads what: the element of each thread, and the sectors of each request.
"use strict";

const LISTED = 16; // requests in the table
const ROOM = 780; // pixels across

// Every request of a warp: {warp, i, lanes: [{t, row, col}], addresses, active, sectors}.
function requests(rows, cols) {
  const threads = number("threads"), V = Number(field("vector")), pitch = number("pitch");
  if (threads % WARP) throw new Error("Threads of a block: a multiple of 32");
  if (pitch < cols) throw new Error(`Row length: at least the ${cols} columns of the tile`);
  const names = ["t", "i", "n", "ROWS", "COLS", "V"], row_of = formula("row", names), col_of = formula("col", names);
  return range(Math.ceil((rows * cols) / (threads * V))).flatMap((i) => range(threads / WARP).map((warp) => {
    const lanes = range(WARP, warp * WARP).map((t) => {
      const values = { t, i, n: t + i * threads, ROWS: rows, COLS: cols, V };
      return { t, row: row_of(values), col: col_of(values) };
    });
    const active = lanes.map(({ row, col }) => row >= 0 && row < rows && col >= 0 && col + V <= cols);
    const addresses = lanes.map(({ row, col }) => (row * pitch + col) * WORD);
    return { warp, i, lanes, addresses, active, sectors: sectors(addresses, active).length };
  })).filter((it) => it.active.some(Boolean));
}

function draw_loads() {
  const [rows, cols] = field("tile") === "A" ? [number("BM"), number("BK")] : [number("BK"), number("BN")];
  const V = Number(field("vector")), picture = document.getElementById("picture"), listed = document.getElementById("requests");
  picture.replaceChildren();
  listed.replaceChildren();
  const all = requests(rows, cols), chosen = number("request");
  if (!all.length) throw new Error("No load is inside the tile.");
  if (chosen >= all.length) throw new Error(`Marked request: 0 to ${all.length - 1}`);
  if (all.some((it) => it.addresses.some((address, lane) => it.active[lane] && address % (V * WORD)))) {
    throw new Error(`Misaligned: a load of ${V} floats needs a column and a row length that are multiples of ${V}.`);
  }
  const owners = range(rows * cols).map(() => []);
  all.forEach((it, index) => it.lanes.forEach(({ t, row, col }, lane) => {
    if (it.active[lane]) range(V, row * cols + col).forEach((place) => owners[place].push({ t, index }));
  }));
  const total = all.reduce((sum, it) => sum + it.sectors, 0), fewest = all.reduce((sum, it) => sum + Math.ceil((it.active.filter(Boolean).length * V * WORD) / SECTOR), 0);
  const missing = owners.filter((it) => !it.length).length, twice = owners.filter((it) => it.length > 1).length;
  ANSWER.replaceChildren(make("strong", {}, `${(total / all.length).toFixed(2)} sectors per request`),
    `: ${total} sectors in ${all.length} requests, ${fewest} would do. `, total === fewest ? "Coalesced. " : "",
    missing ? `${missing} elements are never loaded. ` : "", twice ? `${twice} elements are loaded more than once. ` : "", missing || twice ? "" : "Every element is loaded once.");
  if (missing || twice) ANSWER.className = "bad";
  picture.append(make("div", { class: "tall", tabindex: 0, role: "group", "aria-label": "Picture of the tile" }, tile(rows, cols, owners, chosen)), make("figcaption", {}, `Tile of ${field("tile")}, ${rows} x ${cols}. A number is a thread. Shades tell warps apart; request ${chosen} is blue, and elements that no thread loads are red.`));
  listed.append(table(["request", "warp", "iteration", "threads", "sectors", "fewest"], all.slice(0, LISTED).map((it, index) => {
    const on = it.lanes.filter((_, lane) => it.active[lane]);
    return [index, it.warp, it.i, lane_list(on.map((lane) => lane.t)), it.sectors, Math.ceil((on.length * V * WORD) / SECTOR)];
  })));
  if (all.length > LISTED) listed.append(make("p", { class: "soft" }, `The first ${LISTED} of ${all.length} requests.`));
}

function tile(rows, cols, owners, chosen) {
  const size = Math.max(3, Math.min(26, Math.floor(ROOM / cols))), ratio = Math.min(devicePixelRatio || 1, 2);
  const canvas = make("canvas", { width: cols * size * ratio, height: rows * size * ratio, role: "img", style: `width:${cols * size}px;height:${rows * size}px`, "aria-label": `${field("tile")}: element 0, 0 is loaded by thread ${owners[0].map((it) => it.t).join(", ") || "none"}` });
  const pen = canvas.getContext("2d"), colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const [ink, line, accent, bad, ground] = ["ink", "line", "accent", "bad", "ground"].map(colour);
  pen.scale(ratio, ratio);
  pen.font = `${size * 0.38}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  owners.forEach((owner, place) => {
    const x = (place % cols) * size, y = div(place, cols) * size, gap = size > 6 ? 1 : 0;
    const marked = owner.some((it) => it.index === chosen);
    pen.globalAlpha = marked || !owner.length ? 1 : 0.35 + 0.4 * (div(owner[0].t, WARP) % 2);
    pen.fillStyle = marked ? accent : owner.length ? line : bad;
    pen.fillRect(x, y, size - gap, size - gap);
    pen.globalAlpha = 1;
    pen.fillStyle = marked ? ground : ink;
    if (size >= 18 && owner.length) pen.fillText(owner[0].t, x + size / 2, y + size / 2);
  });
  return canvas;
}

start(draw_loads);
