// The list of groups, and what the address after # shows.

const STEP = 60;
const OUTCOMES = [["", "any outcome"], ["all", "all won"], ["mixed", "some won"], ["none", "none won"]];
const filters = { task: "", type: "", outcome: "", operator: "" };
const POLL_MS = 4000;
let runs = [], stops = {}, meanings = new Map(), lists = [], order = [], turnOf = 0, listed = "";

function place() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const kind = source.kinds.includes(given.kind) ? given.kind : firstKind();
  const asked = runs.map((run, k) => (run.iterations[kind] || []).find((each) => each === Number(given[`i${k}`])));
  const first = asked.findIndex((each) => each);
  const near = first < 0 ? (stops[kind] || []).find((stop) => stop.start)?.at : stopOf(kind, first, asked[first]);
  const at = runs.map((run, k) => asked[k] || (near || [])[k]);
  return { view: given.view || "list", kind, at, run: Number(given.run) || 0,
    group: Number(given.group) || 0, rollout: Number(given.rollout) || 0, side: given.side || "" };
}

// The iterations that are shown with an iteration of a run: those with the nearest trajectories.
function stopOf(kind, run, iteration) {
  const gap = ({ reached }) => Math.abs(reached[0] - reached.at(-1)) || 0;
  const found = stops[kind].filter((stop) => stop.at[run] === iteration);
  return found.reduce((best, stop) => (gap(stop) < gap(best) ? stop : best)).at;
}

function firstKind() {
  return source.kinds.find((kind) => runs.some((run) => (run.iterations[kind] || []).length))
    || source.kinds[0];
}

// Goes to the present place with changes; returns once it is drawn.
function go(changes, replace = false) {
  address({ ...place(), ...changes }, replace);
  return draw();
}

function address(next, replace) {
  const hash = new URLSearchParams({ view: next.view, kind: next.kind });
  next.at.forEach((iteration, k) => iteration && hash.set(`i${k}`, iteration));
  if (next.view === "group") {
    for (const name of ["run", "group", "rollout", "side"]) hash.set(name, next[name]);
  }
  history[replace ? "replaceState" : "pushState"](null, "", `#${hash}`);
}

