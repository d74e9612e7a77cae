// The table of methods, the bench, and where everything comes from.
function table(node, columns, rows) {
  node.replaceChildren(
    h("thead", {}, h("tr", {}, columns.map((name, place) => h("th", { scope: "col", class: place ? "number" : null }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => (place ? h("td", { class: "number" }, cell) : h("th", { scope: "row" }, cell)))))),
  );
}

function startMethods() {
  if (!show("sec-methods", data.methods.length > 0)) return;
  const best = data.method_budgets.map((_, place) => Math.max(...data.methods.map((m) => m.accuracy[place] ?? -1)));
  const counted = data.methods.some((m) => m.flops !== null);
  const columns = ["", "evaluated", ...data.method_budgets.map((b) => `within ${wholePercent(b)}`), term("hypervolume", TERMS.hypervolume), term("of empirical", TERMS.empirical), "search time", ...(counted ? ["search FLOPs"] : [])];
  const rows = data.methods.map((m) => [
    h("span", { class: "method" }, swatch(runNamed(m.label, 0), false), h("span", {}, m.label, h("small", {}, m.kind))),
    String(m.evaluations),
    ...m.accuracy.map((value, place) => (value === null ? "–" : value === best[place] ? h("strong", {}, percent(value)) : percent(value))),
    m.hypervolume.toFixed(4),
    m.ratio === null ? "–" : percent(m.ratio),
    seconds(m.seconds),
    ...(counted ? [flops(m.flops).replace("FLOPs", "")] : []),
  ]);
  table(byId("methods"), columns, rows);
  byId("methods-note").textContent = "Accuracy within a share of the unpruned FLOPs; hypervolume over the whole range, and as a share of what all sweeps of the same model and scorer found together; search time and FLOPs are what finding it took.";
}

// Accuracy by task at the budget, beside the unpruned model's, with the number of items.
function startTasks() {
  const tell = () => {
    const [run, point] = [data.runs[state.run], chosenPoint()];
    if (!show("tasks-box", Boolean(point && point.tasks.length))) return;
    const whole = new Map(run.unpruned_tasks.map((row) => [row.task, row.accuracy]));
    const columns = ["task", "items", ...(whole.size ? ["unpruned"] : []), `at ${wholePercent(budgetNow())}`];
    table(byId("tasks"), columns, point.tasks.map((row) => [row.task, String(row.items), ...(whole.size ? [whole.has(row.task) ? percent(whole.get(row.task)) : "–"] : []), percent(row.accuracy)]));
  };
  onChange((changed) => (changed.has("budget") || changed.has("run")) && tell());
  tell();
}

// What the columns of a bench are called, and how their numbers are written; others stand as they are.
const MEASURED = {
  flops: ["FLOPs", percent],
  budget: ["budget", wholePercent],
  "ttft_ms p50": ["time, p50", milliseconds],
  "ttft_ms p95": ["p95", milliseconds],
  "speedup ttft": ["× measured", gain],
  "speedup ttft_implied": ["× by FLOPs", times],
  "speedup language": ["× language model", gain],
  "speedup language_implied": ["× by FLOPs", times],
  decode_tokens_per_second: ["tokens/s", (x) => x.toPrecision(3)],
  kv_bytes: ["KV cache", bytes],
  peak_bytes: ["peak memory", bytes],
  prefill_bytes: ["prefill memory", bytes],
  "parts_ms vision": ["vision", milliseconds],
  "parts_ms predictor": ["predictor", milliseconds],
  "parts_ms scoring": ["scoring", milliseconds],
  "parts_ms language": ["language", milliseconds],
};

// A table without the columns that nothing was measured for.
function readable(one) {
  const known = one.columns.map((_, place) => place).filter((place) => one.rows.some((row) => row[place] !== null));
  const [names, texts] = [0, 1].map((part) => known.map((place) => (MEASURED[one.columns[place]] || [one.columns[place].replaceAll("_", " "), plain])[part]));
  return [names, one.rows.map((row) => known.map((place, column) => (typeof row[place] === "number" ? texts[column](row[place]) : plain(row[place]))))];
}

// Measures as rows and configurations as columns, where there are more measures than a page is wide and few configurations.
const FEW = 5;
function turned([names, rows]) {
  if (names.length < 8 || rows.length > FEW) return [names, rows];
  return [["", ...rows.map((row) => row[0])], names.slice(1).map((name, place) => [name, ...rows.map((row) => row[place + 1])])];
}

function startBench() {
  startTables("bench", data.bench, "Bench of");
  startTables("published", data.published, "Published methods of");
  startTables("comparisons", data.comparisons, "Comparison");
  startTables("spaces", data.spaces, "Searched spaces of");
  startTables("equal-terms", data.equal_terms, "Equal terms with");
}

function startTables(name, tables, told) {
  if (!show(`sec-${name}`, tables.length > 0)) return;
  for (const one of tables) {
    if (tables.length > 1) byId(name).append(h("h3", {}, one.label));
    if (one.note) byId(name).append(h("p", { class: "hint", id: `${name}-batch` }, one.note));
    const node = h("table", {});
    table(node, ...turned(readable(one)));
    byId(name).append(h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${told} ${one.label}` }, node));
  }
}

function startProvenance() {
  if (!show("sec-provenance", data.provenance.length > 0)) return;
  for (const one of data.provenance) {
    const facts = [
      ["command", one.command ? h("code", {}, one.command) : null],
      ["seed", one.seed],
      ["cost model", data.cost_model],
      ["versions", Object.entries(one.versions).map(([name, version]) => `${name} ${version}`).join(", ") || null],
      ["machine", Object.entries(one.machine).map(([name, value]) => `${name} ${plain(value)}`).join(", ") || null],
    ].filter(([, value]) => value !== null && value !== undefined);
    const block = h("div", { class: "source" }, h("h3", {}, one.label), h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value instanceof Node ? value : String(value))])));
    if (Object.keys(one.settings).length) block.append(h("details", {}, h("summary", {}, "All settings"), h("pre", { tabindex: 0 }, JSON.stringify(one.settings, null, 2))));
    byId("provenance").append(block);
  }
}
