// Tables: structures of a status, or of a command's result, as they are.

import { h, number } from "./charts.js";

// A table, whose columns of numbers are aligned to the right.
export function table(names, rows) {
  const isNumber = names.map((_, i) => rows.some((row) => /^-?\d/.test(row[i])));
  const line = (tag, cells) => h("tr", {},
    cells.map((x, i) => h(tag, isNumber[i] ? { class: "number" } : {}, x)));
  return h("div", { class: "scroll" },
    h("table", {}, line("th", names), rows.map((row) => line("td", row))));
}

const isNumbers = (x) => Array.isArray(x) && x.every((y) => typeof y === "number");
const isPlain = (x) => x === null || typeof x !== "object" || isNumbers(x);
const words = (name) => name.replaceAll("_", " ");

function show(name, value) {
  if (isNumbers(value)) return value.map(number).join(", ");
  if (typeof value !== "number") return `${value ?? "–"}`;
  if (name.endsWith("_at_s")) return new Date(value * 1000).toLocaleString();
  return number(value) + (name.includes("bytes") ? "B" : "");
}

// A heading and a table with a row per structure, of the fields that any has;
// nothing without a structure.
export function structTable(title, structs) {
  const rows = Object.entries(structs ?? {});
  const isShown = (x) => x !== 0 && x !== null && isPlain(x) && x?.length !== 0;
  const names = [...new Set(rows.flatMap(([, row]) => Object.keys(row)))]
    .filter((name) => rows.some(([, row]) => isShown(row[name] ?? null)));
  if (!names.length) return [];
  return [h("h2", {}, words(title)), table(["", ...names.map(words)],
    rows.map(([key, row]) => [key, ...names.map((name) => show(name, row[name]))]))];
}

// Any JSON: lists of texts, tables of equal structures, and the rest.
export function showReport(title, value) {
  const name = words(title), entries = Object.entries(value);
  if (entries.length && entries.every(([, x]) => isPlain(x)))
    return [h("h2", {}, name), Array.isArray(value) ? h("ul", {}, value.map((x) => h("li", {}, show("", x))))
      : table(["", ""], entries.map(([key, x]) => [words(key), show(key, x)]))];
  const isEqual = (x) => `${Object.keys(x)}` === `${Object.keys(entries[0][1])}`;
  if (entries.every(([, x]) => !isPlain(x) && isEqual(x) && Object.values(x).every(isPlain)))
    return structTable(title, value);
  const plain = entries.filter(([, x]) => isPlain(x));
  return [...(plain.length ? showReport(title, Object.fromEntries(plain)) : []),
    ...entries.filter(([, x]) => !isPlain(x)).flatMap(([key, x]) => showReport(key, x))];
}
