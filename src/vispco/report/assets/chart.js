// What every chart shares: margins, axes, grid lines, marks.
function frame(box, width, options) {
  const { height, x, y, xLabel, yLabel, xText, yText, margin = { top: 14, right: 14, bottom: 46, left: 54 } } = options;
  const inner = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const sx = (value) => inner.left + ((value - x[0]) / (x[1] - x[0] || 1)) * (inner.right - inner.left);
  const [height0, height1] = options.yLog ? y.map(Math.log10) : y;
  const level = options.yLog ? (value) => Math.log10(Math.max(value, y[0])) : (value) => value;
  const sy = (value) => inner.bottom - ((level(value) - height0) / (height1 - height0 || 1)) * (inner.bottom - inner.top);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const grid = s("g", { class: "grid" });
  const yTicks = options.yTicks || ticks(y[0], y[1], Math.max(4, Math.floor((inner.bottom - inner.top) / 56)));
  for (const tick of yTicks) {
    grid.append(s("line", { x1: inner.left, x2: inner.right, y1: sy(tick), y2: sy(tick) }));
    grid.append(s("text", { x: inner.left - 10, y: sy(tick), dy: "0.32em", "text-anchor": "end" }, yText(tick)));
  }
  const xTicks = options.xTicks || ticks(x[0], x[1], Math.max(3, Math.floor((inner.right - inner.left) / 66)));
  for (const tick of xTicks) {
    grid.append(s("line", { class: "tick", x1: sx(tick), x2: sx(tick), y1: inner.bottom, y2: inner.bottom + 5 }));
    grid.append(s("text", { x: sx(tick), y: inner.bottom + 20, "text-anchor": "middle" }, xText(tick)));
  }
  grid.append(s("line", { class: "base", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }));
  if (xLabel) grid.append(s("text", { class: "label", x: inner.right, y: height - 6, "text-anchor": "end" }, xLabel));
  if (yLabel) grid.append(s("text", { class: "label", x: inner.left, y: 12 }, yLabel));
  svg.append(grid);
  box.querySelector("svg.plot")?.remove();
  svg.classList.add("plot");
  box.prepend(svg);
  return { svg, sx, sy, inner, height };
}

function padded(low, high, share = 0.06) {
  const span = high - low || Math.abs(high) || 1;
  return [low - span * share, high + span * share];
}

const path = (points) => points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function staircase(points) {
  const corners = [];
  points.forEach(([x, y], place) => {
    if (place) corners.push([x, points[place - 1][1]]);
    corners.push([x, y]);
  });
  return path(corners);
}

// A mark of a run's own shape: runs differ in shape as well as in colour.
function mark(run, x, y, size, attributes = {}) {
  const shape = MARKS[run % MARKS.length];
  const fill = { fill: colour(run), ...attributes };
  if (shape === "circle") return s("circle", { cx: x, cy: y, r: size, ...fill });
  if (shape === "square") return s("rect", { x: x - size * 0.88, y: y - size * 0.88, width: size * 1.76, height: size * 1.76, rx: 1, ...fill });
  const corners = {
    triangle: [[0, -1.2], [1.1, 0.8], [-1.1, 0.8]],
    diamond: [[0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]],
    cross: [[-1.1, -0.4], [-0.4, -0.4], [-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4]],
  }[shape];
  return s("polygon", { points: corners.map(([dx, dy]) => `${x + dx * size},${y + dy * size}`).join(" "), ...fill });
}

function swatch(run, line = true) {
  const icon = s("svg", { width: 26, height: 14, "aria-hidden": "true" });
  if (line) icon.append(s("line", { x1: 1, x2: 25, y1: 7, y2: 7, stroke: colour(run), "stroke-width": 2, "stroke-dasharray": DASHES[run % DASHES.length] }));
  icon.append(mark(run, 13, 7, 4));
  return icon;
}

// A schedule as a tiny staircase.
function sparkline(retention, run, width = 150, height = 34) {
  const step = width / retention.length;
  const points = retention.flatMap((r, i) => [[i * step, height - r * (height - 3) - 1], [(i + 1) * step, height - r * (height - 3) - 1]]);
  const area = `${path(points)}L${width} ${height}L0 ${height}Z`;
  return s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", class: "spark" },
    s("path", { d: area, fill: colour(run), opacity: 0.16 }),
    s("path", { d: path(points), fill: "none", stroke: colour(run), "stroke-width": 1.6 }),
  );
}
