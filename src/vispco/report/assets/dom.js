// Elements, made in one call. Text always goes in as text: a question with markup in it stays a question.
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
  return node;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// A word that is explained where one points at it or reaches it by the keyboard.
const TERMS = {
  hypervolume: "The area under the frontier: how much accuracy is reached over all costs from none to the unpruned model's. Larger is better.",
  empirical: "Hypervolume as a share of that of the empirical frontier: the best that all sweeps of this model and scorer found together.",
  evaluation: "Seconds of the evaluation, divided by its samples: prefill and the whole answer, in the evaluation's batches. Not the time to the first token, which a bench measures.",
  time: "Time to the first token of a batch: vision tower, predictor, scoring and prefill. The median over rounds.",
};

function term(word, meaning) {
  return h("abbr", { class: "term", title: meaning, tabindex: 0, "aria-label": `${word}: ${meaning}` }, word, h("span", { class: "meaning", "aria-hidden": "true" }, meaning));
}

function show(sectionId, wanted) {
  byId(sectionId).hidden = !wanted;
  return wanted;
}

// Calls draw(width) now and whenever the box changes its width.
function whenSized(box, draw) {
  let last = -1;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      draw(width);
    }
  });
  observer.observe(box);
}
