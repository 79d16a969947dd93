// Page: asks the server for data every few seconds, and shows it.

import { Chart, color, h, number, seconds, swatch } from "./charts.js";
import { showReport, structTable, table } from "./tables.js";

const PERIOD_MS = 2000;
const COMPARISON_MS = 6000;
const AXES = { env_steps: "steps", trainer_steps: "updates", wall_s: "time" };
const COLORED = 8; // groups with a color, those of the highest returns
// Sections of metrics, by the first word of their names; the first two are open.
const SECTIONS = { learner: "Losses and other metrics of the learner", rates: "Rates", replay: "Replay",
  variables: "Variables", run: "Counts" };
const OTHERS = "Nodes and others";
const AXES_AND_RETURNS = ["run/env_steps", "run/trainer_steps", "run/wall_s", "run/training_return"];
const main = document.getElementById("main");
const problem = document.getElementById("problem");
const view = { axis: "env_steps", refresh: async () => {} };

// The token moves from the address to this tab's memory, so that neither the
// history nor a bookmark has it.
const given = new URLSearchParams(location.hash.slice(1));
if (given.has("token")) {
  sessionStorage.token = given.get("token");
  given.delete("token");
  history.replaceState(null, "", `#${given}`);
}

async function request(path, method = "GET") {
  const headers = { "X-Slipway-Token": sessionStorage.token ?? "" };
  const response = await fetch(`api/${path}`, { method, headers });
  if (!response.ok) throw new Error(await response.text());
  return response;
}
const load = async (path, method) => (await request(path, method)).json();

// A function that loads data, or returns null where it is that of its last call.
function loader() {
  let last = "";
  return async (path) => {
    const text = await (await request(path)).text();
    if (text === last) return null;
    last = text;
    return JSON.parse(text);
  };
}

function report(promise) {
  const show = (text) => {
    problem.hidden = !text;
    problem.textContent = text;
  };
  return promise.then(() => show(""), (error) => show(error instanceof TypeError
    ? "The server does not reply: start `slipway dashboard` again." : error.message));
}

const state = (name) => h("span", { class: "state", "data-state": name }, name);
const list = (items) => h("ul", {}, items.map((x) => h("li", {}, x)));
const alerting = (text, isAlert) => h("span", isAlert ? { class: "alert" } : {}, text);
const formatX = () => (view.axis === "wall_s" ? seconds : number);

function axisButtons(redraw) {
  const buttons = Object.entries(AXES).map(([axis, name]) => h("button", { "aria-pressed": axis === view.axis, click: () => {
    view.axis = axis;
    for (const x of buttons) x.setAttribute("aria-pressed", x.textContent === name);
    redraw();
  } }, name));
  return h("div", { class: "bar" }, h("span", { class: "soft" }, "by"), buttons);
}

function setTitle(name, ...rest) {
  document.title = `${name} · Slipway`;
  document.getElementById("title").replaceChildren(name, ...rest);
}

// All runs: the comparison of their groups, and a table.
function showRuns() {
  const chart = new Chart("mean return of an evaluation, with the 95 % interval over seeds", 300);
  const groups = h("div"), runs = h("div"), loadChanged = loader();
  let drawn = 0;
  const draw = async () => {
    drawn = Date.now();
    const found = await load(`comparison/${view.axis}`);
    found.sort((a, b) => b.final[0] - a.final[0]).forEach((x, i) => (x.color = i < COLORED ? color(i) : undefined));
    comparison.hidden = !found.length;
    chart.update(found.flatMap((x) => x.lines.map((line) => ({ ...line, name: x.fields || x.name, color: x.color }))), formatX());
    groups.replaceChildren(table(["runs of one config", "differs in", "runs", "final return", "95 % interval"], found.map((x) => [
      h("span", {}, swatch(x.color), h("a", { href: `#run=${x.runs[0]}` }, x.name)), x.fields, `${x.runs.length}`,
      number(x.final[0]), x.final[1] === null ? "" : `${number(x.final[1])} to ${number(x.final[2])}`])));
  };
  const comparison = h("section", { hidden: "" }, axisButtons(() => report(draw())), chart.node, h("h2", {}, "Comparison"), groups);
  main.replaceChildren(comparison, h("h2", {}, "Runs"), runs);
  view.refresh = async () => {
    const found = await loadChanged("runs");
    const names = ["run", "state", "steps", "updates", "time", "steps/s", "training", "evaluation", "best", "note"];
    if (found) {
      setTitle(found.folders.join(", "));
      runs.replaceChildren(table(names, found.runs.map((x) => [
        h("a", { href: `#run=${x.key}` }, x.name), state(x.state),
        ...x.numbers.map((value, i) => (i === 2 ? seconds : number)(value)), alerting(x.note, x.alert)])));
    }
    if (Date.now() - drawn > COMPARISON_MS) await draw();
  };
}

