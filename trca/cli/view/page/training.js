// Curves over training: success, rubric rewards, and how often each operator fired.

const WINDOW = 5;

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

function trainingPage(runs) {
  const two = runs.length > 1;
  const named = (run, words) => (two ? `${run.name}: ${words}` : words);
  const success = runs.flatMap((run, k) => {
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
    el("section", { class: "charts" }, chart("Success", success, { percents: true }),
      chart("Rubric reward per step", rewards)),
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
