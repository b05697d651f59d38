// One rollout group: a rollout turn by turn, or all of them side by side.

const ROWS = [
  ["foundational", "r^F", "Foundational reward", "reward"],
  ["breakthrough", "r^B", "Breakthrough reward", "reward"],
  ["return", "R", "completion-aware return", "return"],
  ["episode", "A^E", "advantage of the rollout's outcome", "advantage"],
  ["step", "A^S", "advantage of the step within its context or stage", "advantage"],
  ["advantage", "A", "advantage that was learned from", "advantage"],
];  // key of a step, symbol, meaning, and what shares its scale
const CLASSES = [0.9, 0.5, 0.2, 0.05, 0];

// r^F as an r with a raised F.
function symbol(text) {
  const [base, raised] = text.split("^");
  return el("i", { class: "symbol" }, base, raised ? el("sup", {}, raised) : null);
}

function rolloutName(rollout) {
  const role = rollout.agent === "default_agent" ? "" : ` ${rollout.agent}`;
  return `${rollout.index + 1}${role}`;
}

function verdict(rollout) {
  return rollout.won ? "won" : rollout.truncated ? "lost, cut off at the step limit" : "lost";
}

function groupPage(group, number, side, meanings, go) {
  const rollout = group.rollouts[number];
  const tabs = group.rollouts.map((each, k) => el("button", {
    class: `tab ${each.won ? "won" : "lost"}`, "aria-pressed": !side && k === number,
    title: `rollout ${rolloutName(each)}: ${verdict(each)}`,
    onclick: () => go({ rollout: k, side: "" }),
  }, el("span", { class: `pip ${each.won ? "won" : "lost"}` }), rolloutName(each)));
  const won = group.rollouts.filter((each) => each.won).length;
  return [
    el("section", { class: "title" },
      el("h1", {}, group.instruction || group.task),
      el("p", { class: "quiet" }, `${group.task} · ${group.type} · group ${group.group} · `
        + `${won} of ${group.rollouts.length} won`),
      side ? null : el("p", { class: "quiet" }, `rollout ${rolloutName(rollout)} · `,
        el("code", {}, rollout.inspect)),
      group.notes.map((note) => el("p", { class: "note" }, note)),
      el("div", { class: "tabs" }, tabs,
        group.rollouts.length > 1 ? el("button", {
          class: "tab wide", "aria-pressed": side, onclick: () => go({ side: side ? "" : "1" }),
        }, "side by side") : null,
        !side && rollout.drawings.length ? textButton() : null,
        el("span", { class: "keys" }, el("kbd", {}, "j"), el("kbd", {}, "k"), " next, previous"))),
    side ? sideBySide(group, meanings, go) : oneRollout(group, rollout, meanings),
  ];
}

function oneRollout(group, rollout, meanings) {
  return [
    strip(rollout),
    el("p", { class: "legend" }, "tokens by probability:", CLASSES.map((low, k) =>
      el("span", { class: "tokens" }, el("span", { class: `p${k}` },
        k === 0 ? "≥ 0.9" : low ? `≥ ${low}` : "less"))),
      el("span", { class: "tokens" }, el("span", { class: "act" }, "action"))),
    el("ol", { class: "turns" }, rollout.steps.map((step, k) =>
      turn(step, rollout.drawings[k], k, group.rollouts.length, meanings))),
    el("section", { class: "turn end" }, observed(rollout.last_observation, rollout.drawings.at(-1)),
      el("p", { class: rollout.won ? "verdict won" : "verdict lost" },
        `${verdict(rollout)} after ${rollout.steps.length} steps, score ${rollout.score}`)),
  ];
}

