// Cost against accuracy: every configuration faint, what nothing beats as a staircase, and where the budget stands.
const AXES = {
  fraction: { name: "FLOPs, share", of: (p) => p.fraction, text: wholePercent, label: () => `FLOPs of the unpruned model (${data.cost_model})` },
  flops: { name: "FLOPs", of: (p) => p.flops, text: shortFlops, label: () => `FLOPs a sample (${data.cost_model})` },
  seconds: { name: "Evaluation time", of: (p) => p.seconds, text: seconds, label: () => "evaluation time a sample, whole answers" },
};

const shown = (point) => AXES[state.axis].of(point) !== null;

// Less cost and more accuracy is better; recomputed, because another axis has another frontier.
function optimal(points) {
  const cost = AXES[state.axis].of;
  const order = points.filter(shown).sort((a, b) => cost(a) - cost(b) || b.accuracy - a.accuracy);
  let best = -Infinity;
  return order.filter((point) => point.accuracy > best && ((best = point.accuracy), true));
}

let frontierView = null;

// What the unpruned model reaches: as the run measured it on the same items, else from a point that keeps all tokens.
function unprunedAccuracy() {
  const run = data.runs[state.run].unpruned !== null ? data.runs[state.run] : data.runs.find((one) => one.unpruned !== null);
  const whole = data.runs.flatMap((one) => one.points).find((p) => p.retention.every((r) => r >= 1));
  return run ? run.unpruned : whole ? whole.accuracy : null;
}

function drawFrontier(width) {
  const box = byId("frontier");
  const axis = AXES[state.axis];
  const runs = data.runs.map((run, index) => ({ run, index })).filter(({ index }) => state.visible[index]);
  const points = runs.flatMap(({ run }) => run.points.filter(shown));
  const low = points.length ? Math.min(...points.map((p) => p.accuracy)) : 0;
  const unpruned = unprunedAccuracy();
  const high = points.length ? Math.max(...points.map((p) => p.accuracy), unpruned ?? 0) : 1;
  const dearest = points.length ? Math.max(...points.map(axis.of)) : 1;
  const narrow = width < 560;
  const times = state.axis === "seconds" ? timeTicks(0, dearest, Math.floor(width / 110)) : null;
  const view = frame(box, width, {
    xTicks: times && times.values,
    height: narrow ? 330 : 440,
    x: [0, state.axis === "fraction" ? Math.max(1, dearest) : dearest * 1.03],
    y: padded(low, high, 0.07).map((v) => Math.min(1.02, Math.max(0, v))),
    xLabel: axis.label(), yLabel: "accuracy, mean over tasks", xText: times ? times.text : axis.text, yText: wholePercent,
    margin: { top: 30, right: narrow ? 10 : 18, bottom: 50, left: narrow ? 46 : 54 },
  });
  const { svg, sx, sy, inner } = view;
  const at = (point) => [sx(axis.of(point)), sy(point.accuracy)];
  const budgetX = budgetOnAxis();
  if (budgetX !== null) {
    const x = Math.min(sx(budgetX), inner.right);
    svg.append(s("rect", { class: "beyond", x, y: inner.top, width: Math.max(0, inner.right - x), height: inner.bottom - inner.top }));
    svg.append(s("line", { class: "budget-line", x1: x, x2: x, y1: inner.top, y2: inner.bottom }));
  }
  if (unpruned !== null) {
    svg.append(s("line", { class: "unpruned", x1: inner.left, x2: inner.right, y1: sy(unpruned), y2: sy(unpruned) }));
    svg.append(s("text", { class: "unpruned-text", x: inner.left + 6, y: sy(unpruned) - 7 }, `unpruned: ${percent(unpruned)}`));
  }
  const hits = [];
  const clouds = s("g", {});
  const lines = s("g", {});
  for (const { run, index } of [...runs].sort((a, b) => (a.index === state.run) - (b.index === state.run))) {
    const front = optimal(run.points);
    const best = new Set(front);
    for (const point of run.points.filter(shown)) {
      if (!best.has(point)) clouds.append(mark(index, ...at(point), 2.6, { class: "dominated" }));
      hits.push({ run: index, point, at: at(point), front: best.has(point) });
    }
    if (index === state.run) for (const point of front) lines.append(s("line", { class: "whisker", stroke: colour(index), x1: at(point)[0], x2: at(point)[0], y1: Math.min(inner.bottom, sy(point.low)), y2: Math.max(inner.top, sy(point.high)) }));
    if (front.length) {
      lines.append(s("path", { class: index === state.run ? "stairs active" : "stairs", d: `${staircase(front.map(at))}H${inner.right}`, stroke: colour(index), "stroke-dasharray": DASHES[index % DASHES.length] }));
      for (const point of front) lines.append(mark(index, ...at(point), 4.2, { class: "front" }));
    }
  }
  svg.append(clouds, lines);
  for (const { index } of runs) {
    const point = chosenPoint(index);
    if (!point || !shown(point)) continue;
    const [x, y] = at(point);
    svg.append(s("circle", { class: index === state.run ? "ring active" : "ring", cx: x, cy: y, r: index === state.run ? 10 : 8, stroke: colour(index) }));
    if (index !== state.run) continue;
    const end = x > inner.right - 90;
    svg.append(s("text", { class: "ring-text", x: x + (end ? -15 : 15), y: y + 22, "text-anchor": end ? "end" : "start", fill: colour(index) }, percent(point.accuracy)));
  }
  frontierView = { box, hits, walk: hits.filter((hit) => hit.front && hit.run === state.run).sort((a, b) => a.at[0] - b.at[0]) };
}

