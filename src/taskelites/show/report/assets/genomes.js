// The solutions: one as bars, all as parallel coordinates.

const GENOMES_DRAWN = 5000;

/** The solutions as numbers, in whatever precision they are stored. */
const genomes = about.solutions ? (() => {
  const { numbers: reference, dim, lower, upper, exact: whole } = about.solutions;
  const kept = numbers(reference);
  const width = reference.shape[1];
  const rounded = reference.type === "u2";
  const at = rounded
    ? (i, k) => {
      const step = kept[i * width + k];
      return step === 65535 ? NaN : lower[k] + (step / 65534) * (upper[k] - lower[k]);
    }
    : (i, k) => kept[i * width + k];
  const single = reference.type !== "f8";
  const row = (i) => Array.from({ length: width }, (_, k) => at(i, k));
  return { dim, width, lower, upper, at, row, single, exact: whole, rounded };
})() : null;

/** How the solutions were rounded or cut; null if they are exact. */
function roundedNote() {
  if (genomes.exact) return null;
  const bits = genomes.rounded ? "16 bits" : "32 bits";
  const cut = genomes.width < genomes.dim ? `, and cut to the first ${genomes.width} of ${genomes.dim} numbers` : "";
  return `rounded to ${bits} to keep this page small${cut}; result.npz in the run folder has all digits`;
}

/** A bound that all dimensions share, as a number; otherwise its name. */
function boundText(side) {
  const bounds = genomes[side];
  return bounds.every((value) => value === bounds[0]) ? shown(bounds[0], 3) : side;
}

function genomeBars() {
  const host = el("div", { class: "chart", role: "img" });
  const readout = el("p", { class: "readout" });
  let current = -1;
  const draw = drawn(host, (width) => {
    if (current < 0) return;
    const height = 150;
    const margin = { left: 40, right: 6, top: 8, bottom: 26 };
    const n = genomes.width;
    const shares = [];
    for (let k = 0; k < n; k++) {
      const span = genomes.upper[k] - genomes.lower[k];
      shares.push(span > 0 ? (genomes.at(current, k) - genomes.lower[k]) / span : 0.5);
    }
    const step = (width - margin.left - margin.right) / n;
    const gap = step > 4 ? 1 : 0;
    let path = "";
    shares.forEach((share, k) => {
      const tall = Math.max(1, share * (height - margin.top - margin.bottom));
      path += `M${(margin.left + k * step + gap / 2).toFixed(2)} ${height - margin.bottom}v${-tall.toFixed(2)}`
        + `h${(step - gap).toFixed(2)}V${height - margin.bottom}Z`;
    });
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height },
      svg("rect", {
        class: "paper", x: margin.left, y: margin.top, width: width - margin.left - margin.right,
        height: height - margin.top - margin.bottom,
      }),
      svg("path", { d: path, class: "bars" }),
      svg("text", { class: "tick", x: margin.left - 4, y: margin.top + 10, "text-anchor": "end" }, boundText("upper")),
      svg("text", { class: "tick", x: margin.left - 4, y: height - margin.bottom, "text-anchor": "end" }, boundText("lower")));
    const every = Math.max(1, Math.ceil(n / Math.max(1, (width - 40) / 26)));
    for (let k = 0; k < n; k += every) {
      picture.append(svg("text", {
        class: "tick", x: margin.left + (k + 0.5) * step, y: height - 10, "text-anchor": "middle",
      }, String(k)));
    }
    host.replaceChildren(picture);
    host.onpointermove = (event) => {
      const k = Math.floor((event.clientX - host.getBoundingClientRect().left - margin.left) / step);
      readout.textContent = k >= 0 && k < n ? `dimension ${k}: ${shown(genomes.at(current, k), 6)}, between ${shown(genomes.lower[k])} and ${shown(genomes.upper[k])}` : "";
    };
    host.onpointerleave = () => { readout.textContent = ""; };
  });
  const show = (i) => {
    current = i;
    host.setAttribute("aria-label", `the solution of ${taskName(i)}, each number between its bounds`);
    draw();
  };
  return { element: el("div", {}, host, readout), show };
}

/** All solutions as lines over the dimensions, coloured like the map, the best on top. */
function parallelCoordinates() {
  const canvas = el("canvas", { role: "img", "aria-label": "all solutions as lines over their dimensions" });
  const host = el("div", { class: "chart" }, canvas);
  let colours = null;
  let selected = -1;
  const height = 300;
  const margin = { left: 52, right: 12, top: 10, bottom: 42 };
  // All lines are drawn once on a canvas of their own, so that choosing a task only copies it.
  const below = el("canvas");
  let base = null;

  function lines(width) {
    prepared(canvas, width, height);
    const context = prepared(below, width, height);
    const n = genomes.width;
    const x = { from: margin.left, to: width - margin.right };
    const y = new Axis(0, 1, height - margin.bottom, margin.top);
    const xAt = (k) => x.from + (n > 1 ? k / (n - 1) : 0.5) * (x.to - x.from);
    context.fillStyle = cssColour("--paper");
    context.fillRect(x.from, y.to, x.to - x.from, y.from - y.to);
    const order = Array.from(colours.values.keys()).filter((i) => Number.isFinite(colours.values[i]));
    order.sort((a, b) => colours.buckets[a] - colours.buckets[b]);
    const every = Math.max(1, order.length / GENOMES_DRAWN);
    const count = Math.min(order.length, GENOMES_DRAWN);
    context.globalAlpha = Math.max(0.12, Math.min(0.8, 120 / Math.max(1, count)));
    context.lineWidth = 1;
    for (let j = 0; j < count; j++) {
      const i = order[Math.floor(j * every)];
      context.strokeStyle = palette[colours.buckets[i]];
      line(context, i, xAt, y);
    }
    context.globalAlpha = 1;
    const axis = { from: x.from, to: x.to, at: xAt, ticks: (wanted) => ticks(0, n - 1, wanted).filter(Number.isInteger) };
    if (n === 1) axis.ticks = () => [0];
    const text = { y: (value) => (value === 0 ? boundText("lower") : value === 1 ? boundText("upper") : "") };
    canvasAxes(context, axis, y, ["dimension", "between the bounds"], height, text);
    base = { xAt, y, width, context: canvas.getContext("2d") };
  }

  function line(context, i, xAt, y) {
    context.beginPath();
    if (genomes.width === 1) context.moveTo(xAt(0) - 20, y.at(share(i, 0)));
    for (let k = 0; k < genomes.width; k++) context.lineTo(xAt(k), y.at(share(i, k)));
    if (genomes.width === 1) context.lineTo(xAt(0) + 20, y.at(share(i, 0)));
    context.stroke();
  }

  function share(i, k) {
    const span = genomes.upper[k] - genomes.lower[k];
    return span > 0 ? (genomes.at(i, k) - genomes.lower[k]) / span : 0.5;
  }

  function mark() {
    if (!base) return;
    base.context.clearRect(0, 0, base.width, height);
    base.context.drawImage(below, 0, 0, base.width, height);
    if (selected < 0 || !Number.isFinite(colours.values[selected])) return;
    for (const [colour, width] of [[cssColour("--outline-far"), 5], [cssColour("--outline"), 2.5]]) {
      base.context.strokeStyle = colour;
      base.context.lineWidth = width;
      line(base.context, selected, base.xAt, base.y);
    }
  }

  const draw = drawn(host, (width) => {
    if (!colours) return;
    lines(width);
    mark();
  });
  return {
    element: el("figure", {}, host),
    colour: (values, buckets) => { colours = { values, buckets }; draw(); },
    select: (i) => { selected = i; mark(); },
  };
}
