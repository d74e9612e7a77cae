// How the areas of the training pictures are spread, before and after.
const megapixels = (x) => (x >= 1e5 ? `${plain(x / 1e6)}\u202fMP` : plain(Math.round(x)));

function drawHistogram(box, width, edges, counts, most, index) {
  const { svg, sx, sy, inner } = frame(box, width, {
    height: 220, x: [edges[0], edges[edges.length - 1]], y: [0, most * 1.06 || 1],
    xLabel: "image area, pixels", xText: megapixels, yText: plain,
    margin: { top: 12, right: 18, bottom: 48, left: 52 },
  });
  counts.forEach((count, bin) => {
    const [left, right] = [sx(edges[bin]), sx(edges[bin + 1])];
    const bar = s("rect", { class: "bar", x: left + 1, y: sy(count), width: Math.max(1, right - left - 2), height: inner.bottom - sy(count), rx: 1.5, fill: colour(index) });
    bar.append(s("title", {}, `${megapixels(edges[bin])} to ${megapixels(edges[bin + 1])}: ${count}`));
    svg.append(bar);
  });
}

function startAreas() {
  if (!show("sec-areas", data.areas.length > 0)) return;
  for (const one of data.areas) {
    const pair = h("div", { class: "multiples" });
    if (data.areas.length > 1) byId("areas").append(h("h3", {}, one.label));
    byId("areas").append(pair);
    [["Before", one.before, 4], ["After", one.after, 0]].forEach(([name, counts, index]) => {
      const total = counts.reduce((sum, count) => sum + count, 0);
      const box = h("div", { class: "chart", role: "img", "aria-label": `${name}: ${counts.join(", ")}` });
      pair.append(h("figure", {}, h("figcaption", {}, name, h("small", {}, `${total.toLocaleString("en")} pictures`)), box));
      whenSized(box, (width) => drawHistogram(box, width, one.edges, counts, Math.max(...counts), index));
    });
  }
}
