"use strict";
const root = document.documentElement;
const remembered = () => { try { return localStorage.getItem("engram-theme"); } catch { return null; } };
const remember = (theme) => { try { localStorage.setItem("engram-theme", theme); } catch { /* a page from a file may not be allowed to */ } };
if (remembered()) root.dataset.theme = remembered();

document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember(root.dataset.theme);
});

const keyOf = (row, column) => {
  const cell = row.cells[column];
  const text = cell.textContent.trim();
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return text.startsWith("–") || text === "" ? null : text;
};

const compare = (a, b) => {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
};

const sort = (table, column, direction) => {
  const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row, column), row]);
  const present = rows.filter(([key]) => key !== null).sort(([a], [b]) => direction * compare(a, b));
  const absent = rows.filter(([key]) => key === null);
  table.tBodies[0].append(...present.concat(absent).map(([, row]) => row));
};

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const numbers = [...table.tBodies[0].rows].some((row) => row.cells[column].dataset.value !== undefined);
    const first = numbers ? "descending" : "ascending";
    const second = numbers ? "ascending" : "descending";
    const next = head.getAttribute("aria-sort") === first ? second : first;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    sort(table, column, next === "ascending" ? 1 : -1);
  }));
}
