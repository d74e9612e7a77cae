// The card beside a point: what it costs, what it reaches, and its schedule.
function pointCard(run, point) {
  const facts = [
    ["accuracy", `${percent(point.accuracy)}  (${(100 * point.low).toFixed(1)} – ${(100 * point.high).toFixed(1)})`],
    ["FLOPs", `${percent(point.fraction)}${point.flops === null ? "" : ", " + flops(point.flops)}`],
    ["evaluation", point.seconds === null ? null : `${seconds(point.seconds)} a sample`],
    ["KL", point.kl === null ? null : plain(point.kl)],
  ].filter(([, text]) => text !== null);
  return [
    h("p", { class: "tip-title" }, swatch(run), data.runs[run].label, point.name ? h("span", {}, point.name) : null),
    h("dl", {}, facts.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    sparkline(point.retention, run, 212, 40),
    h("p", { class: "tip-steps" }, (point.samples ? `mean of ${point.samples} schedules: ` : "") + stepsText(point.retention)),
  ];
}

// "all, from layer 3: 50 %, from layer 7: 12 %" - only where something changes.
function stepsText(retention, most = 4) {
  const steps = [];
  retention.forEach((r, layer) => {
    if (!layer || Math.round(r * 100) !== Math.round(retention[layer - 1] * 100)) steps.push([layer, r]);
  });
  const said = steps.slice(0, most).map(([layer, r]) => (layer ? `from layer ${layer}: ${wholePercent(r)}` : r >= 1 ? "all tokens" : wholePercent(r)));
  if (steps.length > most) said.push(`… ${wholePercent(retention[retention.length - 1])} at the end`);
  return said.join(", ");
}

function placeTip(tip, box, x, y) {
  tip.hidden = false;
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const right = x + 18 + width <= box.clientWidth;
  const left = right ? x + 18 : Math.max(0, x - 18 - width);
  const narrow = box.clientWidth < 560;
  tip.style.left = `${narrow ? Math.max(0, Math.min(x - width / 2, box.clientWidth - width)) : left}px`;
  tip.style.top = `${narrow ? y + 22 : Math.max(-20, y - height / 2)}px`;
}
