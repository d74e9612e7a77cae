// Lines over steps or over time: convergence as small multiples, hypervolume as one chart.
const NAMES = { kl: "KL to the unpruned model", violation: "Constraint violation", w: "Multiplier w", lambda: "Penalty λ" };

function legendOf(box, labels, runOf) {
  box.replaceChildren(...labels.map((label, place) => h("span", { class: "key" }, swatch(runOf(label, place), true), label)));
}

const runNamed = (label, place) => {
  const found = data.runs.findIndex((run) => label === run.label || label.startsWith(`${run.label},`));
  return found < 0 ? place : found;
};

// What the chosen run's solver went through; where it tells nothing, the first run that does.
function convergenceNow() {
  const own = data.convergence.filter((one) => one.run === data.runs[state.run].label);
  return own.length ? own : data.convergence.filter((one) => one.run === data.convergence[0].run);
}

// The line that is about the budget nearest to the slider's.
function nearestLine(lines) {
  const far = (one) => (one.budget === null ? 0 : Math.abs(one.budget - budgetNow()));
  return lines.reduce((best, one) => (far(one) < far(best) ? one : best), lines[0]);
}

function drawSeries(box, width, name) {
  const known = convergenceNow();
  const lines = known
    .map((one, place) => ({ one, place }))
    .filter(({ one }) => one.series[name])
    .map(({ one, place }) => ({ one, place, points: one.steps.map((x, i) => [x, one.series[name][i]]).filter(([, y]) => y !== null) }));
  const all = lines.flatMap((line) => line.points);
  if (!all.length) return box.querySelector("svg.plot")?.remove();
  const ys = all.map(([, y]) => y);
  const above = ys.filter((y) => y > 0);
  const [least, most] = [Math.min(...above), Math.max(...above)];
  const log = above.length > 0 && Math.min(...ys) >= 0 && most > 100 * least;
  const y = log ? [least / 1.5, most * 1.5] : [Math.min(0, ...ys), Math.max(...ys) * 1.06 || 1];
  const { svg, sx, sy } = frame(box, width, {
    height: 190, yLog: log, y, yTicks: log ? powers(...y, 5) : null,
    x: [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))],
    xLabel: "step", yLabel: log ? "log scale" : "", xText: plain, yText: brief,
    margin: { top: 22, right: 12, bottom: 46, left: 50 },
  });
  const now = nearestLine(known);
  const order = [...lines].sort((a, b) => (a.one === now) - (b.one === now));
  for (const { one, place, points } of order) {
    const look = lineLook(one, place);
    svg.append(s("path", { class: one === now ? "line now" : "line", d: path(points.map(([x, y]) => [sx(x), sy(y)])), stroke: colour(look), "stroke-dasharray": DASHES[look % DASHES.length] }));
  }
}

// One line has its run's own look; of several (budgets), each has its own.
const lineLook = (one, place) => (convergenceNow().length > 1 ? place : runNamed(one.run, place));

// A multiplier that never moved (projection has none) is no chart; a violation of zero is.
function tells(lines, name) {
  const values = lines.flatMap((one) => one.series[name] || []).filter((value) => value !== null);
  return values.length > 0 && (!["w", "lambda"].includes(name) || values.some((value) => value !== values[0]));
}

