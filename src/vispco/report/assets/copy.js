// What the two buttons put on the clipboard is what was evaluated. A mean over samples was not: then it is the run and its
// budget, as `--config` of a command reads them. Else it is a pruner, as `--pruner` and `Pruner.from_pretrained` read it.
function copiedJson() {
  const point = chosenPoint();
  if (!point) return null;
  const run = data.runs[state.run];
  if (run.folder) return JSON.stringify({ pruner: run.folder, budget: point.asked || (point.budget ?? budgetNow()) });
  if (point.samples) return null;
  const planner = { kind: "schedule", schedule: { version: 1, retention: point.retention } };
  return JSON.stringify({ format: "vispco-pruner", version: 1, chain: run.scorer || "fastv", planner });
}

// Six digits, rounded down: a schedule that is typed in never keeps more than the one it stands for.
function pythonFloat(x) {
  const short = Math.floor(x * 1e6 + 1e-4) / 1e6;
  return Number.isInteger(short) ? short.toFixed(1) : String(short);
}

// Neighbouring equal values are written once: (1.0,) * 3 + (0.5,) * 7.
function pythonTuple(values) {
  const groups = [];
  for (const value of values) {
    if (groups.length && groups[groups.length - 1][0] === value) groups[groups.length - 1][1] += 1;
    else groups.push([value, 1]);
  }
  if (groups.length * 2 > values.length) return `(${values.map(pythonFloat).join(", ")})`;
  return groups.map(([value, count]) => `(${pythonFloat(value)},)` + (count > 1 ? ` * ${count}` : "")).join(" + ");
}

function pythonLines() {
  const point = chosenPoint();
  const run = data.runs[state.run];
  if (!point || (point.samples && !run.folder)) return null;
  const pruner = run.folder
    ? `vispco.Pruner.from_pretrained(${JSON.stringify(run.folder)}, budget=${point.asked ? JSON.stringify(point.asked) : point.budget ?? budgetNow()})`
    : `vispco.Pruner(${JSON.stringify(run.scorer || "fastv")}, vispco.Schedule(${pythonTuple(point.retention)}))`;
  return [
    "import vispco",
    `pruner = ${pruner}`,
    "with pruner(model): output = model.generate(**inputs)",
  ].join("\n");
}

async function putOnClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "visually-hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function startCopy() {
  const tell = () => {
    const lines = pythonLines();
    byId("python").textContent = lines || "";
    byId("python").hidden = !lines;
    for (const id of ["copy-json", "copy-python"]) byId(id).disabled = !lines;
    byId("copied").textContent = "";
  };
  const copy = (make, name) => async (event) => {
    const done = await putOnClipboard(make());
    byId("copied").textContent = done ? `${name} copied.` : `The browser refused. Select the text below and copy it.`;
    event.target.focus();
  };
  byId("copy-json").addEventListener("click", copy(copiedJson, "JSON"));
  byId("copy-python").addEventListener("click", copy(pythonLines, "Python"));
  onChange((changed) => (changed.has("budget") || changed.has("run")) && tell());
  tell();
}
