"use strict";
const body = document.querySelector("tbody");
const rows = [...body.rows];
const form = document.querySelector("form");

function keep() {
  const wanted = Object.fromEntries(new FormData(form));
  const words = wanted.words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !(["data", "trust", "eps"].every(key => !wanted[key] || row.dataset[key] === wanted[key])
      && words.every(word => text.includes(word)));
    shown += !row.hidden;
  }
  document.getElementById("count").textContent = `${shown} of ${rows.length} rows`;
}

function sort(head) {
  const place = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending";
  const value = row => row.cells[place].dataset.value ?? row.cells[place].textContent;
  const isNumber = head.dataset.kind === "number";
  const order = (a, b) => isNumber ? Number(value(a)) - Number(value(b)) : value(a).localeCompare(value(b));
  for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  rows.sort((a, b) => up ? order(a, b) : order(b, a));
  body.append(...rows);
}

form.addEventListener("input", keep);
form.addEventListener("submit", event => event.preventDefault());
for (const button of document.querySelectorAll("th button"))
  button.addEventListener("click", () => sort(button.parentNode));
keep();
