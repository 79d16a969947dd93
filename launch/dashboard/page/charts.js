// Charts: lines with intervals, as SVG.

const LEFT = 46, RIGHT = 18, TOP = 8, BOTTOM = 20; // margins in pixels
const COLORS = 8; // --c0 to --c7 of page.css

// Makes an HTML element; an attribute that is a function handles an event.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value);
  element.append(...children.flat());
  return element;
}

function shape(tag, attributes, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  element.textContent = text;
  return element;
}

export function swatch(background = "var(--line)") {
  const element = h("span", { class: "swatch" });
  element.style.background = background;
  return element;
}

export const color = (index) => `var(--c${index % COLORS})`;
const isKnown = (x) => x !== null && x !== undefined && Number.isFinite(x);

// A number with four digits, such as 12.34k or 1.2e-7.
export function number(value) {
  if (!isKnown(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size && size < 1e-3)) return value.toExponential(1);
  const [unit, name] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([x]) => size >= x) ?? [1, ""];
  return +(value / (name === "k" ? 1e3 : unit)).toPrecision(4) + name;
}

export function seconds(value) {
  if (!isKnown(value)) return "–";
  if (value < 120) return `${+value.toPrecision(3)} s`;
  return value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

// About `count` round positions from low to high.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((x) => x * power >= raw), first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

// Lines over one axis. `update` draws series: {name, at, mean, low, high, color},
// arrays of equal lengths, in which null is unknown. `low` and `high` may be
// missing; a series without a color is drawn in the background.
export class Chart {
  constructor(title, height) {
    this.title = title;
    this.series = [];
    this.caption = h("figcaption", {}, h("b", {}, title));
    this.svg = shape("svg", { height, role: "img", "aria-label": title });
    this.tip = h("div", { class: "tip card", hidden: "" });
    this.node = h("figure", { class: "card", pointermove: (event) => this.#point(event), pointerleave: () => this.#hide() },
      this.caption, this.svg, this.tip);
    new ResizeObserver(() => this.#draw()).observe(this.node);
  }

  update(series, formatX) {
    this.series = series.filter((x) => x.at.length);
    this.formatX = formatX;
    const named = new Map(this.series.filter((x) => x.color && series.length > 1).map((x) => [x.name, x]));
    this.caption.replaceChildren(h("b", {}, this.title),
      ...[...named.values()].map((x) => h("span", {}, swatch(x.color), x.name)));
    this.#draw();
  }

  #draw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    const ys = this.series.flatMap(({ mean, low = [], high = [] }) => [...mean, ...low, ...high]).filter(isKnown);
    this.svg.replaceChildren();
    const add = (...rest) => this.svg.appendChild(shape(...rest));
    if (!ys.length) return add("text", { x: LEFT, y: height / 2 }, "no value yet");
    const x0 = Math.min(0, ...this.series.map((s) => s.at[0])), x1 = Math.max(x0 + 1, ...this.series.map((s) => s.at.at(-1)));
    let y0 = ys.reduce((a, b) => Math.min(a, b)), y1 = ys.reduce((a, b) => Math.max(a, b));
    const margin = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
    [y0, y1] = [y0 - margin, y1 + margin];
    this.toX = (x) => LEFT + ((x - x0) / (x1 - x0)) * (width - LEFT - RIGHT);
    this.toY = (y) => TOP + ((y1 - y) / (y1 - y0)) * (height - TOP - BOTTOM);
    for (const y of ticks(y0, y1, height / 45)) {
      add("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: this.toY(y), y2: this.toY(y) });
      add("text", { x: LEFT - 5, y: this.toY(y) + 4, "text-anchor": "end" }, number(y));
    }
    for (const x of ticks(x0, x1, width / 90))
      add("text", { x: this.toX(x), y: height - 5, "text-anchor": "middle" }, this.formatX(x));
    for (const s of this.series.toSorted((a, b) => !!a.color - !!b.color)) {
      const stroke = s.color ?? "var(--soft)";
      const points = (values) => s.at.map((x, i) =>
        (isKnown(values[i]) ? `${this.toX(x).toFixed(1)},${this.toY(values[i]).toFixed(1)}` : ""));
      if (s.low?.some(isKnown))
        add("polygon", { class: "band", fill: stroke, points: [...points(s.high), ...points(s.low).reverse()].join(" ") });
      const path = points(s.mean).map((point, i, all) => point && (all[i - 1] ? "L" : "M") + point).join("");
      add("path", { class: s.color ? "line" : "line other", stroke, d: path });
      if (s.at.length === 1) add("circle", { r: 3, fill: stroke, cx: this.toX(s.at[0]), cy: this.toY(s.mean[0] ?? y0) });
    }
    this.cursor = add("line", { class: "rule", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  }

  #hide() {
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
  }

  // Shows the values next to the pointer, of the 6 closest series.
  #point(event) {
    if (!this.cursor || !this.series.length) return;
    const box = this.svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const away = (s, i) => Math.abs(this.toX(s.at[i]) - x);
    const found = this.series.map((s) => {
      const i = s.at.reduce((best, _, j) => (away(s, j) < away(s, best) ? j : best), 0);
      return { ...s, at: s.at[i], value: s.mean[i], low: s.low?.[i], high: s.high?.[i] };
    }).sort((a, b) => Math.abs(this.toY(a.value ?? 0) - y) - Math.abs(this.toY(b.value ?? 0) - y)).slice(0, 6);
    const at = this.toX(found[0].at);
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, at);
    this.cursor.setAttribute("visibility", "visible");
    this.tip.hidden = false;
    this.tip.replaceChildren(this.formatX(found[0].at), ...found.map((s) => h("div", {}, swatch(s.color),
      `${s.name}  ${number(s.value)}`, isKnown(s.low) ? ` (${number(s.low)} to ${number(s.high)})` : "")));
    Object.assign(this.tip.style, x > box.width / 2 ? { left: "", right: `${box.width - at + 24}px` } : { right: "", left: `${at + 24}px` },
      { top: `${this.svg.parentNode.clientTop + this.caption.offsetHeight + 14}px` });
  }
}
