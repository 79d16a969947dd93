// Tables: lists of rows, and structures of a status.

import { h, number } from "./charts.js";

// A table, whose columns of numbers are aligned to the right.
export function table(names, rows) {
  const isNumber = names.map((_, i) => rows.some((row) => /^-?\d/.test(row[i])));
  const line = (tag, cells) => h("tr", {},
    cells.map((x, i) => h(tag, isNumber[i] ? { class: "number" } : {}, x)));
  return h("div", { class: "scroll" },
    h("table", {}, line("th", names), rows.map((row) => line("td", row))));
}

const words = (name) => name.replaceAll("_", " ");

function show(name, value) {
  if (typeof value !== "number") return `${value ?? "–"}`;
  if (name.endsWith("_at_s")) return new Date(value * 1000).toLocaleString();
  return number(value) + (name.includes("bytes") ? "B" : "");
}

// A heading and a table with a row per structure, of the fields that any has;
// nothing without a structure.
export function structTable(title, structs) {
  const rows = Object.entries(structs ?? {});
  const isShown = (x) => x !== 0 && x !== null && typeof x !== "object";
  const names = [...new Set(rows.flatMap(([, row]) => Object.keys(row)))]
    .filter((name) => rows.some(([, row]) => isShown(row[name] ?? null)));
  if (!names.length) return [];
  return [h("h2", {}, title), table(["", ...names.map(words)],
    rows.map(([key, row]) => [key, ...names.map((name) => show(name, row[name]))]))];
}
