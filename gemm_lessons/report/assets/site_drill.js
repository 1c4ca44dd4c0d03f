// The drills of a lesson: draws numbers, asks, and checks answers. The rules are those of gemm_lessons/course/drills.py; a
// test draws thousands of questions and compares both.
"use strict";

const DRILLS = JSON.parse(document.getElementById("drills").textContent);
const FIELD = /\{([^{}]*)\}/g, NAME = /[A-Za-z]\w*/g, GROUPED = /\b[1-9]\d{0,2}(,\d{3})+\b/g;
const OF_A_WARP = ["sectors", "wavefronts"]; // their index has the name lane

const computed = (text, values) => expression(text, Object.keys(values))(values);

// {name: integer}, drawn anew.
function draw(drill) {
  const values = {};
  for (const [name, choices, last] of drill.draws) {
    const bounds = choices.map((choice) => computed(choice, values)), from = bounds[0];
    values[name] = last === null
      ? bounds[Math.floor(Math.random() * bounds.length)]
      : from + Math.floor(Math.random() * (computed(last, values) - from + 1));
  }
  return values;
}

// The answer, an array of integers.
function solve(drill, values) {
  if (drill.rule === "answer") return drill.of.map((text) => computed(text, values));
  const lanes = OF_A_WARP.includes(drill.rule) ? range(WARP) : [0], all = lanes.map(() => true);
  const addresses = lanes.map((lane) => computed(drill.of[0], { ...values, lane }) * drill.element);
  if (drill.rule === "bank") return [div(addresses[0], WORD) % BANKS];
  if (drill.rule === "sectors") return [sectors(addresses, all).length];
  return [wavefronts(addresses, all, drill.element * computed(drill.vector, values), drill.access)[0]];
}

// A text of the drill with its numbers.
function fill(text, drill, values, answer) {
  const parts = drill.of.map((part) => part.replace(NAME, (name) => (name in values ? values[name] : name)));
  const special = { index: parts[0], working: parts.map((part, i) => `${part} = ${answer[i]}`).join(", "), answer: answer.join(", ") };
  return text.replace(FIELD, (_, inside) => (inside in special ? special[inside] : computed(inside, values)));
}

// What was typed, as so many integers.
function parse(text, count) {
  const plain = text.trim(), inside = /^(\(.*\)|\[.*\])$/.test(plain) ? plain.slice(1, -1) : plain;
  const parts = count === 1 ? [plain.replace(GROUPED, (it) => it.replaceAll(",", ""))] : inside.split(inside.includes(",") ? "," : /\s+/);
  if (parts.length !== count || parts.some((part) => part.includes(","))) {
    throw new Error(count === 1 ? "Write one number." : `Write ${count} numbers, with a comma between them.`);
  }
  return parts.map((part) => {
    if (!/^[0-9.\s+\-*/%()]+$/.test(part) || /\b0\d/.test(part)) throw new Error(`"${part.trim()}" is neither a whole number nor arithmetic like 3 * 64 + 5.`);
    return computed(part.replace(/\/+/g, "/"), {});
  });
}

function question(drill) {
  const values = draw(drill), answer = solve(drill, values), ask = fill(drill.ask, drill, values, answer);
  const item = document.createElement("li"), form = document.createElement("form");
  const field = document.createElement("input"), check = document.createElement("button"), said = document.createElement("output");
  field.setAttribute("aria-label", `Answer to: ${ask}`);
  field.autocomplete = "off";
  check.textContent = "Check";
  said.setAttribute("aria-live", "polite");
  form.append(field, " ", check, " ", said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!field.value.trim()) return;
    try {
      const right = String(parse(field.value, answer.length)) === String(answer);
      said.className = right ? "good" : "bad";
      said.textContent = right ? "right" : `It is ${answer.join(", ")}. ${fill(drill.why, drill, values, answer)}`;
    } catch (error) {
      if (error.constructor !== Error) throw error; // not ours: a fault of the script
      said.className = "";
      said.textContent = error.message;
    }
  });
  item.append(ask, form);
  return item;
}

function ask_all() {
  document.getElementById("questions").replaceChildren(...DRILLS.map(question));
}

document.getElementById("again").addEventListener("click", ask_all);
ask_all();
