// What the interactive pages share: fields whose state is in the link, elements, and the place for the answer.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const FORM = document.querySelector("form.tool");
const ANSWER = document.getElementById("answer");

function make(tag, attributes = {}, ...children) {
  const node = ["svg", "rect", "text", "g", "title"].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function table(columns, rows) {
  const row = (kind, cells) => make("tr", {}, ...cells.map((cell) => make(kind, {}, String(cell))));
  return make("table", {}, make("thead", {}, row("th", columns)), make("tbody", {}, ...rows.map((cells) => row("td", cells))));
}

// A whole number within the field's limits.
function number(name) {
  const field = FORM.elements[name], value = Number(field.value);
  if (field.value === "" || !Number.isInteger(value) || value < field.min || value > field.max) {
    throw new Error(`${field.labels[0].textContent}: a whole number from ${field.min} to ${field.max}`);
  }
  return value;
}

const field = (name) => FORM.elements[name].value;
const formula = (name, names) => {
  try {
    return expression(field(name), names);
  } catch (error) {
    throw new Error(`${FORM.elements[name].labels[0].textContent}: ${error.message}`);
  }
};

const lane_list = (lanes) => lanes.reduce((parts, lane) => {
  const last = parts.at(-1);
  if (last && lane === last[1] + 1) last[1] = lane;
  else parts.push([lane, lane]);
  return parts;
}, []).map(([a, b]) => (a === b ? `${a}` : `${a} to ${b}`)).join(", ");

function start(draw) {
  const redraw = () => {
    try {
      ANSWER.className = "";
      draw();
    } catch (error) {
      if (error.constructor !== Error) throw error; // not ours: a fault of the script
      ANSWER.className = "bad";
      ANSWER.replaceChildren(error.message);
    }
  };
  const take = () => {
    FORM.reset();
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) if (FORM.elements[name]) FORM.elements[name].value = value;
    redraw();
  };
  FORM.addEventListener("submit", (event) => event.preventDefault());
  FORM.addEventListener("input", () => {
    history.replaceState(null, "", `#${new URLSearchParams(new FormData(FORM))}`);
    redraw();
  });
  addEventListener("hashchange", take);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  take();
}
