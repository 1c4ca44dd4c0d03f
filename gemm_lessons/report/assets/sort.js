// Sorts a table by the column whose heading is pressed: numbers by size, texts by letters; again: the other way round.
for (const head of document.querySelectorAll("table.sortable thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== (head.dataset.first || "descending");
    const first = head.dataset.first === "ascending" ? 1 : -1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    const way = up ? first : -first;
    head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...body.rows].map((row, at) => ({ row, at, key: key(row), number: parseFloat(key(row)) }));
    rows.sort((a, b) => {
      const texts = Number.isNaN(a.number) || Number.isNaN(b.number);
      const order = texts ? a.key.localeCompare(b.key) : a.number - b.number;
      return way * order || a.at - b.at;
    });
    body.append(...rows.map((it) => it.row));
  });
}