// Replaces the content of an element; the focus stays on the control with the same id.
function show(id, nodes) {
  const focused = document.activeElement?.id;
  document.getElementById(id).replaceChildren(...flat(nodes));
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

async function draw() {
  const turn = ++turnOf, now = place();
  show("head", heading(now));
  try {
    if (now.view === "training") {
      show("main", trainingPage(now));
    } else if (now.view === "group") {
      await load(now);
      const group = await source.group(now.run, now.kind, now.at[now.run], now.group);
      if (turn !== turnOf) return;
      const number = Math.min(now.rollout, group.rollouts.length - 1);
      const page = groupPage(group, number, Boolean(now.side), meanings, go);
      const name = runs.length > 1 ? el("p", { class: "quiet" }, runs[now.run].name) : null;
      show("main", [name, page]);
    } else {
      const curve = () => el("section", { id: "picker" }, picker(now));
      if (`${now.kind} ${now.at}` !== listed) show("main", [curve(), el("p", { class: "quiet" }, "reading…")]);
      await load(now);
      if (turn === turnOf) show("main", [curve(), listPage(now)]);
    }
  } catch (error) {
    if (turn === turnOf) show("main", [el("p", { class: "note" }, error.message)]);
  }
}

function picker(now) {
  const counts = runs.map((run, k) => metricAt(run, "trajectories", now.at[k]));
  const differ = now.at.some((iteration, k) => counts[k] ? counts[k] !== counts[0] : iteration !== now.at[0]);
  const measured = runs.some((run) => column(run, "success_rate").length);
  return [measured ? successCurve(now, true) : null, el("p", { class: "quiet", role: "status" },
    differ ? `Not the same number of trajectories. ${runs.map((run, k) => described(run, now.at[k])).join("; ")}.` : null)];
}

// Shows what a running run has written since, and leaves the list and the rollout as they are.
async function update() {
  if (document.hidden || document.activeElement?.matches("header select")) return;
  const found = await source.about().catch(() => null);  // the server may be back at the next try
  if (!found) return;
  const now = place();
  address(now, true);
  take(found);
  show("head", heading(now));
  if (now.view === "training") show("main", trainingPage(now));
  else if (document.getElementById("picker")) show("picker", picker(now));
}

function take(found) {
  ({ runs, stops } = found);
  meanings = new Map(runs.flatMap((run) => run.operators.map((each) => [each.id, each])));
}

function flat(nodes) {
  return nodes.flat(Infinity).filter(Boolean);
}

// Reads the lists of the iterations that are shown, once.
async function load(now) {
  const name = `${now.kind} ${now.at}`;
  if (name === listed) return;
  const turn = turnOf;
  const fresh = await Promise.all(runs.map(async (run, k) => {
    if (!now.at[k]) return [];
    const { groups, operators } = await source.list(k, now.kind, now.at[k]);
    for (const each of groups.flatMap((group) => group.rollouts)) each.names = each.fired.map((n) => operators[n]);
    return groups;
  }));
  if (turn === turnOf) [lists, listed] = [fresh, name];
}

function heading(now) {
  const link = (view, words) => el("button", {
    class: "link", id: `to-${view}`, "aria-pressed": now.view === view || (view === "list" && now.view === "group"),
    onclick: () => go({ view }),
  }, words);
  const kinds = source.kinds.filter((kind) => runs.some((run) => (run.iterations[kind] || []).length));
  const view = now.view === "training" ? "training" : "list";
  const picks = runs.map((run, k) => choice(
    `iteration of ${run.name}`, (run.iterations[now.kind] || []).map((i) => [i, `${runs.length > 1 ? run.name : "iteration"} ${i}`]), now.at[k],
    (value) => go({ view, at: stopOf(now.kind, k, Number(value)) }), `pick${k}`));
  return [
    el("div", { class: "brand" }, el("b", {}, runs.map((run) => run.name).join("  |  ")),
      el("span", { class: "quiet" }, ` ${[...new Set(runs.map((run) => `${run.algorithm} · ${run.env}`))].join(" | ")}`)),
    el("nav", {}, link("list", "Rollouts"), link("training", "Training"),
      kinds.length > 1 ? choice("kind", kinds.map((kind) =>
        [kind, kind === "train" ? "training" : "held out"]), now.kind,
      (kind) => go({ view, kind, at: runs.map(() => 0) }), "kind") : null, picks),
  ];
}

function choice(label, options, value, changed, id = null) {
  const made = el("select", { id, "aria-label": label, onchange: () => changed(made.value) },
    options.map(([key, words]) => el("option", { value: key, selected: String(key) === String(value) }, words)));
  return made;
}

// Groups of the same task in one row; a task that was played twice has two rows.
function joined() {
  const rows = new Map();
  lists.forEach((groups, k) => {
    const times = new Map();
    for (const group of groups) {
      const time = times.get(group.task) || 0;
      times.set(group.task, time + 1);
      const key = `${time} ${group.task}`;
      if (!rows.has(key)) rows.set(key, { task: group.task, type: group.type, sides: runs.map(() => null) });
      rows.get(key).sides[k] = group;
    }
  });
  return [...rows.values()];
}

function passes(row) {
  return row.task.toLowerCase().includes(filters.task.toLowerCase())
    && (!filters.type || row.type === filters.type)
    && row.sides.some((group) => group && outcome(group) && (!filters.operator
      || group.rollouts.some((each) => each.names.includes(filters.operator))));
}

function outcome(group) {
  const won = group.rollouts.filter((each) => each.won).length, all = group.rollouts.length;
  return { "": true, all: won === all && all > 0, mixed: won > 0 && won < all, none: won === 0 }[filters.outcome];
}

function listPage(now) {
  const rows = joined(), body = el("tbody"), told = el("span", { class: "quiet" });
  // A filter that fits nothing here stands among its options, so that it can be taken back.
  const options = (name, there) => [...new Set([...there, filters[name]])].filter(Boolean).sort();
  const types = options("type", rows.map((row) => row.type));
  const known = options("operator", lists.flat().flatMap((g) => g.rollouts.flatMap((r) => r.names)));
  const more = el("button", { class: "tab wide", onclick: () => show(STEP) }, "show more");
  let found = [], shown = 0;
  function show(count) {
    body.append(...found.slice(shown, shown + count).map((row) => listRow(row, now)));
    shown += count;
    more.hidden = shown >= found.length;
  }
  function filter() {
    found = rows.filter(passes);
    order = found.flatMap((row) => row.sides.flatMap((group, run) =>
      (group && group.rollouts.length ? [{ run, group: group.group, size: group.rollouts.length }] : [])));
    const rollouts = found.reduce((sum, row) => sum + row.sides.reduce((n, g) => n + (g ? g.rollouts.length : 0), 0), 0);
    told.textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} groups, `
      + `${rollouts.toLocaleString("en")} rollouts`;
    body.replaceChildren();
    shown = 0;
    show(STEP);
  }
  const set = (name) => (value) => { filters[name] = value; filter(); };
  const task = el("input", { type: "search", placeholder: "task", "aria-label": "task", value: filters.task,
    oninput: () => set("task")(task.value) });
  const head = ["task", "type", ...runs.flatMap((run) => [
    runs.length > 1 ? run.name : "rollouts", "won", "steps", symbol("r^F"), symbol("r^B")])];
  filter();
  return [
    el("div", { class: "filters" }, task,
      choice("type", [["", "any type"], ...types.map((t) => [t, t])], filters.type, set("type")),
      choice("outcome", OUTCOMES, filters.outcome, set("outcome")),
      choice("operator", [["", "any operator"], ...known.map((o) => [o, `${o} fired`])],
        filters.operator, set("operator")), told),
    el("section", { class: "scroll panel" }, el("table", { class: "list" },
      el("thead", {}, el("tr", {}, head.map((name) => el("th", {}, name)))), body)),
    more,
    el("p", { class: "legend" }, el("span", {}, el("span", { class: "pip won" }), "won"),
      el("span", {}, el("span", { class: "pip lost" }), "lost"),
      el("span", {}, el("span", { class: "pip lost fired" }), "the operator fired"),
      el("span", {}, "steps and rubric rewards: mean of the rollouts")),
  ];
}

function listRow(row, now) {
  return el("tr", {}, el("td", { class: "task" }, row.task), el("td", {}, row.type),
    row.sides.map((group, run) => (group ? side(group, run) : [el("td", { class: "quiet", colspan: 5 }, "–")])));
}

function side(group, run) {
  const all = group.rollouts.length;
  const mean = (key) => group.rollouts.reduce((sum, each) => sum + each[key], 0) / all;
  const pips = group.rollouts.map((each, k) => {
    const mark = filters.operator && each.names.includes(filters.operator) ? " fired" : "";
    const words = `rollout ${rolloutName(each)}: ${each.won ? "won" : "lost"} in ${each.steps} steps`;
    return el("button", { class: `pip ${each.won ? "won" : "lost"}${mark}`, title: words, "aria-label": words,
      onclick: () => go({ view: "group", run, group: group.group, rollout: k, side: "" }) });
  });
  const missing = group.missing ? el("span", { class: "flag" }, `${group.missing} missing`) : null;
  if (!all) return [el("td", {}, missing), el("td"), el("td"), el("td"), el("td")];
  const won = group.rollouts.filter((each) => each.won).length;
  return [
    el("td", { class: "pips" }, pips, missing), el("td", { class: "figure" }, `${won}/${all}`),
    el("td", { class: "figure" }, mean("steps").toFixed(1)),
    el("td", { class: "figure" }, signed(mean("foundational"))),
    el("td", { class: "figure" }, signed(mean("breakthrough")))];
}

// The next or the previous rollout, on into the next group of the list.
function move(by) {
  const now = place();
  if (now.view !== "group") return;
  if (!order.length) order = lists.flatMap((groups, run) => groups.filter((g) => g.rollouts.length).map((g) => (
    { run, group: g.group, size: g.rollouts.length })));
  const here = order.findIndex((each) => each.run === now.run && each.group === now.group);
  const rollout = now.rollout + by;
  if (here < 0 || (rollout >= 0 && rollout < order[here].size)) {
    if (rollout >= 0) go({ rollout, side: "" }, true);
    return;
  }
  const next = order[here + by];
  if (next) go({ run: next.run, group: next.group, rollout: by > 0 ? 0 : next.size - 1, side: "" }, true);
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "Escape") go({ view: "list" });
});
window.addEventListener("popstate", draw);

source.about().then((found) => {
  take(found);
  document.title = `${runs.map((run) => run.name).join(", ")} – TRCA rollouts`;
  if (!embedded) setInterval(update, POLL_MS);
  return draw();
}).catch((error) => {
  document.getElementById("main").replaceChildren(el("p", { class: "note" }, error.message));
});
