// What the domain drew of a solution: lines, areas and letters, in shares of their axes.

const POINTS = {
  o: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  s: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
  "*": (x, y, r) => star(x, y, r),
  "^": (x, y, r) => `M${x} ${y - r}L${x + r} ${y + r}H${x - r}Z`,
  v: (x, y, r) => `M${x} ${y + r}L${x + r} ${y - r}H${x - r}Z`,
  D: (x, y, r) => diamond(x, y, Math.SQRT2 * r, Math.SQRT2 * r),
  d: (x, y, r) => diamond(x, y, 0.6 * Math.SQRT2 * r, Math.SQRT2 * r),
  x: (x, y, r) => `M${x - r} ${y - r}l${2 * r} ${2 * r}m${-2 * r} 0l${2 * r} ${-2 * r}`,
  "+": (x, y, r) => `M${x - r} ${y}h${2 * r}M${x} ${y - r}v${2 * r}`,
};
POINTS["."] = (x, y, r) => POINTS.o(x, y, r / 2);

function diamond(x, y, wide, tall) {
  return `M${x} ${y - tall}L${x + wide} ${y}L${x} ${y + tall}L${x - wide} ${y}Z`;
}

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
  const { of, shape, shapes, start, numbers: all, limitStart, limits, texts } = about.pictures;
  return {
    of: numbers(of), shape: numbers(shape), shapes, start: numbers(start), numbers: numbers(all),
    limitStart: numbers(limitStart), limits: numbers(limits), texts,
  };
})() : null;

/** The picture of a task, as an SVG; null if it was not drawn. */
function pictureOf(i) {
  if (!pictures || pictures.of[i] < 0) return null;
  const p = pictures.of[i];
  const shape = pictures.shapes[pictures.shape[p]];
  const [width, height] = shape.size;
  if (shape.pixels) {
    return el("img", { src: `data:image/png;base64,${pictures.texts[p][0]}`, alt: `the solution of ${taskName(i)}`, width });
  }
  // Texts may stand out of it.
  const [before, above, after, below] = shape.room || [0, 0, 0, 0];
  const picture = svg("svg", {
    viewBox: `${-before} ${-above} ${before + width + after} ${above + height + below}`, class: "picture", role: "img", "aria-label": `the solution of ${taskName(i)}`,
  });
  const reader = { at: pictures.start[p], limit: pictures.limitStart[p], text: 0, texts: pictures.texts[p] };
  const keys = shape.panels.flatMap((panel, k) => drawPanel(picture, panel, reader, width, height, `clip-${k}`));
  return el("div", {}, picture, keys.length ? el("div", { class: "legend" }, ...keys.map(pictureKey)) : null);
}

function drawPanel(picture, panel, reader, width, height, clip) {
  const limits = pictures.limits.subarray(reader.limit, reader.limit + 4);
  reader.limit += 4;
  let [left, bottom, wide, tall] = [panel.box[0] * width, panel.box[1] * height, panel.box[2] * width, panel.box[3] * height];
  if (panel.equal) {
    // A unit is as long in both directions.
    const unit = Math.min(wide / Math.abs(limits[1] - limits[0]), tall / Math.abs(limits[3] - limits[2]));
    const [w, h] = [unit * Math.abs(limits[1] - limits[0]), unit * Math.abs(limits[3] - limits[2])];
    left += (wide - w) / 2;
    bottom += (tall - h) / 2;
    [wide, tall] = [w, h];
  }
  const box = { left, top: height - bottom - tall, wide, tall };
  picture.append(svg("clipPath", { id: clip }, svg("rect", { x: left, y: box.top, width: wide, height: tall })));
  const title = reader.texts[reader.text++] || "";
  title.split("\n").forEach((line, k, lines) => picture.append(svg("text", {
    class: "title", x: left + wide / 2, y: box.top - 6 - 12 * (lines.length - 1 - k), "text-anchor": "middle",
  }, line)));
  if (panel.frame) drawTicks(picture, panel, limits, box);
  const inside = svg("g", { "clip-path": `url(#${clip})` });
  picture.append(inside);
  const keys = [];
  for (const mark of panel.marks) {
    drawMark(mark.kind === "text" ? picture : inside, mark, reader, box);
    if (mark.label) keys.push(mark);
  }
  if (panel.frame) {
    picture.append(svg("rect", { class: "frame", x: left, y: box.top, width: wide, height: tall }));
  }
  return keys;
}