// One run: one reply has all that changes, of which each tab shows a part.
function showRun(key, tab) {
  const body = h("div"), data = { columns: {}, generation: 0, count: 0 };
  main.replaceChildren(body);
  const update = TABS[tab](body, `runs/${key}`), loadChanged = loader();
  view.refresh = async () => {
    const found = await loadChanged(`runs/${key}?generation=${data.generation}&count=${data.count}`);
    if (!found) return;
    const { first, count, generation, columns } = found.scalars;
    for (const name of new Set([...Object.keys(data.columns), ...Object.keys(columns)])) {
      const old = data.columns[name]?.slice(0, first) ?? Array(first).fill(null);
      data.columns[name] = old.concat(columns[name] ?? Array(count - first).fill(null));
    }
    Object.assign(data, found, { count, generation });
    setTitle(found.name, state(found.state === "active" ? found.status.phase : found.state),
      h("span", { class: "soft" }, found.path));
    if (!found.status) data.note ||= "There is no status: the run has not started, or was killed.";
    await update(data);
  };
}

// A button that executes a command on the run, and shows its result.
function commandButton(body, path, command, label) {
  const note = h("span", { class: "soft" }), result = h("div");
  const button = h("button", { click: () => report((async () => {
    [button.disabled, note.textContent] = [true, "This takes some seconds ..."];
    try {
      const found = await load(`${path}/${command}`, "POST");
      note.textContent = found.error;
      result.replaceChildren(...(found.result === null ? [] : showReport(command, found.result)));
    } finally {
      button.disabled = false;
    }
  })()) }, label);
  const changing = h("div");
  body.append(changing, h("div", { class: "bar" }, button, note), result);
  return changing;
}