function startConvergence() {
  if (!show("sec-convergence", data.convergence.length > 0)) return;
  const boxes = Object.keys(NAMES).map((name) => {
    const box = h("div", { class: "chart", role: "img" });
    const figure = h("figure", {}, h("figcaption", {}, NAMES[name]), box);
    byId("convergence").append(figure);
    whenSized(box, (width) => drawSeries(box, width, name));
    return { name, box, figure };
  });
  const tell = () => {
    const known = convergenceNow();
    const whole = known.length === 1 && known[0].budget === null;
    byId("convergence-note").textContent = whole
      ? `${known[0].run}, one training for all budgets.`
      : `${known[0].run}, a search for each budget${known.length > 1 ? "; the one nearest to the slider is drawn strong" : ""}.`;
    byId("convergence-legend").replaceChildren(...(whole ? [] : known.map((one, place) => h("span", { class: one === nearestLine(known) ? "key now" : "key" }, swatch(lineLook(one, place)), one.budget === null ? one.label : wholePercent(one.budget)))));
    for (const { name, box, figure } of boxes) {
      figure.hidden = !tells(known, name);
      box.setAttribute("aria-label", `${NAMES[name]} over steps: ${known.filter((one) => one.series[name]).map((one) => `${one.label} ends at ${plain(one.series[name].findLast((v) => v !== null))}`).join("; ")}`);
      if (box.clientWidth > 0) drawSeries(box, Math.floor(box.clientWidth), name);
    }
  };
  onChange((changed) => (changed.has("run") || changed.has("budget")) && tell());
  tell();
}

const PRICES = {
  seconds: { name: "Time", of: (curve) => curve.cost, label: "search time", text: seconds },
  flops: { name: "FLOPs", of: (curve) => curve.flops, label: "FLOPs of the language model spent on the search", text: shortFlops },
};

function drawHypervolume(width) {
  const box = byId("hypervolume");
  const price = PRICES[state.price];
  const curves = data.hypervolume.filter((curve) => price.of(curve).length);
  const dearest = Math.max(...curves.flatMap(price.of));
  const values = curves.flatMap((curve) => curve.value);
  const wanted = Math.max(3, Math.floor(width / 120));
  const times = state.price === "seconds" ? timeTicks(0, dearest, wanted) : { values: ticks(0, dearest, wanted), text: price.text };
  const { svg, sx, sy, inner } = frame(box, width, {
    height: width < 560 ? 260 : 320,
    x: [0, dearest * 1.02], xTicks: times.values, y: padded(Math.min(...values), Math.max(...values), 0.1).map((v) => Math.max(0, v)),
    xLabel: price.label, yLabel: "hypervolume", xText: times.text, yText: plain,
    margin: { top: 30, right: 18, bottom: 50, left: 54 },
  });
  for (const curve of curves) {
    const index = runNamed(curve.label, 0);
    const points = price.of(curve).map((cost, i) => [sx(cost), sy(curve.value[i])]);
    const told = `${curve.label}: ${plain(curve.value[curve.value.length - 1])} after ${price.text(price.of(curve)[points.length - 1])}`;
    svg.append(s("path", { class: "line", d: staircase(points), stroke: colour(index), "stroke-dasharray": DASHES[index % DASHES.length] }));
    const last = points[points.length - 1];
    if (curve.kind === "searched") svg.append(s("line", { class: "level", x1: last[0], x2: inner.right, y1: last[1], y2: last[1], stroke: colour(index) }));
    svg.append(mark(index, ...last, 5), s("circle", { class: "catch", cx: last[0], cy: last[1], r: 14 }, s("title", {}, told)));
  }
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `Hypervolume over ${price.label}: ${curves.map((c) => `${c.label} ends at ${plain(c.value[c.value.length - 1])} after ${price.text(price.of(c)[price.of(c).length - 1])}`).join("; ")}`);
}

function startHypervolume() {
  if (!show("sec-hypervolume", data.hypervolume.length > 0)) return;
  const counts = Object.entries(PRICES).map(([key, price]) => [key, data.hypervolume.filter((curve) => price.of(curve).length).length]);
  state.price = counts.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  legendOf(byId("hypervolume-legend"), data.hypervolume.map((curve) => curve.label), runNamed);
  byId("price").hidden = counts.some(([, count]) => count === 0);
  segments(byId("price"), "price", PRICES, () => true);
  const draw = () => drawHypervolume(Math.floor(byId("hypervolume").clientWidth));
  whenSized(byId("hypervolume"), draw);
  onChange((changed) => changed.has("price") && draw());
}