// Bars of every step, one row for each number.
function strip(rollout) {
  const rows = ROWS.filter(([key]) => rollout.steps.some((s) => s[key] !== undefined && s[key] !== null));
  const room = Math.min(document.getElementById("main").clientWidth, 1360) - 150;
  const cell = Math.max(14, Math.min(72, Math.floor(room / Math.max(1, rollout.steps.length))));
  const [left, height] = [40, 34];
  const width = left + cell * rollout.steps.length;
  const drawing = svg("svg", {
    width: width + 66, height: height * rows.length + 18, role: "img", class: "strip",
    "aria-label": "rewards and advantages by step",
  });
  rows.forEach(([key, name, words, scale], row) => {
    const alike = rows.filter((each) => each[3] === scale);
    const values = alike.flatMap(([other]) => rollout.steps.map((s) => Math.abs(s[other] || 0)));
    const most = Math.max(...values), middle = row * height + height / 2;
    const [base, raised] = name.split("^");
    drawing.append(
      svg("text", { x: 2, y: middle + 4, class: "name" }, base,
        raised ? svg("tspan", { dy: -5, "font-size": 9 }, raised) : null, svg("title", {}, words)),
      svg("line", { x1: left, x2: width, y1: middle, y2: middle, stroke: COLORS.line }),
      svg("text", { x: width + 6, y: middle + 4 }, most ? `± ${most.toPrecision(2)}` : "all 0"));
    rollout.steps.forEach((step, k) => {
      const value = step[key] || 0;
      const size = most ? Math.abs(value) / most * (height / 2 - 3) : 0;
      drawing.append(svg("rect", {
        x: left + k * cell + 2, width: cell - 4, height: size,
        y: value > 0 ? middle - size : middle, fill: value > 0 ? COLORS.plus : COLORS.minus,
      }));
    });
  });
  rollout.steps.forEach((step, k) => {
    const said = rows.map(([key, name]) => `${name} ${signed(step[key], 3)}`).join("   ");
    drawing.append(
      svg("text", { x: left + k * cell + cell / 2, y: height * rows.length + 13, "text-anchor": "middle" },
        k + 1),
      svg("rect", {
        x: left + k * cell, width: cell, y: 0, height: height * rows.length + 18, class: "hit",
        onclick: () => toTurn(k),
      }, svg("title", {}, `step ${k + 1}: ${step.action || "(no action)"}\n${said}`)));
  });
  return el("section", { class: "scroll panel" }, drawing);
}

function toTurn(k) {
  document.getElementById(`turn${k}`).scrollIntoView({ behavior: "smooth", block: "center" });
}

// The text of an observation, and the environment's drawing of it. A drawing hides a long text.
function observed(text, cells) {
  return [
    el("pre", { class: `observation${cells && text.length > 240 ? " long" : ""}` }, text),
    cells ? el("div", { class: "drawing" }, cells.map((cell) => {
      const chosen = new Set(cell.chosen);
      return el("div", { class: `cell ${cell.mark || ""}${cell.wide ? " wide" : ""}` },
        el("p", {}, el("b", {}, cell.name), cell.note ? el("span", { class: "quiet" }, ` ${cell.note}`) : null),
        (cell.lines || []).map((line) => el("p", {}, line)),
        cell.items?.length ? el("ul", {}, cell.items.map((item) =>
          el("li", { "aria-current": chosen.has(item) && "true" }, item))) : null);
    })) : null,
  ];
}

function textButton() {
  const page = document.body.classList;
  const made = el("button", { class: "tab wide", "aria-pressed": page.contains("texts"), onclick: () => {
    made.setAttribute("aria-pressed", page.toggle("texts"));
  } }, "as text");
  return made;
}

function turn(step, cells, k, size, meanings) {
  const shown = ROWS.filter(([key]) => step[key] !== undefined && step[key] !== null);
  return el("li", { class: "turn", id: `turn${k}` },
    el("div", { class: "number" }, k + 1),
    el("div", { class: "body" },
      observed(step.observation, cells),
      step.thought ? el("p", { class: "thought" }, step.thought) : null,
      el("p", { class: step.accepted ? "action" : "action refused" },
        "› ", step.action || "(no action could be read)",
        step.parsed && !step.accepted ? el("span", { class: "flag" }, "not carried out") : null),
      step.tokens.length ? tokens(step.tokens) : el("p", { class: "tokens" }, step.response),
      step.fired.length ? el("ul", { class: "fired" }, step.fired.map((fired) => why(fired, meanings)))
        : null),
    el("div", { class: "numbers" },
      shown.map(([key, name, words]) => el("div", { title: words }, symbol(name),
        el("span", { class: step[key] < 0 ? "minus" : step[key] > 0 ? "plus" : "" },
          signed(step[key])))),
      size > 1 ? el("p", { class: "quiet", title: step.context },
        step.meets > 1 ? `${step.meets} of ${size} rollouts were in this context`
          : "no other rollout was in this context") : null));
}

