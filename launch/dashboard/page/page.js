// Page: asks the server for data every few seconds, and shows it.

import { Chart, color, h, number, seconds, swatch } from "./charts.js";
import { structTable, table } from "./tables.js";

const PERIOD_MS = 2000;
const COMPARISON_MS = 10000;
const AXES = { env_steps: "steps", trainer_steps: "updates", wall_s: "time" };
const COLORED = 8; // groups with a color, those of the highest returns
// Sections of metrics, by the first word of their names; the first three are open.
const SECTIONS = [["returns", "Returns"], ["learner", "Losses and other metrics of the learner"], ["rates", "Rates"],
  ["replay", "Replay"], ["variables", "Variables"], ["run", "Counts"], ["", "Nodes and others"]];
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

async function request(path) {
  const response = await fetch(`api/${path}`, { headers: { "X-Slipway-Token": sessionStorage.token ?? "" } });
  if (!response.ok) throw new Error(await response.text());
  return response;
}
const load = async (path) => (await request(path)).json();

// Returns null where the data is that of the last call.
async function loadChanged(path) {
  const text = await (await request(path)).text();
  if (text === view.last) return null;
  view.last = text;
  return JSON.parse(text);
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
const alerting = (text, isAlert) => h("span", isAlert ? { class: "alert" } : {}, text);
const formatX = () => (view.axis === "wall_s" ? seconds : number);

function axisPicker(redraw) {
  const select = h("select", { "aria-label": "axis", change: () => {
    view.axis = select.value;
    redraw();
  } }, Object.entries(AXES).map(([axis, name]) => h("option", { value: axis }, `by ${name}`)));
  select.value = view.axis;
  return select;
}

function setTitle(name, ...rest) {
  document.title = `${name} · Slipway`;
  document.getElementById("title").replaceChildren(name, ...rest);
}

// All runs: the comparison of their groups, and a table.
function showRuns() {
  const chart = new Chart("mean return of an evaluation", 300);
  const groups = h("div"), runs = h("div");
  let drawn = 0;
  const draw = async () => {
    drawn = Date.now();
    const found = await load(`comparison/${view.axis}`);
    found.sort((a, b) => b.final[0] - a.final[0]).forEach((x, i) => (x.color = i < COLORED ? color(i) : undefined));
    comparison.hidden = !found.length;
    chart.update(found.flatMap((x) => x.lines.map((line) => ({ ...line, name: x.fields || x.name, color: x.color }))), formatX());
    groups.replaceChildren(table(["runs of one config", "differs in", "final return", "95 % interval"], found.map((x) => [
      h("span", {}, swatch(x.color), h("a", { href: `#run=${x.key}` }, x.name)), x.fields,
      number(x.final[0]), x.final[1] === null ? "" : `${number(x.final[1])} to ${number(x.final[2])}`])));
  };
  const comparison = h("section", { hidden: "" }, h("div", { class: "bar" }, axisPicker(() => report(draw()))), chart.node, h("h2", {}, "Comparison"), groups);
  main.replaceChildren(comparison, h("h2", {}, "Runs"), runs);
  setTitle("all runs");
  view.refresh = async () => {
    const found = await loadChanged("runs");
    const names = ["run", "state", "steps", "updates", "time", "steps/s", "training", "evaluation", "best", "note"];
    if (found) runs.replaceChildren(table(names, found.map(([key, name, status, numbers, note]) => [
      h("a", { href: `#run=${key}` }, name), state(status),
      ...numbers.map((value, i) => (i === 2 ? seconds : number)(value)), note])));
    if (Date.now() - drawn > COMPARISON_MS) await draw();
  };
}

// One run: one reply has all that changes, of which each tab shows a part.
function showRun(key, tab) {
  const body = h("div");
  main.replaceChildren(body);
  const update = TABS[tab](body, `runs/${key}`);
  view.refresh = async () => {
    const found = await loadChanged(`runs/${key}`);
    if (!found) return;
    setTitle(found.name, state(found.state === "active" ? found.status.phase : found.state),
      h("span", { class: "soft" }, found.path));
    await update(found);
  };
}

// A button that executes a command on the run, and shows what it prints.
function commandButton(body, path, command, label) {
  const changing = h("div"), printed = h("pre", { class: "card", hidden: "" });
  const button = h("button", { click: () => {
    [button.disabled, printed.hidden, printed.textContent] = [true, false, "This takes some seconds ..."];
    report(load(`${path}/${command}`).then((text) => (printed.textContent = text)).finally(() => (button.disabled = false)));
  } }, label);
  body.append(changing, h("div", { class: "bar" }, button), printed);
  return changing;
}

// A list of the run's files of a kind, of which one is shown on a screen.
function picker(body, kind, screen, show) {
  const select = h("select", { "aria-label": kind, change: () => report(show(select.value)) });
  body.append(h("div", { class: "bar" }, select), screen);
  return ({ files }) => {
    const names = files.filter((x) => x.startsWith(`${kind}s/`)), { value } = select;
    if (`${names}` !== `${[...select.options].map((x) => x.value)}`) { // or an open list would close
      select.replaceChildren(...names.map((x) => h("option", {}, x)));
      select.value = names.includes(value) ? value : names.find((x) => x.endsWith("runner")) ?? names.at(-1);
    }
    if (names.length) return show(select.value);
    screen.textContent = `The run has no ${kind} yet.`;
  };
}

const TABS = {
  curves(body) {
    const now = h("div", { class: "now" }), charts = new Map();
    const filter = h("input", { placeholder: "filter, such as loss", input: () => draw() });
    const folds = new Map(SECTIONS.map(([first, title], i) => [first, h("details", { toggle: () => draw(), ...(i < 3 ? { open: "" } : {}) },
      h("summary", {}, title), h("div", { class: "grid" }))]));
    let data = null;
    body.append(now, h("div", { class: "bar" }, axisPicker(() => draw()), filter), ...folds.values());
    const update = (name, series, height) => {
      const fold = folds.get(name.split("/")[0]) ?? folds.get(""), text = filter.value.trim().toLowerCase();
      const chart = charts.get(name) ?? new Chart(name.replace(/^(returns|learner|rates|run)\//, ""), height);
      if (!charts.has(name)) fold.lastChild.append(chart.node);
      charts.set(name, chart);
      chart.node.hidden = !name.toLowerCase().includes(text);
      if (text && !chart.node.hidden) fold.open = true;
      if (fold.open && !chart.node.hidden) chart.update(series, formatX());
    };
    const draw = () => {
      if (!data) return;
      const { metrics, evaluations: { eval_return: mean, eval_return_std: std, ...axes } } = data;
      const at = metrics[`run/${view.axis}`] ?? [];
      const moved = (sign) => mean.map((x, i) => x + sign * (std[i] ?? 0));
      update("returns/mean return", [
        { name: "evaluation ± deviation of its episodes", color: color(0), at: axes[view.axis], mean, low: moved(-1), high: moved(1) },
        { name: "training", color: color(1), at, mean: metrics["run/training_return"] ?? [] }], 220);
      for (const name of Object.keys(metrics).sort((a, b) => a.localeCompare(b, "en", { numeric: true })))
        update(name, [{ name, color: color(0), at, mean: metrics[name] }], 150);
    };
    return (found) => {
      data = found;
      now.replaceChildren(...describe(found));
      draw();
    };
  },

  nodes: (body) => (data) => {
    const { waiting, workers, externals, machines, monitors } = data.status ?? {};
    body.replaceChildren(h("div", { class: "now" }, describe(data)), h("p", {}, h("b", {}, "waits: "), waiting ?? "none"),
      ...structTable("Workers", workers), ...structTable("External processes", externals),
      ...structTable("Machines", machines), ...structTable("Use of machines", monitors),
      ...Object.entries(monitors ?? {}).flatMap(([name, { processes, gpus }]) =>
        [...structTable(`Nodes on ${name}`, processes), ...structTable(`GPUs of ${name}`, gpus)]));
  },

  replay(body, path) {
    const counts = commandButton(body, path, "inspect", "Look into the replay");
    return ({ status, note }) => counts.replaceChildren(...(status?.replay
      ? structTable("Table", { table: status.replay, ...status.replay.shards }) : [note || "The run has no table."]));
  },

  advice(body, path) {
    const sentences = commandButton(body, path, "doctor", "Examine the run");
    return ({ status, note }) => {
      const advice = [...status?.advice ?? [], ...Object.values(status?.first_failures ?? {}).map((x) => alerting(x, true))];
      sentences.replaceChildren(h("h2", {}, "Advice"), advice.length ? h("ul", {}, advice.map((x) => h("li", {}, x))) : note || "There is none so far.");
    };
  },

  logs(body, path) {
    const screen = h("pre", { class: "card" });
    return picker(body, "log", screen, async (name) => {
      const isAtEnd = screen.scrollTop + screen.clientHeight > screen.scrollHeight - 30;
      screen.textContent = await load(`${path}/files/${encodePath(name)}`);
      if (isAtEnd) screen.scrollTop = screen.scrollHeight;
    });
  },

  videos(body, path) {
    const screen = h("div");
    let shown = "";
    return picker(body, "video", screen, async (name) => {
      if (name === shown) return;
      shown = name;
      const film = await (await request(`${path}/files/${encodePath(name)}`)).blob();
      const video = h("video", { controls: "", loop: "", autoplay: "", src: URL.createObjectURL(film) });
      video.muted = true; // or no browser starts it
      URL.revokeObjectURL(screen.querySelector("video")?.src);
      screen.replaceChildren(video);
    });
  },

  config(body, path) {
    let config = null;
    return async () => {
      if (config) return;
      config = await load(`${path}/config`);
      const show = (rows) => table(["field", "value", config.preset ?? ""], rows.map((row) => row.map((x) => h("code", {}, x ?? ""))));
      const changed = config.rows.filter(([, value, preset]) => value !== preset);
      body.replaceChildren(...(config.preset ? [h("h2", {}, `Differences to the nearest preset, ${config.preset}`), show(changed)] : []),
        h("h2", {}, "All fields"), show(config.rows));
    };
  },
};

const encodePath = (path) => path.split("/").map(encodeURIComponent).join("/");

// The rows of the terminal's panel, or why there are none.
const describe = ({ panel, note }) => panel.map(([name, ...rest]) => h("div", {}, h("span", {}, name), alerting(...rest))).concat(note);

// The address names the run and the tab that are shown.
function navigate() {
  const where = new URLSearchParams(location.hash.slice(1));
  const run = where.get("run"), tab = Object.hasOwn(TABS, where.get("tab")) ? where.get("tab") : "curves";
  const link = (href, name, isCurrent) => h("a", { href, ...(isCurrent ? { "aria-current": "page" } : {}) }, name);
  document.getElementById("tabs").replaceChildren(link("#", "all runs", !run),
    ...(run ? Object.keys(TABS) : []).map((x) => link(`#run=${run}&tab=${x}`, x, x === tab)));
  view.last = "";
  if (run) showRun(run, tab);
  else showRuns();
  return report(view.refresh());
}

async function start() {
  if (location.hash.length < 2)
    await report(load("runs").then((runs) => runs.length === 1 && history.replaceState(null, "", `#run=${runs[0][0]}`)));
  addEventListener("hashchange", navigate);
  await navigate();
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    if (!document.hidden) await report(view.refresh());
  }
}

start();
