// Tables: structures of a status, or of a command's result, as they are.

import { h, histogram, number } from "./charts.js";

// A table, whose columns of numbers are aligned to the right.
export function table(names, rows) {
  const isNumber = names.map((_, i) => rows.some((row) => /^-?\d/.test(row[i])));
  const line = (tag, cells) => h("tr", {},
    cells.map((x, i) => h(tag, isNumber[i] ? { class: "number" } : {}, x)));
  return h("div", { class: "scroll" },
    h("table", {}, line("th", names), rows.map((row) => line("td", row))));
}

const isPlain = (x) => x === null || typeof x !== "object";
const words = (name) => name.replaceAll("_", " ");

function show(name, value) {
  if (typeof value !== "number") return `${value ?? "–"}`;
  return number(value) + (name.includes("bytes") ? "B" : "");
}

// A heading and a table with a row per structure, of the fields that any has;
// nothing without a structure.
export function structTable(title, structs) {
  const rows = Object.entries(structs ?? {});
  const isShown = (x) => x !== 0 && x !== null && isPlain(x);
  const names = [...new Set(rows.flatMap(([, row]) => Object.keys(row)))]
    .filter((name) => rows.some(([, row]) => isShown(row[name] ?? null)));
  if (!names.length) return [];
  return [h("h2", {}, words(title)), table(["", ...names.map(words)],
    rows.map(([key, row]) => [key, ...names.map((name) => show(name, row[name]))]))];
}

// Any JSON: histograms, tables of equal structures, and the rest by name.
export function showReport(title, value) {
  const entries = Object.entries(value);
  if (value.edges) return value.counts.length ? [histogram(words(title), value.edges, value.counts)] : [];
  if (entries.every(([, x]) => isPlain(x)))
    return [h("h2", {}, words(title)), table(["", ""], entries.map(([name, x]) => [words(name), show(name, x)]))];
  if (entries.every(([, x]) => !isPlain(x) && !x.edges && Object.values(x).every(isPlain)))
    return structTable(title, value);
  const plain = Object.fromEntries(entries.filter(([, x]) => isPlain(x)));
  const nested = entries.filter(([, x]) => !isPlain(x)).flatMap(([name, x]) => showReport(name, x));
  const [charts, others] = [nested.filter((x) => x.tagName === "FIGURE"), nested.filter((x) => x.tagName !== "FIGURE")];
  return [...(Object.keys(plain).length ? showReport(title, plain) : []),
    ...(charts.length ? [h("div", { class: "grid" }, charts)] : []), ...others];
}
