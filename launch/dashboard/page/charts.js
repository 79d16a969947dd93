// Charts: lines with intervals, and histograms, as SVG.

const SVG = "http://www.w3.org/2000/svg";
const EDGE = { left: 46, right: 10, top: 8, bottom: 20 };
const COLORS = 8; // --c0 to --c7 of page.css

// Makes an HTML element; an attribute that is a function handles an event.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((x) => x !== null));
  return element;
}

function shape(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  element.textContent = text;
  return element;
}

export const color = (index) => `var(--c${index % COLORS})`;

// A number with about three digits: 1.23k, 0.045, 1.2e-7.
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e15 || (size && size < 1e-3)) return value.toExponential(1);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) {
      const scale = name === "k" ? 1e3 : unit;
      return +(value / scale).toPrecision(4) + name;
    }
  return `${+value.toPrecision(4)}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 120) return `${+value.toPrecision(3)} s`;
  if (value < 7200) return `${(value / 60).toFixed(1)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

// Round positions of about `count` ticks from low to high.
function ticks(low, high, count) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((x) => x * power >= raw);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++)
    found.push(+(i * step).toPrecision(12));
  return found;
}

// Index of the value in an ascending array that is the nearest to x.
function nearest(values, x) {
  let low = 0;
  for (let high = values.length - 1; low < high; ) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low && x - values[low - 1] < values[low] - x ? low - 1 : low;
}

const isKnown = (x) => x !== null && x !== undefined && Number.isFinite(x);

// Lines over one axis. `update` draws series: {name, at, mean, low, high,
// color}, arrays of equal lengths in which null is unknown; `low` and `high` may
// be missing. A series without a color is drawn in the background.
export class Chart {
  constructor(title, height = 150) {
    this.height = height;
    this.caption = h("figcaption", {}, h("b", {}, title));
    this.svg = shape("svg", { role: "img", "aria-label": title });
    this.tip = h("div", { class: "tip", hidden: "" });
    this.node = h("figure", {
      class: "card",
      pointermove: (event) => this.#point(event),
      pointerleave: () => this.#point(null),
    });
    this.node.append(this.caption, this.svg, this.tip);
    this.series = [];
    new ResizeObserver(() => this.#draw()).observe(this.node);
  }

  update(series, formatX = number, legend = true) {
    this.series = series.filter((x) => x.at.length);
    this.formatX = formatX;
    if (legend && series.length > 1) {
      const names = this.series.filter((x) => x.color).map((x) =>
        h("span", {}, swatch(x.color), x.name));
      this.caption.replaceChildren(this.caption.firstChild, ...names);
    }
    this.#draw();
  }

  #draw() {
    const width = this.svg.clientWidth, { height } = this;
    if (!width || !this.formatX) return;
    this.svg.setAttribute("height", height);
    const drawn = [];
    const xs = this.series.flatMap((s) => [s.at[0], s.at.at(-1)]);
    const ys = this.series
      .flatMap((s) => [...s.mean, ...(s.low ?? []), ...(s.high ?? [])])
      .filter(isKnown);
    if (!ys.length) {
      drawn.push(shape("text", { x: EDGE.left, y: height / 2 }, "no value yet"));
      this.svg.replaceChildren(...drawn);
      return;
    }
    const min = (v) => v.reduce((a, b) => Math.min(a, b));
    const max = (v) => v.reduce((a, b) => Math.max(a, b));
    let [x0, x1, y0, y1] = [Math.min(0, min(xs)), max(xs), min(ys), max(ys)];
    if (x1 === x0) x1 = x0 + 1;
    const margin = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
    [y0, y1] = [y0 - margin, y1 + margin];
    const { left, right, top, bottom } = EDGE;
    const toX = (x) => left + ((x - x0) / (x1 - x0)) * (width - left - right);
    const toY = (y) => top + ((y1 - y) / (y1 - y0)) * (height - top - bottom);
    this.scale = { toX, toY };
    for (const y of ticks(y0, y1, height / 45)) {
      const at = toY(y);
      drawn.push(shape("line", { class: "rule", x1: left, x2: width - right, y1: at, y2: at }));
      drawn.push(shape("text", { x: left - 5, y: at + 4, "text-anchor": "end" }, number(y)));
    }
    for (const x of ticks(x0, x1, width / 90))
      drawn.push(shape("text", { x: toX(x), y: height - 5, "text-anchor": "middle" }, this.formatX(x)));
    const points = (s, values) => s.at
      .map((x, i) => (isKnown(values[i]) ? `${toX(x).toFixed(1)},${toY(values[i]).toFixed(1)}` : null));
    for (const s of this.series.toSorted((a, b) => !!a.color - !!b.color)) {
      const stroke = s.color ?? "var(--soft)";
      if (s.low && s.low.some(isKnown)) {
        const outline = [...points(s, s.high), ...points(s, s.low).reverse()];
        drawn.push(shape("polygon", { class: "band", fill: stroke, points: outline.filter(Boolean).join(" ") }));
      }
      let path = "";
      for (const point of points(s, s.mean)) // a gap where a value is unknown
        path += point === null ? " " : (path === "" || path.endsWith(" ") ? "M" : "L") + point;
      drawn.push(shape("path", { class: s.color ? "line" : "line other", stroke, d: path }));
      if (s.at.length === 1 && isKnown(s.mean[0]))
        drawn.push(shape("circle", { r: 3, fill: stroke, cx: toX(s.at[0]), cy: toY(s.mean[0]) }));
    }
    this.cursor = shape("line", { class: "rule", y1: top, y2: height - bottom, visibility: "hidden" });
    drawn.push(this.cursor);
    this.svg.replaceChildren(...drawn);
  }