const TABS = {
  curves(body) {
    const now = h("div", { class: "now" }), sections = h("div"), charts = {}, folds = {};
    const filter = h("input", { placeholder: "filter, such as loss", input: () => draw() });
    let data = null;
    body.append(now, h("div", { class: "bar" }, axisButtons(() => draw()), filter), sections);
    const update = (section, title, series, height) => {
      const text = filter.value.trim().toLowerCase();
      const isOpen = ["Returns", SECTIONS.learner, SECTIONS.rates].includes(section);
      folds[section] ??= sections.appendChild(h("details", { toggle: () => draw(), ...(isOpen ? { open: "" } : {}) },
        h("summary", {}, section), h("div", { class: "grid" })));
      if (!charts[title]) folds[section].lastChild.append((charts[title] = new Chart(title, height)).node);
      const { node } = charts[title];
      node.hidden = !title.toLowerCase().includes(text);
      if (text && !node.hidden) folds[section].open = true;
      if (folds[section].open && !node.hidden) charts[title].update(series, formatX());
    };
    const draw = () => {
      if (!data) return;
      const { columns, evaluations: { eval_return: mean, eval_return_std: std, ...axes } } = data;
      const at = columns[`run/${view.axis}`] ?? [];
      const moved = (sign) => mean.map((x, i) => x + sign * (std[i] ?? 0));
      update("Returns", "mean return", [
        { name: "evaluation ± deviation of its episodes", color: color(0), at: axes[view.axis], mean, low: moved(-1), high: moved(1) },
        { name: "training", color: color(1), at, mean: columns["run/training_return"] ?? [] }], 220);
      const order = [...Object.keys(SECTIONS), undefined];
      const first = (name) => order.find((x) => !x || name.startsWith(`${x}/`));
      const names = Object.keys(columns).filter((x) => !AXES_AND_RETURNS.includes(x));
      for (const name of names.sort((a, b) => order.indexOf(first(a)) - order.indexOf(first(b)) || a.localeCompare(b, "en", { numeric: true })))
        update(SECTIONS[first(name)] ?? OTHERS, name.replace(/^(learner|rates|run)\//, ""),
          [{ name, color: color(0), at, mean: columns[name] }], 150);
    };
    return (found) => {
      data = found;
      now.replaceChildren(...(found.panel ? describe(found.panel) : [found.note]));
      draw();
    };
  },

  nodes: (body) => ({ status, panel, note }) => {
    if (!status) return body.replaceChildren(note);
    const facts = panel.facts.map(([label, texts]) => [h("b", {}, `${label}: `),
      ...texts.map(([text, alert], i) => alerting((i ? ", " : "") + text, alert))]);
    body.replaceChildren(h("h2", {}, "Nodes"), list(facts),
      h("p", {}, h("b", {}, "waits: "), status.waiting ?? "none"),
      ...structTable("Workers", status.workers), ...structTable("External processes", status.externals),
      ...structTable("Machines", status.machines), ...structTable("Use of machines", status.monitors),
      ...Object.entries(status.monitors ?? {}).flatMap(([name, { processes, gpus }]) =>
        [...structTable(`Nodes on ${name}`, processes), ...structTable(`GPUs of ${name}`, gpus)]));
  },

  replay(body, path) {
    const counts = commandButton(body, path, "inspect", "Look into the replay");
    return ({ status, note }) => counts.replaceChildren(...(status?.replay
      ? structTable("Table", { table: status.replay, ...status.replay.shards }) : [status ? "The run has no table." : note]));
  },

  advice(body, path) {
    const sentences = commandButton(body, path, "doctor", "Examine the run");
    return ({ status, panel, note }) => {
      if (!status) return sentences.replaceChildren(note);
      const [label, [text, alert]] = panel.diagnosis;
      const advice = [...status.advice, ...Object.values(status.first_failures).map((x) => alerting(x, true))];
      sentences.replaceChildren(h("p", {}, h("b", {}, `${label}: `), alerting(text, alert)),
        h("h2", {}, "Advice"), advice.length ? list(advice) : "There is none so far.");
    };
  },

  logs(body, path) {
    const select = h("select", { "aria-label": "log", change: () => report(show()) });
    const text = h("pre", { class: "card" });
    let files = {}, shown = "";
    body.append(h("div", { class: "bar" }, select, h("span", { class: "soft" }, "its last 100 kB")), text);
    const show = async () => {
      const version = `${select.value} ${files[select.value]}`;
      if (!select.value || version === shown) return;
      const isAtEnd = text.scrollTop + text.clientHeight > text.scrollHeight - 30;
      shown = version;
      text.textContent = await (await request(`${path}/files/${encodePath(select.value)}`)).text();
      if (isAtEnd) text.scrollTop = text.scrollHeight;
    };
    return ({ logs }) => {
      files = Object.fromEntries(logs.filter(([, bytes]) => bytes));
      const names = Object.keys(files).sort(), { value } = select;
      if (`${names}` !== `${[...select.options].map((x) => x.value)}`) { // or an open list would close
        select.replaceChildren(...names.map((x) => h("option", {}, x)));
        select.value = names.includes(value) ? value : names.find((x) => x.endsWith("runner")) ?? names[0];
      }
      if (!names.length) text.textContent = "The run has no log yet.";
      return show();
    };
  },

  videos(body, path) {
    const links = h("div"), screen = h("div");
    let shown = "";
    body.append(screen, links);
    const play = async (name) => {
      const film = await (await request(`${path}/files/${encodePath(name)}`)).blob();
      const video = h("video", { controls: "", loop: "", src: URL.createObjectURL(film) });
      video.muted = true; // a browser starts no other
      URL.revokeObjectURL(screen.querySelector("video")?.src);
      screen.replaceChildren(h("h2", {}, name), video);
      await video.play();
    };
    return ({ videos }) => {
      const films = videos.filter(([name]) => /\.(mp4|webm)$/.test(name));
      if (`${films}` === shown && films.length) return;
      shown = `${films}`;
      links.replaceChildren(films.length ? list(films.map(([name, bytes, time]) =>
        [h("button", { click: () => report(play(name)) }, name), ` ${number(bytes)}B, ${new Date(time * 1000).toLocaleString()}`]))
        : "The run has no video yet.");
      if (films.length && !screen.firstChild) report(play(films[0][0]));
    };
  },

  config(body, path) {
    let config = null;
    return async () => {
      if (config) return;
      config = await load(`${path}/config`);
      const isShown = h("input", { type: "checkbox", change: () => draw() });
      const found = h("div"), changed = config.rows.filter((x) => x[2] !== null);
      const draw = () => found.replaceChildren(table(["field", "value", config.preset ?? "", "meaning"],
        (isShown.checked ? config.rows : changed).map(([name, value, preset, meaning]) =>
          [h("code", {}, name), h("code", {}, value), h("code", {}, preset ?? ""), h("span", { class: "soft" }, meaning)])));
      isShown.checked = !config.preset;
      body.replaceChildren(h("div", { class: "bar" }, config.preset
        ? `Nearest preset: ${config.preset}. Fields that differ from it: ${changed.length}.`
        : "No preset is of this algorithm.", h("label", {}, isShown, " all fields")), found);
      draw();
    };
  },
};

const encodePath = (path) => path.split("/").map(encodeURIComponent).join("/");

// The rows of the terminal's panel.
function describe({ measurements, time_left, diagnosis: [label, [text, alert]] }) {
  const rows = [...measurements, ...time_left.map((x) => ["time left", x]), [label, text, alert]];
  return rows.map(([name, ...rest]) => h("div", {}, h("span", {}, name), alerting(...rest)));
}

// The address names the run and the tab that are shown.
function navigate() {
  const where = new URLSearchParams(location.hash.slice(1));
  const run = where.get("run"), tab = Object.hasOwn(TABS, where.get("tab")) ? where.get("tab") : "curves";
  const link = (href, name, isCurrent) => h("a", { href, ...(isCurrent ? { "aria-current": "page" } : {}) }, name);
  document.getElementById("tabs").replaceChildren(link("#", "all runs", !run),
    ...(run ? Object.keys(TABS) : []).map((x) => link(`#run=${run}&tab=${x}`, x, x === tab)));
  if (run) showRun(run, tab);
  else showRuns();
  return report(view.refresh());
}

async function start() {
  if (location.hash.length < 2)
    await report(load("runs").then(({ runs }) => runs.length === 1 && history.replaceState(null, "", `#run=${runs[0].key}`)));
  addEventListener("hashchange", navigate);
  await navigate();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    if (!document.hidden) await report(view.refresh());
  }
}

start();
