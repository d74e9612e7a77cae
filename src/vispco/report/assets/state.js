// The data, what is chosen, and who wants to know when that changes.
const data = JSON.parse(byId("payload").textContent);

const state = {
  budget: Math.max(0, data.budgets.findIndex((row) => row.budget >= (data.summary ? data.summary.budget : 0.5) - 1e-9)),
  run: Math.max(0, data.runs.findIndex((run) => run.kind === "searched")),
  visible: data.runs.map(() => true),
  axis: "fraction",
  price: "seconds",
  layer: 0,
  example: 0,
};

const listeners = [];
const onChange = (listener) => listeners.push(listener);

function change(values) {
  const changed = Object.keys(values).filter((key) => state[key] !== values[key]);
  if (!changed.length) return;
  Object.assign(state, values);
  for (const listener of listeners) listener(new Set(changed));
}

// A row of choices, one of which holds: state[key] is the name of the one that is chosen.
function segments(box, key, options, known) {
  for (const [value, option] of Object.entries(options)) {
    const there = known(option);
    box.append(
      h("label", { title: there ? null : "not measured in these runs" },
        h("input", { type: "radio", name: key, value, checked: value === state[key], disabled: !there, onchange: () => change({ [key]: value }) }), h("span", {}, option.name)),
    );
  }
}

const MARKS = ["circle", "square", "triangle", "diamond", "cross"];
const DASHES = ["", "7 4", "2 4", "9 3 2 3", "4 2"];
const colour = (run) => `var(--series-${run % 6})`;
const budgetNow = () => data.budgets[state.budget].budget;
const chosenPlace = (run) => data.budgets[state.budget].choices[run];

function chosenPoint(run = state.run) {
  const place = chosenPlace(run);
  return place === null || place === undefined ? null : data.runs[run].points[place];
}

const numLayers = () => {
  const point = chosenPoint() || data.runs[state.run].points[0];
  return point.retention.length;
};

// The examples of the chosen run; where it has none, those of the first run that has some.
function examplesNow() {
  const own = data.examples.filter((example) => example.run === data.runs[state.run].label);
  return own.length ? own : data.examples.filter((example) => example.run === data.examples[0].run);
}

// The state of an example at the slider's budget: the dearest one that the budget affords, else the cheapest.
function exampleState(example) {
  const affordable = example.states.filter((one) => one.budget <= budgetNow() + 1e-9);
  return affordable.length ? affordable[affordable.length - 1] : example.states[0];
}