  // Shows the values next to the pointer.
  #point(event) {
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
    if (!event || !this.scale || !this.series.length) return;
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const { toX, toY } = this.scale;
    const found = this.series.map((s) => {
      const ascending = s.at.map(toX);
      const i = nearest(ascending, x);
      return { s, i, at: ascending[i], away: Math.abs(toY(s.mean[i] ?? 0) - y) };
    });
    const near = found.toSorted((a, b) => a.away - b.away).slice(0, 6);
    this.cursor.setAttribute("x1", near[0].at);
    this.cursor.setAttribute("x2", near[0].at);
    this.cursor.setAttribute("visibility", "visible");
    this.tip.replaceChildren(this.formatX(near[0].s.at[near[0].i]),
      ...near.map(({ s, i }) => h("div", {}, swatch(s.color ?? "var(--soft)"),
        `${s.name}  ${number(s.mean[i])}` +
        (isKnown(s.low?.[i]) ? ` (${number(s.low[i])} to ${number(s.high[i])})` : ""))));
    this.tip.hidden = false;
    const isRight = x > box.width / 2;
    this.tip.style.left = isRight ? "" : `${near[0].at + 24}px`;
    this.tip.style.right = isRight ? `${box.width - near[0].at + 24}px` : "";
    this.tip.style.top = `${this.svg.offsetTop + 4}px`;
  }
}

export function swatch(background) {
  const element = h("span", { class: "swatch" });
  element.style.background = background;
  return element;
}

// A histogram: counts of bins between N + 1 edges, or of N labels.
export function histogram(title, edges, counts) {
  const [width, height, left, bottom] = [300, 120, 8, 18];
  const most = Math.max(...counts, 1), step = (width - 2 * left) / counts.length;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  counts.forEach((count, i) => {
    const size = (count / most) * (height - bottom - 6);
    const bar = shape("rect", { x: left + i * step + 0.5, y: height - bottom - size,
      width: Math.max(step - 1, 0.5), height: size, fill: "var(--c0)" });
    const name = edges.length > counts.length
      ? `${number(edges[i])} to ${number(edges[i + 1])}` : edges[i];
    bar.append(shape("title", {}, `${name}: ${number(count)}`));
    svg.append(bar);
  });
  const label = (x) => (typeof x === "number" ? number(x) : `${x}`);
  svg.append(shape("text", { x: left, y: height - 4 }, label(edges[0])),
    shape("text", { x: width - left, y: height - 4, "text-anchor": "end" }, label(edges.at(-1))));
  return h("figure", { class: "card" }, h("figcaption", {}, h("b", {}, title)), svg);
}
