// Lines over steps or over time: convergence as small multiples, hypervolume as one chart.
const NAMES = { kl: "KL to the unpruned model", violation: "Constraint violation", w: "Multiplier w", lambda: "Penalty λ" };

function legendOf(box, labels, runOf) {
  box.replaceChildren(...labels.map((label, place) => h("span", { class: "key" }, swatch(runOf(label, place), true), label)));
}

const runNamed = (label, place) => {
  const found = data.runs.findIndex((run) => label === run.label || label.startsWith(`${run.label},`));
  return found < 0 ? place : found;
};

// A run's own look where every run has one line; where one has several (budgets), every line has its own.
function lineLook(label, place) {
  const runs = new Set(data.convergence.map((one, number) => runNamed(one.label, number)));
  return runs.size === data.convergence.length ? runNamed(label, place) : place;
}

function drawSeries(box, width, name) {
  const lines = data.convergence
    .map((one, place) => ({ one, place }))
    .filter(({ one }) => one.series[name])
    .map(({ one, place }) => ({ place, points: one.steps.map((x, i) => [x, one.series[name][i]]).filter(([, y]) => y !== null) }));
  const all = lines.flatMap((line) => line.points);
  const ys = all.map(([, y]) => y);
  const { svg, sx, sy } = frame(box, width, {
    height: 190,
    x: [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))],
    y: [Math.min(0, ...ys), Math.max(...ys) * 1.06 || 1],
    xLabel: "step", xText: plain, yText: plain,
    margin: { top: 12, right: 12, bottom: 46, left: 50 },
  });
  for (const { place, points } of lines) {
    const index = lineLook(data.convergence[place].label, place);
    svg.append(s("path", { class: "line", d: path(points.map(([x, y]) => [sx(x), sy(y)])), stroke: colour(index), "stroke-dasharray": DASHES[index % DASHES.length] }));
  }
}

function startConvergence() {
  if (!show("sec-convergence", data.convergence.length > 0)) return;
  legendOf(byId("convergence-legend"), data.convergence.map((one) => one.label), lineLook);
  for (const name of Object.keys(NAMES)) {
    if (!data.convergence.some((one) => one.series[name])) continue;
    const box = h("div", { class: "chart", role: "img", "aria-label": `${NAMES[name]} over steps` });
    byId("convergence").append(h("figure", {}, h("figcaption", {}, NAMES[name]), box));
    whenSized(box, (width) => drawSeries(box, width, name));
  }
}

function drawHypervolume(width) {
  const box = byId("hypervolume");
  const curves = data.hypervolume;
  const dearest = Math.max(...curves.flatMap((curve) => curve.cost));
  const values = curves.flatMap((curve) => curve.value);
  const times = timeTicks(0, dearest, Math.max(3, Math.floor(width / 120)));
  const { svg, sx, sy, inner } = frame(box, width, {
    height: width < 560 ? 260 : 320,
    x: [0, dearest * 1.02], xTicks: times.values, y: padded(Math.min(...values), Math.max(...values), 0.1).map((v) => Math.max(0, v)),
    xLabel: "search time", yLabel: "hypervolume", xText: times.text, yText: plain,
    margin: { top: 30, right: 18, bottom: 50, left: 54 },
  });
  curves.forEach((curve, place) => {
    const index = runNamed(curve.label, place);
    const points = curve.cost.map((cost, i) => [sx(cost), sy(curve.value[i])]);
    svg.append(s("path", { class: "line", d: staircase(points), stroke: colour(index), "stroke-dasharray": DASHES[index % DASHES.length] }));
    const last = points[points.length - 1];
    if (curve.kind === "searched") svg.append(s("line", { class: "level", x1: last[0], x2: inner.right, y1: last[1], y2: last[1], stroke: colour(index) }));
    svg.append(mark(index, ...last, 5));
  });
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `Hypervolume over search time: ${curves.map((c) => `${c.label} ends at ${plain(c.value[c.value.length - 1])} after ${seconds(c.cost[c.cost.length - 1])}`).join("; ")}`);
}

function startHypervolume() {
  if (!show("sec-hypervolume", data.hypervolume.length > 0)) return;
  legendOf(byId("hypervolume-legend"), data.hypervolume.map((curve) => curve.label), runNamed);
  whenSized(byId("hypervolume"), drawHypervolume);
}
