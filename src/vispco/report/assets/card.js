// A picture to share, 1200 by 630: all tokens and what is left of them, side by side, under the headline.
const CARD = { width: 1200, height: 630, edge: 56, picture: 330 };

function written(pen, text, x, y, size, colour, width, weight = 400, face = "--sans") {
  const style = getComputedStyle(document.documentElement);
  for (let points = size; ; points -= 1) {
    pen.font = `${weight} ${points}px ${style.getPropertyValue(face)}`;
    if (points <= 16 || pen.measureText(text).width <= width) break;
  }
  pen.fillStyle = style.getPropertyValue(colour);
  pen.fillText(text, x, y, width);
}

async function drawCard() {
  const canvas = h("canvas", { width: CARD.width, height: CARD.height });
  const pen = canvas.getContext("2d");
  const example = data.examples[state.example];
  const one = exampleState(example);
  const layer = Math.min(state.layer, example.layers - 1);
  const total = example.rows * example.columns;
  const whole = { depth: btoa(String.fromCharCode(...Array(total).fill(example.layers))) };
  const half = (CARD.width - 3 * CARD.edge) / 2;
  const same = one.answer === example.unpruned;
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--paper");
  pen.fillRect(0, 0, CARD.width, CARD.height);
  const opening = data.summary && data.summary.example === state.example && Math.abs(data.summary.budget - budgetNow()) < 0.026;
  written(pen, opening ? data.summary.headline : `${wholePercent(one.budget)} of the work, ${same ? "the same" : "another"} answer`, CARD.edge, 84, 46, "--ink", CARD.width - 2 * CARD.edge, 500, "--serif");
  written(pen, example.question, CARD.edge, 128, 24, "--soft", CARD.width - 2 * CARD.edge);
  const sides = [[whole, 0, `All ${total} visual tokens: ${example.unpruned}`], [one, layer, `${keptAt(one, layer)} of ${total} in layer ${layer}: ${one.answer}`]];
  for (const [place, [shown, at, told]] of sides.entries()) {
    const scale = Math.min(half / example.width, CARD.picture / example.height);
    const [width, height] = [example.width * scale, example.height * scale];
    const x = CARD.edge + place * (half + CARD.edge);
    const part = h("canvas", {});
    await paint(part, example, shown, at, Math.round(width), place > 0);
    pen.drawImage(part, x, 162 + (CARD.picture - height) / 2, width, height);
    written(pen, told, x, 532, 24, "--ink", half, 600);
  }
  written(pen, `${data.title} · vispco ${data.vispco}`, CARD.edge, 592, 20, "--soft", CARD.width - 2 * CARD.edge);
  return canvas;
}

function startCard() {
  if (!data.examples.length) return;
  byId("share").addEventListener("click", async () => {
    const canvas = await drawCard();
    const name = `vispco-${data.title.replace(/[^\w.-]+/g, "-")}.png`;
    h("a", { href: canvas.toDataURL("image/png"), download: name }).click();
    byId("shared").textContent = `${name} saved.`;
  });
}
