// The search box of the index. site_sections.js has PAGES, [page, title, anchor, heading, text] for each section.
"use strict";

const MOST = 12, AROUND = 60; // results, and characters beside the first match

function search(query, pages) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return [];
  const found = pages.map((section) => {
    const [, title, , heading, text] = section.map((it) => it.toLowerCase());
    const score = (word) => (title.includes(word) ? 4 : 0) + (heading.includes(word) ? 8 : 0) + (text.includes(word) ? 1 : 0);
    const scores = wanted.map(score);
    return { section, score: Math.min(...scores) && scores.reduce((a, b) => a + b) };
  });
  return found.filter((it) => it.score).sort((a, b) => b.score - a.score).map((it) => it.section);
}

const BOX = document.getElementById("search"), RESULTS = document.getElementById("results"), FOUND = document.getElementById("found");

function load() {
  const script = document.createElement("script");
  script.src = "site_sections.js";
  script.onload = show;
  document.head.append(script);
}

function show() {
  if (typeof PAGES === "undefined") return; // load() shows them
  const results = search(BOX.value, PAGES), first = BOX.value.trim().toLowerCase().split(/\s+/)[0];
  FOUND.textContent = BOX.value.trim() ? `${results.length} section${results.length === 1 ? "" : "s"}` : "";
  RESULTS.replaceChildren(...results.slice(0, MOST).map(([page, title, anchor, heading, text]) => {
    const item = document.createElement("li"), link = document.createElement("a"), excerpt = document.createElement("small");
    link.href = anchor ? `${page}#${anchor}` : page;
    link.textContent = heading ? `${title}: ${heading}` : title;
    const at = Math.max(0, text.toLowerCase().indexOf(first) - AROUND);
    excerpt.textContent = `${at ? "… " : ""}${text.slice(at, at + 2 * AROUND + first.length)} …`;
    item.append(link, " ", excerpt);
    return item;
  }));
}

BOX.addEventListener("input", show);
BOX.addEventListener("focus", load, { once: true });
if (BOX.value || location.hash === "#search") BOX.focus(); // a browser may keep the words when it goes back
