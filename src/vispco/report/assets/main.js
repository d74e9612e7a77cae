// The dock that moves everything, the legend, the theme; then every part starts itself.
function tellBudget() {
  const budget = budgetNow();
  const point = chosenPoint();
  byId("budget").value = state.budget;
  byId("budget").setAttribute("aria-valuetext", `${Math.round(budget * 100)} percent of the unpruned FLOPs`);
  byId("budget-value").textContent = wholePercent(budget);
  const kept = point && point.retention.reduce((sum, r) => sum + r, 0) / point.retention.length;
  const facts = point
    ? [
        ["accuracy", percent(point.accuracy), `${percent(point.low)} – ${percent(point.high)}`, "expected-accuracy"],
        ["cost", percent(point.fraction), flops(point.flops), "expected-cost"],
        ["tokens kept", percent(kept), "mean over layers", "expected-kept"],
        point.seconds === null ? null : [term("evaluation", TERMS.evaluation), seconds(point.seconds), "whole answers, a sample", "expected-time"],
      ].filter(Boolean)
    : [["accuracy", "–", `nothing this cheap; from ${percent(data.runs[state.run].points[0].fraction)}`, "expected-accuracy"]];
  byId("readouts").replaceChildren(
    ...facts.map(([name, value, more, id]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "figure", id }, value), h("small", {}, more)))),
  );
}

function startDock() {
  const slider = byId("budget");
  slider.max = data.budgets.length - 1;
  byId("budget-low").textContent = wholePercent(data.budgets[0].budget);
  byId("budget-high").textContent = wholePercent(data.budgets[data.budgets.length - 1].budget);
  slider.addEventListener("input", () => change({ budget: Number(slider.value) }));
  const picker = byId("run");
  picker.append(...data.runs.map((run, index) => h("option", { value: index, selected: index === state.run }, run.label)));
  byId("run-picker").hidden = data.runs.length < 2;
  picker.addEventListener("change", () => change({ run: Number(picker.value) }));
  onChange((changed) => {
    if (changed.has("run")) picker.value = state.run;
    if (changed.has("budget") || changed.has("run")) tellBudget();
  });
  tellBudget();
}

function startLegend() {
  byId("legend").append(
    ...data.runs.map((run, index) => {
      const told = [run.model, run.scorer, run.kernel].filter(Boolean).join(", ");
      const button = h("button", { type: "button", class: "key", "aria-pressed": "true", title: told }, swatch(index), run.label, h("small", {}, run.kind));
      button.addEventListener("click", () => {
        const visible = state.visible.map((on, place) => (place === index ? !on : on));
        button.setAttribute("aria-pressed", String(visible[index]));
        change({ visible });
      });
      return button;
    }),
  );
  const points = data.runs.flatMap((run) => run.points);
  segments(byId("axis"), "axis", AXES, (axis) => points.some((point) => axis.of(point) !== null));
}

function startTheme() {
  const root = document.documentElement;
  const dark = () => root.dataset.theme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const tell = () => (byId("theme").textContent = dark() ? "Light" : "Dark");
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    tell();
    change({ theme: root.dataset.theme });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    tell();
    change({ theme: event.matches });
  });
  tell();
}

function startWords() {
  const opening = data.summary;
  byId("title").textContent = data.title;
  byId("headline").textContent = opening ? opening.headline : `What ${data.title} can do without`;
  const told = (key) => [...new Set(data.runs.map((run) => run[key]).filter(Boolean))];
  const found = [told("scorer").length ? `ranked by ${listed(told("scorer"))}` : null, told("kernel").length ? `schedules from the ${listed(told("kernel"))} kernel` : null].filter(Boolean);
  byId("lede").textContent = opening ? opening.accuracy : "Which visual tokens a model can do without, at which layer, for a given budget.";
  byId("pace").hidden = !opening;
  byId("pace").textContent = opening ? opening.time : "";
  byId("made-box").hidden = !found.length;
  byId("made").textContent = `Visual tokens were ${found.join(", ")}.`;
  const verdicts = data.runs.filter((run) => run.verdict).map((run) => (data.runs.length > 1 ? `${run.label}: ` : "") + run.verdict);
  byId("verdict").hidden = !verdicts.length;
  byId("verdict").textContent = verdicts.join(" ");
  byId("footer").textContent = `Written by vispco ${data.vispco}${data.created ? `, ${data.created}` : ""}. FLOPs by the cost model “${data.cost_model}”: language-model prefill, a share of the unpruned model for the same sample.`;
}

startWords();
startTheme();
if (data.runs.length) {
  startDock();
  startLegend();
  startFrontier();
  startTasks();
  startSchedule();
  startSurvivors();
  startCard();
  startConvergence();
  startHypervolume();
  startMethods();
  startCopy();
} else {
  // tables alone: nothing that a budget could move
  for (const id of ["dock", "sec-frontier", "sec-schedule"]) byId(id).hidden = true;
  document.querySelector(".skip").href = data.published.length ? "#sec-published" : "#sec-comparisons";
  document.querySelector(".skip").textContent = "Skip to the tables";
}
startBench();
startAreas();
startProvenance();
document.documentElement.dataset.ready = "true";
