// Curves over training: success, rubric rewards, and how often each operator fired.

const WINDOW = 5;
let tableOpen = false;

function column(run, name) {
  const at = run.metrics.trajectories || [];
  return (run.metrics[name] || []).flatMap((y, k) =>
    (y === null || at[k] === null ? [] : [[at[k], y]]));
}

function trailing(points) {
  return points.map(([x], k) => {
    const part = points.slice(Math.max(0, k - WINDOW + 1), k + 1);
    return [x, part.reduce((sum, p) => sum + p[1], 0) / part.length];
  });
}

function named(run, words) {
  return runs.length > 1 ? `${run.name}: ${words}` : words;
}

// A metric of an iteration; undefined without metrics of the iteration.
function metricAt(run, name, iteration) {
  return (run.metrics[name] || [])[run.metrics.iteration.indexOf(iteration)];
}

function described(run, iteration) {
  const count = metricAt(run, "trajectories", iteration), success = metricAt(run, "success_rate", iteration);
  return named(run, [`iteration ${iteration}`, count ? `${count.toLocaleString("en")} trajectories` : null,
    typeof success === "number" ? `success ${percent(success)}` : null].filter(Boolean).join(", "));
}

// The curve of success, on which a click or the arrow keys select the iterations that are shown.
function successCurve(now, low) {
  const two = runs.length > 1;
  const series = runs.flatMap((run, k) => {
    const color = COLORS.series[k], held = two ? color : COLORS.minus;
    const points = column(run, "success_rate"), measured = column(run, "evaluation/success_rate");
    return [
      { color, points, dots: 2.5 },
      { name: named(run, `training, mean of ${WINDOW} iterations`), color, points: trailing(points) },
      ...(measured.length ? [{
        name: named(run, "held out"), color: held, points: measured, dots: 4, line: true, dashed: true,
      }] : []),
    ];
  });
  const all = stops[now.kind] || [];
  const here = all.findIndex((stop) => stop.at[0] === now.at[0] && stop.at.at(-1) === now.at.at(-1));
  const select = (n, changes, replace) => all[n] && go({ ...changes, at: all[n].at }, replace);
  const keys = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1, Home: 0,
    End: all.length - 1 };
  const over = (drawing, { x, valueAt, top, bottom }) => {
    const counts = all.map((stop) => stop.reached.filter((count) => count));
    for (const count of counts.flat()) {
      drawing.append(svg("line", { x1: x(count), x2: x(count), y1: bottom, y2: bottom + 4, stroke: COLORS.quiet }));
    }
    runs.forEach((run, k) => {
      const count = metricAt(run, "trajectories", now.at[k]);
      if (count) {
        drawing.append(svg("line", { x1: x(count), x2: x(count), y1: top, y2: bottom, "stroke-width": 2,
          stroke: two ? COLORS.series[k] : COLORS.ink, "stroke-dasharray": k ? "6 4" : null }));
      }
    });
    fill(drawing, {
      id: "curve", role: "slider", tabindex: 0, class: low ? "chart curve low" : "chart curve",
      "aria-label": "iteration", "aria-valuemin": 1, "aria-valuemax": all.length, "aria-valuenow": here + 1,
      "aria-valuetext": runs.map((run, k) => described(run, now.at[k])).join("; "),
      onclick: (event) => {
        const gaps = counts.map((each) => Math.min(...each.map((n) => Math.abs(n - valueAt(event.clientX)))));
        select(gaps.indexOf(Math.min(...gaps)), { view: "list" });
      },
      onkeydown: (event) => {
        if (event.key === "Enter") go({ view: "list" });
        if (!(event.key in keys)) return;
        event.preventDefault();
        select(keys[event.key], {}, true);
      },
    }, []);
  };
  const size = low ? [Math.max(320, document.getElementById("main").clientWidth - 70), 120] : [560, 260];
  const figure = chart("Success", series, { percents: true, size, over });
  figure.firstChild.append(el("span", { class: "quiet hint" }, "click, or use the arrow keys: select an iteration"));
  return figure;
}

function iterationTable(now) {
  const rate = (value) => el("td", { class: "figure" }, typeof value === "number" ? percent(value) : "–");
  const rows = runs.flatMap((run, k) => run.iterations[now.kind].map((iteration) => el("tr", {},
    runs.length > 1 ? el("td", {}, run.name) : null,
    el("td", {}, el("button", { class: "link",
      onclick: () => go({ view: "list", at: stopOf(now.kind, k, iteration) }) }, `iteration ${iteration}`)),
    el("td", { class: "figure" }, (metricAt(run, "trajectories", iteration) || "–").toLocaleString("en")),
    rate(metricAt(run, "success_rate", iteration)), rate(metricAt(run, "evaluation/success_rate", iteration)))));
  const head = [...(runs.length > 1 ? ["run"] : []), "iteration", "trajectories", "success", "held out"];
  const table = el("details", { open: tableOpen, ontoggle: () => { tableOpen = table.open; } },
    el("summary", {}, "Success as a table"), el("div", { class: "scroll panel" }, el("table", {},
      el("thead", {}, el("tr", {}, head.map((name) => el("th", {}, name)))), el("tbody", {}, rows))));
  return table;
}

function trainingPage(now) {
  const two = runs.length > 1;
  const rewards = runs.flatMap((run, k) => [
    { name: named(run, "Breakthrough"), color: COLORS.breakthrough, dashed: k > 0,
      points: column(run, "breakthrough_reward") },
    { name: named(run, "Foundational"), color: COLORS.foundational, dashed: k > 0,
      points: column(run, "foundational_reward") },
  ]);
  const operators = new Map();
  for (const run of runs) for (const each of run.operators) operators.set(each.id, each);
  for (const run of runs) {
    for (const name of Object.keys(run.metrics)) {
      const id = name.replace("operators/", "");
      if (id !== name && !operators.has(id)) operators.set(id, { id, category: "other", description: "" });
    }
  }
  const categories = [...new Set([...operators.values()].map((each) => each.category))];
  return [
    el("section", { class: "charts" }, successCurve(now, false), chart("Rubric reward per step", rewards)),
    iterationTable(now),
    operators.size ? el("p", { class: "legend" }, "Share of all steps on which an operator fired",
      two ? runs.map((run, k) => {
        const mark = el("span", { class: "mark" });
        mark.style.borderColor = COLORS.series[k];
        return el("span", {}, mark, run.name);
      }) : null) : null,
    categories.map((category) => el("section", {},
      el("h2", {}, el("span", { class: `operator ${category}` }, category)),
      el("div", { class: "multiples" },
        [...operators.values()].filter((each) => each.category === category).map((each) => {
          const series = runs.map((run, k) => (
            { color: COLORS.series[k], points: column(run, `operators/${each.id}`) }));
          const figure = chart(each.id, series, { percents: true, small: true });
          figure.title = each.description;
          return figure;
        })))),
  ];
}
