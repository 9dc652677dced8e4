// The drawing of a solution: an SVG of a sketch, or an image that matplotlib made.

// As in sketch_data.py: points are steps from the centre of the axes.
const STEPS = 2048;
const GAP = -32768;
// In units of the SVG: its size and the box that the axes may fill.
const PICTURE = { width: 320, height: 270 };
const AXES = { left: 50, top: 8, width: 258, height: 222 };

const MARKERS = {
  o: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  s: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  "*": (x, y, r) => star(x, y, r),
};

function star(x, y, r) {
  let path = "";
  for (let i = 0; i < 10; i++) {
    const radius = i % 2 ? 0.4 * r : r;
    const angle = (Math.PI * i) / 5;
    path += `${i ? "L" : "M"}${(x + radius * Math.sin(angle)).toFixed(2)} ${(y - radius * Math.cos(angle)).toFixed(2)}`;
  }
  return `${path}Z`;
}

const pictures = about.pictures ? (() => {
  const { rows, images, sketch } = about.pictures;
  const places = new Map(Array.from(numbers(rows), (row, place) => [row, place]));
  return { places, images, sketch: sketch && { ...sketch, points: numbers(sketch.points), limits: numbers(sketch.limits) } };
})() : null;

/** The picture of a task; null if it was not drawn. */
function pictureOf(i) {
  const place = pictures?.places.get(i);
  if (place === undefined) return null;
  const name = `the solution of ${taskName(i)}`;
  if (pictures.images) return el("img", { src: `data:image/png;base64,${pictures.images[place]}`, alt: name });
  const { strokes, titles } = pictures.sketch;
  const labelled = strokes.filter((stroke) => stroke.label);
  return el("div", {}, titles[place] ? el("p", { class: "title" }, titles[place]) : null, sketchPicture(place, name),
    labelled.length ? el("div", { class: "legend" }, ...labelled.map(strokeKey)) : null);
}

function sketchPicture(place, name) {
  const { strokes, labels, equal, points } = pictures.sketch;
  const limits = pictures.sketch.limits.subarray(4 * place, 4 * place + 4);
  const box = axesBox(limits, equal);
  const inside = svg("g", { "clip-path": "url(#axes)" });
  const perPicture = strokes.reduce((sum, stroke) => sum + stroke.points, 0);
  let at = 2 * place * perPicture;
  for (const stroke of strokes) {
    const values = points.subarray(at, at + 2 * stroke.points);
    const parts = strokeParts(values, box);
    inside.append(...[strokeLine(stroke, parts), strokeMarkers(stroke, parts)].filter(Boolean));
    at += values.length;
  }
  const frame = { x: box.left, y: box.top, width: box.width, height: box.height };
  return svg("svg", { viewBox: `0 0 ${PICTURE.width} ${PICTURE.height}`, class: "picture", role: "img", "aria-label": name },
    svg("clipPath", { id: "axes" }, svg("rect", frame)), ...axesTicks(limits, box), ...axesLabels(labels, box),
    inside, svg("rect", { class: "frame", ...frame }));
}

/** The box of the axes; if `equal`, a unit has the same length in both directions. */
function axesBox([left, right, bottom, top], equal) {
  if (!equal) return AXES;
  const unit = Math.min(AXES.width / Math.abs(right - left), AXES.height / Math.abs(top - bottom));
  const [width, height] = [unit * Math.abs(right - left), unit * Math.abs(top - bottom)];
  return { left: AXES.left + (AXES.width - width) / 2, top: AXES.top + (AXES.height - height) / 2, width, height };
}

/** The parts of a stroke between its gaps, as coordinates in the SVG. */
function strokeParts(values, box) {
  const found = [[]];
  for (let k = 0; k < values.length; k += 2) {
    if (values[k] === GAP) found.push([]);
    else {
      found[found.length - 1].push([
        box.left + (0.5 + values[k] / STEPS) * box.width, box.top + (0.5 - values[k + 1] / STEPS) * box.height,
      ]);
    }
  }
  return found.filter((part) => part.length);
}

function strokeLine({ width, colour }, parts) {
  if (!width) return null;
  const path = parts.map((part) => `M${part.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`).join("");
  return svg("path", {
    d: path, fill: "none", stroke: colour, "stroke-width": width, "stroke-linejoin": "round", "stroke-linecap": "round",
  });
}

function strokeMarkers({ marker, size, colour }, parts) {
  if (!marker) return null;
  const path = parts.flat().map(([x, y]) => MARKERS[marker](x, y, size / 2)).join("");
  return svg("path", { d: path, fill: colour, stroke: colour, "stroke-width": 0.6 });
}

function axesTicks([left, right, bottom, top], box) {
  const between = (low, high, wanted) => ticks(Math.min(low, high), Math.max(low, high), wanted);
  const [x0, y0] = [box.left, box.top + box.height];
  const found = [];
  for (const value of between(left, right, box.width / 60)) {
    const x = x0 + ((value - left) / (right - left)) * box.width;
    found.push(svg("line", { class: "frame", x1: x, x2: x, y1: y0, y2: y0 + 3 }),
      svg("text", { class: "small", x, y: y0 + 12, "text-anchor": "middle" }, tickText(value)));
  }
  for (const value of between(bottom, top, box.height / 40)) {
    const y = y0 - ((value - bottom) / (top - bottom)) * box.height;
    found.push(svg("line", { class: "frame", x1: x0 - 3, x2: x0, y1: y, y2: y }),
      svg("text", { class: "small", x: x0 - 5, y: y + 3, "text-anchor": "end" }, tickText(value)));
  }
  return found;
}

function axesLabels([across, up], box) {
  const middle = `translate(${box.left - 32} ${box.top + box.height / 2}) rotate(-90)`;
  return [
    svg("text", { class: "small", x: box.left + box.width / 2, y: box.top + box.height + 25, "text-anchor": "middle" }, across),
    svg("text", { class: "small", transform: middle, "text-anchor": "middle" }, up),
  ];
}

function strokeKey(stroke) {
  return el("span", { class: "key" },
    svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, strokeLine(stroke, [[[1, 6], [21, 6]]]),
      strokeMarkers({ ...stroke, size: Math.min(10, stroke.size) }, [[[11, 6]]])),
    stroke.label);
}