function drawMark(layer, mark, reader, box) {
  const parts = Array.from({ length: pictures.numbers[reader.at++] }, () =>
    Array.from({ length: pictures.numbers[reader.at++] }, () => [
      box.left + (pictures.numbers[reader.at++] / 8192) * box.wide,
      box.top + (1 - pictures.numbers[reader.at++] / 8192) * box.tall,
    ]));
  const corners = parts.flat();
  if (mark.kind === "text") {
    const anchor = { left: "start", center: "middle", right: "end" }[mark.ha] || "start";
    const lines = (reader.texts[reader.text++] || "").split("\n");
    const step = 1.2 * mark.size;
    // From where the text is to where the foot of its first line is.
    const down = { top: 0.8 * mark.size, center: 0.3 * mark.size - (step * (lines.length - 1)) / 2 }[mark.va]
      ?? -step * (lines.length - 1);
    if (corners.length) {
      layer.append(...lines.map((line, k) => svg("text", {
        x: corners[0][0], y: corners[0][1] + down + k * step, fill: mark.colour, "text-anchor": anchor, "font-size": mark.size,
      }, line)));
    }
    return;
  }
  if (!corners.length) return;
  const end = mark.kind === "area" ? "Z" : "";
  const path = parts.filter((part) => part.length)
    .map((part) => `M${part.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}${end}`).join("");
  if (mark.kind === "area" || mark.width) {
    layer.append(svg("path", {
      d: path, fill: mark.kind === "area" ? mark.fill : "none",
      stroke: mark.width ? mark.colour : "none", "stroke-width": mark.width, "stroke-linejoin": "round",
      "stroke-linecap": "round", "stroke-dasharray": DASHES[mark.dash] || null,
    }));
  }
  if (mark.marker) {
    const radius = (mark.size || 6) / 2;
    layer.append(svg("path", {
      d: corners.map(([x, y]) => POINTS[mark.marker](x, y, radius)).join(""), fill: mark.fill || mark.colour,
      stroke: mark.edge || mark.colour, "stroke-width": "x+".includes(mark.marker) ? 1.5 : 0.6,
    }));
  }
}

function drawTicks(picture, panel, limits, box) {
  const share = (value, low, high) => (value - low) / (high - low);
  const plain = (low, high, size) => ticks(Math.min(low, high), Math.max(low, high), size)
    .map((value) => [share(value, low, high), tickText(value)]);
  for (const [place, text] of panel.xticks || plain(limits[0], limits[1], box.wide / 60)) {
    const x = box.left + place * box.wide;
    picture.append(svg("line", { class: "frame", x1: x, x2: x, y1: box.top + box.tall, y2: box.top + box.tall + 3 }),
      svg("text", { class: "small", x, y: box.top + box.tall + 10, "text-anchor": "middle" }, text));
  }
  for (const [place, text] of panel.yticks || plain(limits[2], limits[3], box.tall / 40)) {
    const y = box.top + (1 - place) * box.tall;
    picture.append(svg("line", { class: "frame", x1: box.left - 3, x2: box.left, y1: y, y2: y }),
      svg("text", { class: "small", x: box.left - 5, y: y + 3, "text-anchor": "end" }, text));
  }
  const middle = box.top + box.tall / 2;
  picture.append(
    svg("text", { class: "small", x: box.left + box.wide / 2, y: box.top + box.tall + 19, "text-anchor": "middle" },
      panel.labels[0]),
    svg("text", {
      class: "small", transform: `translate(${box.left - 30} ${middle}) rotate(-90)`, "text-anchor": "middle",
    }, panel.labels[1]));
}

function pictureKey(mark) {
  const shown = svg("svg", { width: 22, height: 12, "aria-hidden": "true" });
  if (mark.kind === "area") {
    shown.append(svg("rect", { x: 4, y: 2, width: 14, height: 8, fill: mark.fill, stroke: mark.colour }));
  } else if (mark.width) {
    shown.append(svg("line", {
      x1: 1, x2: 21, y1: 6, y2: 6, stroke: mark.colour, "stroke-width": mark.width, "stroke-dasharray": DASHES[mark.dash] || null,
    }));
  }
  if (mark.marker) {
    const radius = Math.min(5, (mark.size || 6) / 2);
    shown.append(svg("path", { d: POINTS[mark.marker](11, 6, radius), fill: mark.fill || mark.colour, stroke: mark.edge || mark.colour }));
  }
  return el("span", { class: "key" }, shown, mark.label);
}
