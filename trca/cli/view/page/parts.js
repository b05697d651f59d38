"use strict";
// Elements and charts. Text goes in as text nodes only: nothing here reads HTML.

const COLORS = {
  ink: "#22313f", quiet: "#5b6875", plus: "#2a6f97", minus: "#d1495b", line: "#d5dbe1",
  series: ["#2a6f97", "#d1495b"], foundational: "#b5761a", breakthrough: "#4f772d",
};

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function signed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
}

function percent(value) {
  return `${Math.round(100 * value)}%`;
}

// A line chart. Series: {name, color, points: [[x, y]], dots, dashed}; `over` draws on top of it.
function chart(title, series, { percents = false, small = false, size = [560, 260], over = null } = {}) {
  const [width, height] = small ? [230, 104] : size;
  const [left, right, top, bottom] = small ? [34, 8, 8, 18] : [54, 14, 12, 34];
  const points = series.flatMap((each) => each.points);
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const xMax = Math.max(1, ...xs);
  const highest = percents && !small ? 1 : Math.max(0, ...ys), lowest = Math.min(0, ...ys);
  const unit = nice((highest - lowest) / 4 || 0.25);
  const yMin = unit * Math.floor(lowest / unit + 1e-6), yMax = unit * Math.ceil(highest / unit - 1e-6) || unit;
  const x = (value) => left + (width - left - right) * value / xMax;
  const y = (value) => height - bottom - (height - top - bottom) * (value - yMin) / (yMax - yMin);
  const shown = (value) => percents ? `${+(100 * value).toFixed(1)}%` : `${+value.toFixed(4)}`;
  const drawing = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, class: "chart",
  });
  const steps = Math.round((yMax - yMin) / unit);
  const ticks = small ? [yMin, yMax] : [...Array(steps + 1).keys()].map((k) => yMin + unit * k);
  for (const tick of ticks) {
    drawing.append(
      svg("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), stroke: "#e6eaee" }),
      svg("text", { x: left - 5, y: y(tick) + 3.5, "text-anchor": "end" }, shown(tick)));
  }
  drawing.append(svg("text", { x: width - right, y: height - 5, "text-anchor": "end" },
    small ? xMax.toLocaleString("en") : `${xMax.toLocaleString("en")} trajectories`));
  for (const each of series) {
    if (each.dots) {
      for (const [a, b] of each.points) {
        drawing.append(svg("circle", {
          cx: x(a), cy: y(b), r: each.dots, fill: each.color, opacity: each.line ? 1 : 0.35,
        }));
      }
    }
    if (!each.dots || each.line) {
      drawing.append(svg("polyline", {
        points: each.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" "),
        fill: "none", stroke: each.color, "stroke-width": small ? 1.5 : 2,
        "stroke-dasharray": each.dashed ? "5 4" : null,
      }));
    }
  }
  if (over) {
    const valueAt = (clientX) => {
      const { left: edge, width: shown } = drawing.getBoundingClientRect();
      return xMax * ((clientX - edge) / shown * width - left) / (width - left - right);
    };
    over(drawing, { x, valueAt, top, bottom: height - bottom });
  }
  const names = series.filter((each) => each.name);
  const legend = el("div", { class: "legend" }, names.map((each) => {
    const mark = el("span", { class: each.dashed ? "mark dashed" : "mark" });
    mark.style.borderColor = each.color;
    return el("span", {}, mark, each.name);
  }));
  return el("figure", { class: small ? "small" : "" },
    el("figcaption", {}, title), drawing, names.length ? legend : null);
}

function nice(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((step) => step * unit >= value * 0.999) * unit;
}
