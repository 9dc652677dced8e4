// The data that Python put into the page, and helpers for all other scripts.

const about = JSON.parse(document.getElementById("about").textContent);
const bytes = decode(document.getElementById("numbers").textContent.trim());
const TYPES = {
  f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, u2: Uint16Array, i2: Int16Array, u1: Uint8Array,
};

function decode(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const found = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) found[i] = binary.charCodeAt(i);
  return found;
}

/** The typed array of a reference. */
function numbers(reference) {
  const length = reference.shape.reduce((product, size) => product * size, 1);
  return new TYPES[reference.type](bytes.buffer, bytes.byteOffset + reference.at, length);
}

/** An HTML element. Children that are strings become text nodes, never markup. */
function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A number as short text. */
function shown(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "none";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return whole(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

function whole(value) {
  // Adding 0 turns -0 into 0.
  return (Math.round(value) + 0).toLocaleString("en-US");
}

/** All digits that distinguish a number from its neighbours, in its stored precision. */
function exact(value, single) {
  if (!Number.isFinite(value)) return "nan";
  if (!single) return String(value);
  for (let digits = 6; digits < 9; digits++) {
    if (Math.fround(Number(value.toPrecision(digits))) === value) return String(Number(value.toPrecision(digits)));
  }
  return String(Number(value.toPrecision(9)));
}

/** Round numbers between `low` and `high`, about `wanted` of them. */
function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

/** Round numbers on a logarithmic axis. */
function logTicks(low, high, wanted) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  if (last - first < 1) return ticks(low, high, wanted).filter((value) => value > 0);
  const every = Math.ceil((last - first + 1) / Math.max(wanted, 1));
  const found = [];
  for (let power = first; power <= last; power += every) found.push(Number(`1e${power}`));
  return found;
}

function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e5 || (size > 0 && size < 1e-3)) return value.toExponential().replace("e+", "e");
  return Number(value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 12 });
}

function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

const COLOURS = about.colours; // for lines and areas; values have the colours of the palette
const palette = (() => {
  const found = [];
  for (let i = 0; i < 256; i++) found.push(`#${about.palette.slice(6 * i, 6 * i + 6)}`);
  return found;
})();

/** Colours of values, from the lowest to the highest, or between the 1 % and 99 % quantiles if there are outliers. */
class Scale {
  constructor(values, { log = false, reverse = false } = {}) {
    this.reverse = reverse;
    let below = false;
    let known = Float64Array.from(values).filter(Number.isFinite).sort();
    this.log = log && known.length > 0 && known[known.length - 1] > 0;
    if (this.log) {
      const positive = known.filter((value) => value > 0);
      // A logarithmic scale has no place for 0 or, by rounding errors, less: they get the last colour.
      this.floor = Math.max(positive[0], positive[positive.length - 1] * 1e-9);
      below = known[0] < this.floor;
      if (below) this.floor /= 10; // so that they look better than the smallest positive value
      known = known.map((value) => Math.log10(Math.max(value, this.floor)));
    }
    this.known = known.length;
    this.low = known.length ? known[0] : 0;
    this.high = known.length ? known[known.length - 1] : 1;
    this.cutLow = below;
    this.cutHigh = false;
    const [first, last] = known.length ? [quantile(known, 0.01), quantile(known, 0.99)] : [0, 1];
    if (last > first && last - first < 0.2 * (this.high - this.low)) {
      this.cutLow = below || first > this.low;
      this.cutHigh = last < this.high;
      [this.low, this.high] = [first, last];
    }
  }

  placed(value) {
    return this.log ? Math.log10(Math.max(value, this.floor)) : value;
  }

  /** 0 to 255, or -1 for no value. */
  bucket(value) {
    if (!Number.isFinite(value)) return -1;
    const share = this.high > this.low ? (this.placed(value) - this.low) / (this.high - this.low) : 1;
    const place = Math.max(0, Math.min(255, Math.round(255 * share)));
    return this.reverse ? 255 - place : place;
  }

  text(share) {
    const place = this.low + share * (this.high - this.low);
    const text = shown(this.log ? 10 ** place : place, 3);
    if (share === 0 && this.cutLow) return `≤ ${text}`;
    return share === 1 && this.cutHigh ? `≥ ${text}` : text;
  }
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The colour of an algorithm; black becomes the text colour, which is light on a dark page. */
function seriesColour(colour) {
  return colour === "#000000" ? cssColour("--ink") : colour;
}

const redraws = [];

/** Draw whenever the width of the page or the theme changes. */
function drawn(host, draw) {
  let width = 0;
  const again = () => {
    width = host.clientWidth;
    if (width > 0) draw(width);
  };
  redraws.push(again);
  new ResizeObserver(() => {
    if (Math.abs(host.clientWidth - width) > 0.5) again();
  }).observe(host);
  return again;
}

/** Give a canvas the resolution of the screen, and return its context in CSS pixels. */
function prepared(canvas, width, height) {
  const fine = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * fine);
  canvas.height = Math.round(height * fine);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(fine, 0, 0, fine, 0, 0);
  return context;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Some browsers deny the clipboard to local files.
    const area = el("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function copyButton(label, text) {
  const button = el("button", {
    type: "button",
    onclick: async () => {
      const done = await copyText(text());
      button.textContent = done ? "copied" : "could not copy";
      announce(done ? `copied: ${label}` : "could not copy");
      setTimeout(() => { button.textContent = label; }, 1500);
    },
  }, label);
  return button;
}

const live = el("div", { class: "hidden", role: "status", "aria-live": "polite" });
function announce(text) {
  live.textContent = text;
}

function section(title, note, ...children) {
  return el("section", {}, el("h2", {}, title), note ? el("p", { class: "note" }, note) : null, ...children);
}

function table(heads, rows, attributes = {}) {
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, i) =>
    el(i ? "td" : "th", i ? {} : { scope: "row" }, cell instanceof Node ? cell : String(cell)))));
  const head = heads ? el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))) : null;
  return el("div", { class: `scroll ${attributes.kind || ""}`, tabindex: 0, role: "region", "aria-label": attributes.label || "table" },
    el("table", {}, head, el("tbody", {}, ...body)));
}
