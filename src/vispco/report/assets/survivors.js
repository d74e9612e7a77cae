// The picture with the tokens that a layer still processes; the others are veiled.
const STRIP = 10; // small pictures below the large one, at most
const pictures = new Map();
const depths = new Map();

function depthOf(one) {
  if (!depths.has(one)) depths.set(one, Uint8Array.from(atob(one.depth), (c) => c.charCodeAt(0)));
  return depths.get(one);
}

const keptAt = (one, layer) => depthOf(one).reduce((sum, depth) => sum + (depth > layer), 0);

function pictureOf(example) {
  if (!pictures.has(example)) {
    const image = new Image();
    const ready = new Promise((resolve) => image.addEventListener("load", () => resolve(image), { once: true }));
    image.src = example.image;
    pictures.set(example, ready);
  }
  return pictures.get(example);
}

async function paint(canvas, example, one, layer, width, grid) {
  const image = await pictureOf(example);
  const ratio = window.devicePixelRatio || 1;
  const height = Math.round((width * example.height) / example.width);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.aspectRatio = `${example.width} / ${example.height}`;
  const pen = canvas.getContext("2d");
  pen.imageSmoothingQuality = "high";
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  const depth = depthOf(one);
  const [w, t] = [canvas.width / example.columns, canvas.height / example.rows];
  const style = getComputedStyle(document.documentElement);
  pen.fillStyle = style.getPropertyValue("--veil");
  for (let row = 0; row < example.rows; row += 1) {
    for (let column = 0; column < example.columns; column += 1) {
      if (depth[row * example.columns + column] > layer) continue;
      const [x, y] = [Math.round(column * w), Math.round(row * t)];
      pen.fillRect(x, y, Math.round((column + 1) * w) - x, Math.round((row + 1) * t) - y);
    }
  }
  if (!grid || w < 7 * ratio) return;
  pen.strokeStyle = style.getPropertyValue("--mesh");
  pen.lineWidth = ratio;
  pen.beginPath();
  for (let row = 1; row < example.rows; row += 1) pen.moveTo(0, Math.round(row * t)), pen.lineTo(canvas.width, Math.round(row * t));
  for (let column = 1; column < example.columns; column += 1) pen.moveTo(Math.round(column * w), 0), pen.lineTo(Math.round(column * w), canvas.height);
  pen.stroke();
}

function verdict(right) {
  if (right === null || right === undefined) return null;
  return h("span", { class: right ? "right" : "wrong" }, right ? "✓ right" : "✗ wrong");
}

function tellExample() {
  const example = data.examples[state.example];
  const one = exampleState(example);
  const layer = Math.min(state.layer, example.layers - 1);
  const total = example.rows * example.columns;
  const kept = keptAt(one, layer);
  byId("layer").max = example.layers - 1;
  byId("layer").value = layer;
  byId("layer").setAttribute("aria-valuetext", `layer ${layer}, ${kept} of ${total} visual tokens`);
  byId("layer-value").textContent = `${layer} (${layer + 1} of ${example.layers})`;
  byId("kept").textContent = `${kept} of ${total} tokens`;
  byId("question").textContent = example.question;
  byId("answers").replaceChildren(
    h("dt", {}, "Reference"), h("dd", { id: "answer-reference" }, example.reference),
    h("dt", {}, "Unpruned"), h("dd", { id: "answer-unpruned" }, example.unpruned || "(nothing)", verdict(example.unpruned_correct)),
    h("dt", {}, `Pruned to ${wholePercent(one.budget)}`), h("dd", { id: "answer-pruned" }, one.answer || "(nothing)", verdict(one.correct)),
  );
  const picture = byId("picture");
  picture.setAttribute("aria-label", `Example picture: ${kept} of ${total} visual tokens are left at layer ${layer}`);
  const box = picture.parentElement;
  const width = Math.max(120, Math.min(box.clientWidth, Math.round((400 * example.width) / example.height), 620));
  picture.style.width = `${width}px`;
  paint(picture, example, one, layer, width, true);
}

function drawStrip() {
  const example = data.examples[state.example];
  const one = exampleState(example);
  const count = Math.min(STRIP, example.layers);
  const layers = [...new Set([...Array(count).keys()].map((k) => Math.round((k * (example.layers - 1)) / Math.max(1, count - 1))))];
  byId("strip").style.setProperty("--cells", Math.max(6, layers.length));
  byId("strip").replaceChildren(
    ...layers.map((layer) => {
      const canvas = h("canvas", { "aria-hidden": "true" });
      paint(canvas, example, one, layer, 140, false);
      const kept = Math.round((100 * keptAt(one, layer)) / (example.rows * example.columns));
      return h(
        "button",
        { type: "button", class: "cell", "data-layer": layer, "aria-pressed": String(layer === state.layer), "aria-label": `Layer ${layer}, ${kept} percent of tokens`, onclick: () => change({ layer }) },
        canvas, h("span", {}, `${layer}`, h("small", {}, `${kept}\u202f%`)),
      );
    }),
  );
}

function drawThumbs() {
  byId("thumbs").replaceChildren(
    ...examplesNow().map((example) => {
      const index = data.examples.indexOf(example);
      return h("label", { class: "thumb" },
        h("input", { type: "radio", name: "example", value: index, checked: index === state.example, "aria-label": example.question, onchange: () => change({ example: index }) }),
        h("img", { src: example.image, alt: "" }));
    }),
  );
}

// Another run has examples of its own: the same picture where it is among them, else the first.
function followRun() {
  const known = examplesNow();
  const now = data.examples[state.example];
  if (!known.includes(now)) {
    change({ example: data.examples.indexOf(known.find((example) => example.id === now.id) || known[0]) });
    drawThumbs();
  }
  tellExamples();
}

function tellExamples() {
  const { scorer, run } = data.examples[state.example];
  const whose = data.runs.length > 1 && run ? ` at the budgets of ${run}` : "";
  // several chains choose in a joint search: each once, without the attention that it gives back
  const chains = [...new Set((scorer || "").split(" | ").map((chain) => chain.replace(/^compensate=[-\d.]+:/, "")))];
  const who = chains.length > 1 ? `${chains.slice(0, -1).join(", ")} or ${chains.at(-1)}, by input,` : chains[0];
  byId("examples-note").textContent = `Veiled tokens have left before the layer that is shown${scorer ? `: ${who} decides which${whose}` : ""}. What has left does not come back.`;
}

// The deepest layer in which at least an eighth of the tokens is left: what pruning does shows best there.
function tellingLayer(example) {
  const [one, total] = [exampleState(example), example.rows * example.columns];
  const layers = [...Array(example.layers).keys()].filter((layer) => keptAt(one, layer) >= total / 8);
  return layers.length ? layers[layers.length - 1] : 0;
}

function startSurvivors() {
  if (!show("sec-examples", data.examples.length > 0)) return;
  state.example = data.summary?.example ?? data.examples.indexOf(examplesNow()[0]);
  state.layer = tellingLayer(data.examples[state.example]);
  drawThumbs();
  tellExamples();
  byId("layer").addEventListener("input", (event) => change({ layer: Number(event.target.value) }));
  whenSized(byId("picture").parentElement, tellExample);
  drawStrip();
  onChange((changed) => {
    if (changed.has("run")) followRun();
    if (["budget", "example", "layer", "theme"].some((key) => changed.has(key))) tellExample();
    if (["budget", "example", "theme"].some((key) => changed.has(key))) drawStrip();
    else if (changed.has("layer")) for (const cell of byId("strip").children) cell.setAttribute("aria-pressed", String(Number(cell.dataset.layer) === state.layer));
  });
}
