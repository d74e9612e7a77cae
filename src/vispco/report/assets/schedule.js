const GAP = 0.4; // of a column
const scheduleMargins = (width) => (width < 560 ? { left: 46, right: 10 } : { left: 54, right: 18 });

// One curve through the whole depth at the chosen budget: blocks of a cut vision tower on the left, decoder layers on the right;
// the active run as columns, the others as lines.
function drawSchedule(width) {
  const box = byId("schedule");
  const point = chosenPoint();
  const layers = numLayers();
  const narrow = width < 560;
  const tower = (point && point.tower) || [];
  const left = tower.length ? tower.length + 2 * GAP : 0; // a gap before the first block, and one between the last and layer 0
  const every = Math.ceil((layers + left) / Math.max(1, Math.floor((width - 70) / 34)));
  const view = frame(box, width, {
    height: narrow ? 240 : 284,
    x: [-0.5 - left, layers - 0.5], y: [0, 1], yTicks: [0, 0.25, 0.5, 0.75, 1],
    xTicks: [...Array(layers).keys()].filter((layer) => layer % every === 0),
    xLabel: tower.length ? "block of the vision tower, then decoder layer" : "decoder layer", yLabel: "visual tokens kept", xText: String, yText: wholePercent,
    margin: { top: 48, bottom: 50, ...scheduleMargins(width) },
  });
  const { svg, sx, sy, inner } = view;
  const step = sx(1) - sx(0);
  const gap = Math.min(3, step * 0.14);
  const texts = s("g", {});
  tower.forEach((r, block) => {
    const at = block - left + GAP;
    const column = s("g", { class: "column" }, s("title", {}, `block ${block} of the vision tower: ${percent(r)}`));
    column.append(s("rect", { class: "bar", x: sx(at) - step / 2 + gap, y: sy(r), width: Math.max(1, step - 2 * gap), height: inner.bottom - sy(r), rx: 2, fill: colour(state.run), opacity: 0.5 }));
    if (step > 30 || (block && Math.abs(tower[block - 1] - r) > 0.06))
      texts.append(s("text", { class: "bar-text", x: sx(at), y: sy(r) - 6, "text-anchor": "middle" }, String(Math.round(r * 100))));
    texts.append(s("text", { class: "bar-text", x: sx(at), y: inner.bottom + 20, "text-anchor": "middle" }, block % every ? "" : String(block)));
    svg.append(column);
  });
  if (tower.length) {
    svg.append(s("line", { x1: sx(-0.9), x2: sx(-0.9), y1: inner.top - 14, y2: inner.bottom, stroke: "currentColor", opacity: 0.35 }));
    texts.append(s("text", { class: "bar-text", x: sx(-1.1), y: inner.top - 18, "text-anchor": "end" }, "vision tower"));
    texts.append(s("text", { class: "bar-text", x: sx(-0.7), y: inner.top - 18, "text-anchor": "start" }, "language model"));
  }
  if (point) {
    point.retention.forEach((r, layer) => {
      const column = s("g", { class: layer === state.layer ? "column now" : "column", onclick: () => change({ layer }) });
      column.append(s("title", {}, `layer ${layer}: ${percent(r)}`));
      column.append(s("rect", { class: "catch", x: sx(layer) - step / 2, y: inner.top, width: step, height: inner.bottom - inner.top }));
      column.append(s("rect", { class: "bar", x: sx(layer) - step / 2 + gap, y: sy(r), width: Math.max(1, step - 2 * gap), height: Math.max(r > 0 ? 1.5 : 0, inner.bottom - sy(r)), rx: 2, fill: colour(state.run) }));
      const before = layer ? point.retention[layer - 1] : null;
      if (step > 30 || (before !== null && Math.abs(before - r) > 0.06))
        texts.append(s("text", { class: layer === state.layer ? "bar-text now" : "bar-text", x: sx(layer), y: sy(r) - 6, "text-anchor": "middle" }, String(Math.round(r * 100))));
      svg.append(column);
    });
  }
  data.runs.forEach((run, index) => {
    const other = chosenPoint(index);
    if (index === state.run || !state.visible[index] || !other || other.retention.length !== layers) return;
    const corners = other.retention.flatMap((r, layer) => [[sx(layer) - step / 2, sy(r)], [sx(layer) + step / 2, sy(r)]]);
    svg.append(s("path", { class: "rival", d: path(corners), stroke: colour(index), "stroke-dasharray": DASHES[index % DASHES.length] }));
  });
  svg.append(texts);
  box.setAttribute("aria-label", point ? `${tower.map((r, i) => `block ${i} of the vision tower ${wholePercent(r)}, `).join("")}Retention per layer: ${point.retention.map((r, i) => `layer ${i} ${wholePercent(r)}`).join(", ")}` : "No schedule");
  box.setAttribute("role", "img");
}