function tokens(list) {
  return el("p", { class: "tokens" }, list.map(([text, p, act]) => {
    const k = p === null ? 0 : CLASSES.findIndex((low) => p >= low);
    const said = p === null ? "probability not recorded" : `p = ${p}`;
    return el("span", { class: `p${k}${act ? " act" : ""}`, title: said }, text || "·");
  }));
}

function why(fired, meanings) {
  const meaning = meanings.get(fired.id);
  return el("li", {},
    el("span", { class: `operator ${meaning ? meaning.category : ""}` }, fired.id),
    meaning ? el("span", { class: "quiet" }, ` ${meaning.description}`) : null,
    fired.why.length ? el("ul", {}, fired.why.map(([clause, values]) =>
      el("li", {}, el("code", {}, clause), values ? el("span", { class: "values" }, values) : null)))
      : null);
}

// A context key, which may be folded after each of its parts.
function breakable(context) {
  return context.split("|").flatMap((part, k) => (k ? ["|", el("wbr"), part] : [part]));
}

function sideBySide(group, meanings, go) {
  const most = Math.max(1e-9, ...group.rollouts.flatMap((r) => r.steps.map((s) => Math.abs(s.advantage || 0))));
  const head = el("tr", {}, el("th", {}, "context"), group.rollouts.map((each, k) => el("th", {},
    el("button", { class: "plain", onclick: () => go({ rollout: k, side: "" }) },
      el("span", { class: `pip ${each.won ? "won" : "lost"}` }), ` ${rolloutName(each)}`),
    el("div", { class: "quiet" }, `${each.won ? "won" : "lost"}, ${each.steps.length} steps`))));
  const rows = group.rows.map((row) => {
    const there = row.flatMap((k, n) => (k === null ? [] : [group.rollouts[n].steps[k]]));
    return el("tr", { class: there.length > 1 ? "meet" : "" },
      el("th", { title: there[0].context }, el("code", {}, breakable(there[0].context))),
      row.map((k, n) => (k === null ? el("td") : cell(group.rollouts[n].steps[k], k, n))));
  });
  function cell(step, k, n) {
    const bar = el("span", { class: step.advantage < 0 ? "bar minus" : "bar plus" });
    bar.style.width = `${Math.abs(step.advantage || 0) / most * 100}%`;
    return el("td", { class: "there" }, el("button", {
      class: step.accepted ? "step" : "step refused",
      title: `step ${k + 1}, A ${signed(step.advantage)}\n${step.fired.map((f) => f.id).join(", ")}`,
      onclick: async () => { await go({ rollout: n, side: "" }); toTurn(k); },
    },
    el("span", {}, step.action || "(no action)"),
    el("span", { class: "marks" }, step.fired.map((fired) => el("span", {
      class: `dot ${(meanings.get(fired.id) || {}).category || ""}`, title: fired.id }))),
    step.advantage === null ? null : el("span", { class: "track" }, bar)));
  }
  return [
    el("p", { class: "legend" }, "Steps of a tinted row start in the same context.",
      ["evidence", "execution", "invalidity"].map((name) =>
        el("span", {}, el("span", { class: `dot ${name}` }), name)),
      el("span", {}, "bar: A, ", el("span", { class: "plus" }, "positive"), " or ",
        el("span", { class: "minus" }, "negative"))),
    el("section", { class: "scroll panel" },
      el("table", { class: "beside" }, el("thead", {}, head), el("tbody", {}, rows))),
  ];
}