function budgetOnAxis() {
  if (state.axis === "fraction") return budgetNow();
  if (state.axis !== "flops") return null;
  const point = data.runs[state.run].points.find((p) => p.flops !== null && p.fraction > 0);
  return point ? (point.flops / point.fraction) * budgetNow() : null;
}

function startFrontier() {
  const box = byId("frontier");
  const tip = h("div", { class: "tip", hidden: true });
  const halo = s("circle", { class: "halo", r: 8 });
  let walking = -1;
  box.append(tip);

  function point(hit) {
    if (!hit) {
      tip.hidden = true;
      halo.remove();
      return;
    }
    tip.replaceChildren(...pointCard(hit.run, hit.point));
    halo.setAttribute("cx", hit.at[0]);
    halo.setAttribute("cy", hit.at[1]);
    box.querySelector("svg.plot").append(halo);
    placeTip(tip, box, ...hit.at);
  }
  function nearest(event) {
    const bounds = box.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    let best = null;
    let least = 26;
    for (const hit of frontierView.hits) {
      const distance = Math.hypot(hit.at[0] - x, hit.at[1] - y) - (hit.front ? 6 : 0);
      if (distance < least) [best, least] = [hit, distance];
    }
    return best;
  }
  box.addEventListener("pointermove", (event) => point(nearest(event)));
  box.addEventListener("pointerleave", () => point(null));
  box.addEventListener("blur", () => point(null));
  box.addEventListener("click", (event) => {
    const hit = nearest(event);
    if (!hit) return;
    point(hit);
    const stop = data.budgets.findIndex((row) => row.budget >= hit.point.fraction - 1e-9);
    change({ run: hit.run, budget: stop < 0 ? data.budgets.length - 1 : stop });
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, ArrowUp: 1 }[event.key];
    if (event.key === "Escape") point(null);
    if (!step || !frontierView.walk.length) return;
    event.preventDefault();
    walking = Math.min(frontierView.walk.length - 1, Math.max(0, walking < 0 ? 0 : walking + step));
    const hit = frontierView.walk[walking];
    point(hit);
    byId("frontier-said").textContent = `${data.runs[hit.run].label}: ${percent(hit.point.accuracy)} at ${percent(hit.point.fraction)} of FLOPs; ${stepsText(hit.point.retention)}`;
  });
  const redraw = () => {
    point(null);
    drawFrontier(Math.floor(box.clientWidth));
  };
  whenSized(box, redraw);
  onChange((changed) => ["budget", "run", "axis", "visible"].some((key) => changed.has(key)) && redraw());
  const searched = data.runs.filter((run) => run.kind === "searched").length;
  const count = data.runs.reduce((sum, run) => sum + run.points.length, 0);
  box.setAttribute("aria-label", `Chart of ${count} evaluated schedules: cost against accuracy`);
  byId("frontier-note").textContent =
    `${count.toLocaleString("en")} evaluated schedules. ` +
    (searched && searched < data.runs.length ? "Each line connects the points that no other point beats in both cost and accuracy: the searched frontier and the swept one. " : "The line connects the points that no other point beats in both cost and accuracy. ") +
    "Faint points are dominated; bars are 95\u202f% intervals.";
}
