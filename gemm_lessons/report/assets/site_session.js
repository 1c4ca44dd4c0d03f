// The recorded session: shows what the terminal had printed at a time. Without this script, the page shows all of it.
"use strict";

const SCREEN = document.getElementById("session"), EVENTS = [...SCREEN.querySelectorAll("[data-t]")];
const PLAY = document.getElementById("play"), TIME = document.getElementById("time"), CLOCK = document.getElementById("clock");
const END = Number(TIME.max);
let at = END, before = null; // seconds into the session; the last frame's time while it plays

const minutes = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;

function show(seconds) {
  at = Math.min(seconds, END);
  for (const event of EVENTS) event.hidden = Number(event.dataset.t) > at;
  SCREEN.scrollTop = SCREEN.scrollHeight;
  TIME.value = at;
  CLOCK.textContent = `${minutes(at)} of ${minutes(END)}`;
  TIME.setAttribute("aria-valuetext", CLOCK.textContent);
}

function frame(now) {
  if (before === null) return;
  show(at + (now - before) / 1000);
  before = now;
  if (at < END) requestAnimationFrame(frame);
  else pause();
}

function pause() {
  before = null;
  PLAY.textContent = "Play";
}

PLAY.addEventListener("click", () => {
  if (before !== null) return pause();
  PLAY.textContent = "Pause";
  before = performance.now();
  show(at < END ? at : 0);
  requestAnimationFrame(frame);
});
TIME.addEventListener("input", () => show(Number(TIME.value)));
SCREEN.classList.add("screen"); // one screen of a terminal, which scrolls
SCREEN.scrollTop = SCREEN.scrollHeight;
TIME.value = END;
CLOCK.textContent = minutes(END);
document.getElementById("player").hidden = false;
