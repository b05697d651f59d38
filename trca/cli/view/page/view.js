// The list of groups, and what the address after # shows.

const STEP = 60;
const OUTCOMES = [["", "any outcome"], ["all", "all won"], ["mixed", "some won"], ["none", "none won"]];
const filters = { task: "", type: "", outcome: "", operator: "" };
let runs = [], meanings = new Map(), lists = [], order = [], turnOf = 0, listed = "";

function place() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const kind = source.kinds.includes(given.kind) ? given.kind : firstKind();
  const known = runs.map((run) => run.iterations[kind] || []);
  const shared = (known[0] || []).filter((each) => known.every((one) => one.includes(each))).at(-1);
  const at = known.map((one, k) => {
    const asked = Number(given[`i${k}`]);
    return one.includes(asked) ? asked : shared ?? one.at(-1);
  });
  return { view: given.view || "list", kind, at, run: Number(given.run) || 0,
    group: Number(given.group) || 0, rollout: Number(given.rollout) || 0, side: given.side || "" };
}

function firstKind() {
  return source.kinds.find((kind) => runs.some((run) => (run.iterations[kind] || []).length))
    || source.kinds[0];
}

// Goes to the present place with changes; returns once it is drawn.
function go(changes, replace = false) {
  const now = place();
  const at = changes.at || now.at;
  const next = { ...now, ...changes };
  const hash = new URLSearchParams({ view: next.view, kind: next.kind });
  at.forEach((iteration, k) => iteration && hash.set(`i${k}`, iteration));
  if (next.view === "group") {
    for (const name of ["run", "group", "rollout", "side"]) hash.set(name, next[name]);
  }
  history[replace ? "replaceState" : "pushState"](null, "", `#${hash}`);
  return draw();
}

async function draw() {
  const turn = ++turnOf, now = place();
  const main = document.getElementById("main");
  document.getElementById("head").replaceChildren(...heading(now));
  try {
    if (now.view === "training") {
      main.replaceChildren(...flat(trainingPage(runs)));
    } else if (now.view === "group") {
      await load(now);
      const group = await source.group(now.run, now.kind, now.at[now.run], now.group);
      if (turn !== turnOf) return;
      const number = Math.min(now.rollout, group.rollouts.length - 1);
      const page = groupPage(group, number, Boolean(now.side), meanings, go);
      const name = runs.length > 1 ? el("p", { class: "quiet" }, runs[now.run].name) : null;
      main.replaceChildren(...flat([name, page]));
    } else {
      if (`${now.kind} ${now.at}` !== listed) main.replaceChildren(el("p", { class: "quiet" }, "reading…"));
      await load(now, () => turn === turnOf && main.replaceChildren(...flat(listPage(now))));
      if (turn === turnOf) main.replaceChildren(...flat(listPage(now)));
    }
  } catch (error) {
    if (turn === turnOf) main.replaceChildren(el("p", { class: "note" }, error.message));
  }
}

function flat(nodes) {
  return nodes.flat(Infinity).filter(Boolean);
}

// Reads the lists of the iterations that are shown, once.
async function load(now, seen = () => {}) {
  const name = `${now.kind} ${now.at}`;
  if (name === listed) return;
  const fresh = runs.map(() => []);
  lists = fresh;
  await Promise.all(runs.map((run, k) => now.at[k] && source.list(k, now.kind, now.at[k], (page) => {
    for (const group of page.groups) {
      for (const each of group.rollouts) each.names = each.fired.map((n) => page.operators[n]);
      fresh[k].push(group);
    }
    if (lists === fresh && page.groups.length < page.total && fresh[k].length <= page.groups.length) seen();
  })));
  if (lists === fresh) listed = name;
}

function heading(now) {
  const link = (view, words) => el("button", {
    class: "link", "aria-pressed": now.view === view || (view === "list" && now.view === "group"),
    onclick: () => go({ view }),
  }, words);
  const kinds = source.kinds.filter((kind) => runs.some((run) => (run.iterations[kind] || []).length));
  const picks = now.view === "training" ? [] : runs.map((run, k) => choice(
    `iteration of ${run.name}`, (run.iterations[now.kind] || []).map((i) => [i, `${runs.length > 1 ? run.name : "iteration"} ${i}`]), now.at[k],
    (value) => {
      const at = now.at.map((old, n) => (n === k ? Number(value) : old));
      go({ view: "list", at });
    }));
  return [
    el("div", { class: "brand" }, el("b", {}, runs.map((run) => run.name).join("  |  ")),
      el("span", { class: "quiet" }, ` ${[...new Set(runs.map((run) => `${run.algorithm} · ${run.env}`))].join(" | ")}`)),
    el("nav", {}, link("list", "Rollouts"), link("training", "Training"),
      now.view !== "training" && kinds.length > 1 ? choice("kind", kinds.map((kind) =>
        [kind, kind === "train" ? "training" : "held out"]), now.kind,
      (kind) => go({ view: "list", kind, at: runs.map(() => 0) })) : null, picks),
  ];
}

function choice(label, options, value, changed) {
  const made = el("select", { "aria-label": label, onchange: () => changed(made.value) },
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
  runs = found;
  meanings = new Map(runs.flatMap((run) => run.operators.map((each) => [each.id, each])));
  document.title = `${runs.map((run) => run.name).join(", ")} – TRCA rollouts`;
  return draw();
}).catch((error) => {
  document.getElementById("main").replaceChildren(el("p", { class: "note" }, error.message));
});
