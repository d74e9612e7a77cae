// Numbers as the page writes them. One place, so that every part writes a number the same way.
const percent = (x, digits = 1) => (x * 100).toFixed(digits) + "\u202f%";
const wholePercent = (x) => Math.round(x * 100) + "\u202f%";
const UNITS = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

const listed = (words) => (words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words[words.length - 1]}` : words.join(""));

function flops(x) {
  if (x === null || x === undefined) return "–";
  const [size, letter] = UNITS.find(([size]) => x >= size) || [1, ""];
  return (x / size).toPrecision(3) + "\u202f" + letter + "FLOPs";
}

// For an axis: no zeros that say nothing, and the unit without its word.
const shortFlops = (x) => (x ? flops(x).replace(/(?:\.0+|(\.\d*?[1-9])0+)(?=\u202f)/, "$1").replace("FLOPs", "") : "0");

function seconds(x) {
  if (x === null || x === undefined) return "–";
  if (x >= 3600) return (x / 3600).toPrecision(3) + "\u202fh";
  if (x >= 60) return (x / 60).toPrecision(3) + "\u202fmin";
  if (x >= 1) return x.toPrecision(3) + "\u202fs";
  if (x >= 1e-3) return (x * 1e3).toPrecision(3) + "\u202fms";
  return x === 0 ? "0" : (x * 1e6).toPrecision(3) + "\u202fµs";
}

const milliseconds = (x) => (x === 0 ? "–" : seconds(x / 1e3));
const times = (x) => `${x.toFixed(2)}\u202f×`;
const gain = (x) => (x < 0.995 ? "no gain" : times(x)); // a speed-up that is none is called that
const bytes = (x) => (x >= 2 ** 30 ? `${(x / 2 ** 30).toPrecision(3)}\u202fGiB` : x >= 2 ** 20 ? `${(x / 2 ** 20).toPrecision(3)}\u202fMiB` : `${(x / 1024).toPrecision(3)}\u202fKiB`);

function plain(x) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (typeof x !== "number") return typeof x === "object" ? JSON.stringify(x) : String(x);
  if (Number.isInteger(x)) return Math.abs(x) < 1e5 ? String(x) : x.toLocaleString("en");
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(4)));
}

// Round numbers between low and high, about `wanted` of them.
function ticks(low, high, wanted) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => span / size <= wanted) || 10 * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

// Powers of ten; every second or third one where there are many.
function powers(low, high, wanted) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const stride = Math.max(1, Math.ceil((last - first + 1) / wanted));
  const found = [];
  for (let power = first; power <= last; power += stride) found.push(10 ** power);
  return found;
}

const brief = (x) => (x >= 1e4 || (x > 0 && x < 1e-3) ? x.toExponential(0).replace("e+", "e") : plain(x));

// Ticks of a time axis fall on round numbers of the unit that they are written in.
function timeTicks(low, high, wanted) {
  const unit = high >= 7200 ? 3600 : high >= 120 ? 60 : high >= 1 ? 1 : high >= 1e-3 ? 1e-3 : 1e-6;
  const name = { 3600: "h", 60: "min", 1: "s", 0.001: "ms", 0.000001: "µs" }[unit];
  const values = ticks(low / unit, high / unit, wanted).map((value) => value * unit);
  return { values, text: (x) => (x === 0 ? "0" : `${Number((x / unit).toPrecision(6))}\u202f${name}`) };
}