// A shade for a place from 0 to 1: light ones under dark letters, dark ones under light letters, none in between.
const shaded = (place) => (place < 0.5
  ? `--shade: ${0.14 + 0.4 * place}; color: var(--ink)`
  : `--shade: ${0.66 + 0.4 * (place - 0.5)}; color: var(--paper)`);

// Which method runs where: a row for each chain that samples followed, a cell under each column of the curve.
function drawChains() {
  const box = byId("chains");
  const point = chosenPoint();
  const chains = point ? point.chains || [] : [];
  box.hidden = !chains.length;
  box.replaceChildren();
  if (!chains.length) return;
  const blocks = (point.tower || []).length;
  const places = [...Array(blocks).keys()].map((block) => `block ${block} of the vision tower`).concat(point.retention.map((_, layer) => `layer ${layer}`));
  const named = chains.map((row) => [...(row.tower || []), ...row.scorers]);
  const names = [...new Set(named.flat().filter(Boolean))];
  const { left, right } = scheduleMargins(byId("schedule").clientWidth);
  const columns = `${blocks ? `${GAP}fr repeat(${blocks}, 1fr) ${GAP}fr ` : ""}repeat(${point.retention.length}, 1fr)`;
  box.append(h("p", { class: "chain-title" }, "Which method chooses, before which layer"));
  chains.forEach((row, number) => {
    const cells = named[number].map((name, place) => h("span", {
      class: name ? "chain-cell used" : "chain-cell",
      style: `grid-column: ${place + 1 + (blocks ? (place < blocks ? 1 : 2) : 0)};` + (name ? shaded(names.indexOf(name) / Math.max(1, names.length - 1)) : ""),
      title: `before ${places[place]}: ${name || "nothing leaves"}`,
    }, name));
    box.append(h("p", { class: "chain-share", style: `margin-left: ${left}px` }, `${wholePercent(row.share)} of inputs: ${row.chain}`));
    box.append(h("div", {
      class: "chain-cells", role: "img", style: `margin: 0 ${right}px 6px ${left}px; grid-template-columns: ${columns}`,
      "aria-label": `${row.chain}: ${named[number].map((name, place) => name && `${name} before ${places[place]}`).filter(Boolean).join(", ") || "nothing leaves"}`,
    }, cells));
  });
}

function tellSchedule() {
  const run = data.runs[state.run];
  const point = chosenPoint();
  const note = byId("schedule-note");
  if (!point) {
    note.textContent = `${run.label} has no schedule that costs at most ${wholePercent(budgetNow())}. The cheapest costs ${percent(run.points[0].fraction)}.`;
    return;
  }
  const whole = point.prefill ? ` Of the whole prefill, vision tower inside, it takes ${percent(point.prefill)}.` : "";
  const many = point.samples
    ? ` Every sample has a schedule of its own. This is the mean of ${point.samples}; no sample ran it.`
    : run.folder
      ? " Every sample’s schedule is solved for its own size when it comes; this is their mean."
      : "";
  note.textContent = `${run.label} at ${wholePercent(budgetNow())}: ${stepsText(point.retention, 6)}.${whole}${many}`;
}

function startSchedule() {
  const box = byId("schedule");
  const redraw = () => {
    drawSchedule(Math.floor(box.clientWidth));
    drawChains();
  };
  whenSized(box, redraw);
  tellSchedule();
  onChange((changed) => {
    if (["budget", "run", "visible"].some((key) => changed.has(key))) tellSchedule();
    if (["budget", "run", "visible", "layer"].some((key) => changed.has(key))) redraw();
  });
}
