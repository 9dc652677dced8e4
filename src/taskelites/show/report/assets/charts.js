// Charts in SVG: lines with bands, shares, histograms, boxes. Each is redrawn when its width changes.

const MARGIN = { left: 58, right: 20, top: 10, bottom: 44 };

/** An axis that converts values to pixels. */
class Axis {
  constructor(low, high, from, to, log = false) {
    if (!(high > low)) {
      const around = Math.abs(low) > 0 ? 0.05 * Math.abs(low) : 0.5;
      [low, high] = log ? [low / 1.5, high * 1.5] : [low - around, high + around];
    }
    Object.assign(this, { low, high, from, to, log });
  }

  at(value) {
    const share = this.log
      ? (Math.log10(Math.max(value, 1e-300)) - Math.log10(this.low)) / (Math.log10(this.high) - Math.log10(this.low))
      : (value - this.low) / (this.high - this.low);
    return this.from + share * (this.to - this.from);
  }

  ticks(wanted) {
    return this.log ? logTicks(this.low, this.high, wanted) : ticks(this.low, this.high, wanted);
  }
}

function chartFrame(width, height, x, y, labels) {
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  for (const value of x.ticks(Math.max(2, (x.to - x.from) / 90))) {
    const place = x.at(value);
    picture.append(
      svg("line", { class: "grid", x1: place, x2: place, y1: y.to, y2: y.from }),
      svg("text", { class: "tick", x: place, y: y.from + 16, "text-anchor": "middle" }, tickText(value)),
    );
  }
  for (const value of y.ticks(Math.max(2, (y.from - y.to) / 45))) {
    const place = y.at(value);
    picture.append(
      svg("line", { class: "grid", x1: x.from, x2: x.to, y1: place, y2: place }),
      svg("text", { class: "tick", x: x.from - 6, y: place + 4, "text-anchor": "end" }, tickText(value)),
    );
  }
  picture.append(
    svg("text", { class: "label", x: (x.from + x.to) / 2, y: height - 6, "text-anchor": "middle" }, labels[0]),
    svg("text", {
      class: "label", transform: `translate(13 ${(y.from + y.to) / 2}) rotate(-90)`, "text-anchor": "middle",
    }, labels[1]),
  );
  return picture;
}

function linePath(x, y, xs, ys) {
  let path = "";
  let down = false;
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(ys[i]) || (x.log && xs[i] <= 0)) {
      down = false;
      continue;
    }
    path += `${down ? "L" : "M"}${x.at(xs[i]).toFixed(1)} ${y.at(ys[i]).toFixed(1)}`;
    down = true;
  }
  return path;
}

function bandPath(x, y, xs, low, high) {
  const forth = [];
  const back = [];
  for (let i = 0; i < xs.length; i++) {
    if (!Number.isFinite(low[i]) || !Number.isFinite(high[i]) || (x.log && xs[i] <= 0)) continue;
    forth.push(`${x.at(xs[i]).toFixed(1)} ${y.at(high[i]).toFixed(1)}`);
    back.unshift(`${x.at(xs[i]).toFixed(1)} ${y.at(low[i]).toFixed(1)}`);
  }
  return forth.length ? `M${forth.join("L")}L${back.join("L")}Z` : "";
}

const DASHES = { "-": null, "--": "7 4", ":": "2 3", "-.": "7 3 2 3" };

/**
 * Lines over a common axis. Each of `series` has name, x, y, colour, dash, and low and high for a band. `options()` is
 * called for each redraw. The values at the pointer are shown; arrow keys move to the next point.
 */
function lineChart(title, options) {
  const readout = el("p", { class: "readout" });
  const host = el("div", { class: "chart", tabindex: 0, role: "img", "aria-label": title });
  let place = null;
  let current = null;
  const draw = drawn(host, (width) => {
    const { series, labels, xlog = false, ylog = false, range = null, height = 260, legend = true } = options();
    const every = series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])])
      .filter((value) => Number.isFinite(value) && (!ylog || value > 0));
    const [low, high] = range || (every.length ? extent(every) : [0, 1]);
    const xs = series.flatMap((one) => [extent(Array.from(one.x).filter((value) => !xlog || value > 0))]);
    const x = new Axis(Math.min(...xs.map((pair) => pair[0])), Math.max(...xs.map((pair) => pair[1])),
      MARGIN.left, width - MARGIN.right, xlog);
    const margin = range || ylog ? 0 : 0.04 * (high - low);
    const y = new Axis(low - margin, high + margin, height - MARGIN.bottom, MARGIN.top, ylog);
    const picture = chartFrame(width, height, x, y, labels);
    for (const one of series) {
      const colour = seriesColour(one.colour);
      if (one.low) {
        picture.append(svg("path", { d: bandPath(x, y, one.x, one.low, one.high), fill: colour, opacity: 0.2 }));
      }
      picture.append(svg("path", {
        d: linePath(x, y, one.x, one.y), fill: "none", stroke: colour, "stroke-width": 2,
        "stroke-dasharray": DASHES[one.dash] || null, "stroke-linejoin": "round",
      }));
    }
    const mark = svg("line", { class: "mark", y1: y.to, y2: y.from, visibility: "hidden" });
    picture.append(mark);
    host.replaceChildren(picture);
    current = { series, x, mark };
    tell();
    host.parentElement.querySelector(".legend")?.replaceChildren(...(legend ? legendOf(series) : []));
  });

  function tell() {
    const { series, x, mark } = current;
    const first = series[0].x;
    if (place === null) {
      mark.setAttribute("visibility", "hidden");
      readout.textContent = "";
      return;
    }
    place = Math.max(0, Math.min(first.length - 1, place));
    const at = first[place];
    mark.setAttribute("visibility", "visible");
    mark.setAttribute("x1", x.at(at));
    mark.setAttribute("x2", x.at(at));
    const values = series.map((one) => `${one.name} ${shown(one.y[nearest(one.x, at)])}`);
    readout.textContent = `${whole(at)}: ${values.join(", ")}`;
  }

  host.addEventListener("pointermove", (event) => {
    if (!current) return;
    const { series, x } = current;
    const from = event.clientX - host.getBoundingClientRect().left;
    let best = 0;
    for (let i = 1; i < series[0].x.length; i++) {
      if (Math.abs(x.at(series[0].x[i]) - from) < Math.abs(x.at(series[0].x[best]) - from)) best = i;
    }
    place = best;
    tell();
  });
  host.addEventListener("pointerleave", () => { place = null; tell(); });
  host.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !current) return;
    event.preventDefault();
    place = place === null ? current.series[0].x.length - 1 : place + step;
    tell();
    announce(readout.textContent);
  });
  const figure = el("figure", {}, el("figcaption", {}, title), el("div", { class: "legend" }), host, readout);
  figure.redraw = draw;
  return figure;
}

function nearest(xs, at) {
  let low = 0;
  let high = xs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (xs[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

function legendOf(series) {
  return series.map((one) => el("span", { class: "key" },
    svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("line", {
      x1: 1, x2: 25, y1: 5, y2: 5, stroke: seriesColour(one.colour), "stroke-width": 3,
      "stroke-dasharray": DASHES[one.dash] || null,
    })), one.name));
}

/** Shares that add up to one, as stacked areas. */
function shareChart(title, options) {
  const host = el("div", { class: "chart", role: "img", "aria-label": title });
  drawn(host, (width) => {
    const { x: xs, shares, names, colours, labels, height = 240 } = options();
    const [low, high] = extent(xs);
    const x = new Axis(low, high, MARGIN.left, width - MARGIN.right);
    const y = new Axis(0, 1, height - MARGIN.bottom, MARGIN.top);
    const picture = chartFrame(width, height, x, y, labels);
    let below = new Float64Array(xs.length);
    names.forEach((name, i) => {
      const above = below.map((value, j) => value + (Number.isFinite(shares[i][j]) ? shares[i][j] : 0));
      const area = svg("path", {
        d: bandPath(x, y, xs, below, above), fill: seriesColour(colours[i % colours.length]), opacity: 0.85, class: "share",
      });
      area.append(svg("title", {}, name));
      picture.append(area);
      below = above;
    });
    host.replaceChildren(picture);
    host.parentElement.querySelector(".legend").replaceChildren(
      ...legendOf(names.map((name, i) => ({ name, colour: colours[i % colours.length] }))));
  });
  return el("figure", {}, el("figcaption", {}, title), el("div", { class: "legend" }), host);
}

/** Histogram of one or two groups of values. */
function histogram(title, options) {
  const host = el("div", { class: "chart", role: "img", "aria-label": title });
  const readout = el("p", { class: "readout" });
  const draw = drawn(host, (width) => {
    const { groups, label, height = 240 } = options();
    const known = groups.map((group) => Array.from(group.values).filter(Number.isFinite));
    const all = known.flat();
    if (!all.length) {
      host.replaceChildren(el("p", { class: "note" }, "no task is solved"));
      return;
    }
    const [low, high] = extent(all);
    const x = new Axis(low, high, MARGIN.left, width - MARGIN.right);
    const bins = Math.max(8, Math.min(60, Math.round((width - 80) / 9)));
    const counts = known.map((values) => {
      const found = new Array(bins).fill(0);
      for (const value of values) found[Math.min(bins - 1, Math.floor(bins * (value - x.low) / (x.high - x.low)))]++;
      return found;
    });
    const y = new Axis(0, Math.max(...counts.flat()), height - MARGIN.bottom, MARGIN.top);
    y.ticks = (wanted) => ticks(0, y.high, wanted).filter(Number.isInteger);
    const picture = chartFrame(width, height, x, y, [label, "tasks"]);
    counts.forEach((found, g) => {
      const step = (x.to - x.from) / bins;
      let path = "";
      found.forEach((count, i) => {
        if (count) path += `M${x.from + i * step + 0.5} ${y.from}V${y.at(count)}h${step - 1}V${y.from}Z`;
      });
      picture.append(svg("path", { d: path, fill: seriesColour(groups[g].colour), opacity: groups.length > 1 ? 0.55 : 0.9 }));
    });
    host.replaceChildren(picture);
    host.parentElement.querySelector(".legend").replaceChildren(
      ...(groups.length > 1 ? legendOf(groups) : []));
    readout.textContent = known.map((values, g) => {
      const sorted = Float64Array.from(values).sort();
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      return `${groups.length > 1 ? `${groups[g].name}: ` : ""}mean ${shown(mean)}, median ${shown(quantile(sorted, 0.5))}, `
        + `5 % below ${shown(quantile(sorted, 0.05))}, 5 % above ${shown(quantile(sorted, 0.95))}`;
    }).join("; ");
  });
  const figure = el("figure", {}, el("figcaption", {}, title), el("div", { class: "legend" }), host, readout);
  figure.redraw = draw;
  return figure;
}

/** Box plots of groups, with a point per value. */
function boxes(title, options) {
  const host = el("div", { class: "chart", role: "img", "aria-label": title });
  const draw = drawn(host, (width) => {
    const { groups, label, log } = options();
    const row = 46;
    const height = groups.length * row + MARGIN.top + MARGIN.bottom;
    const known = groups.map((group) => Float64Array.from(group.values).filter(Number.isFinite).sort());
    const every = known.flatMap((values) => Array.from(values)).filter((value) => !log || value > 0);
    const [low, high] = every.length ? extent(every) : [1, 2];
    const margin = 0.03 * (high - low);
    const x = new Axis(log ? low * 0.95 : low - margin, log ? high * 1.05 : high + margin, 16, width - MARGIN.right, log);
    const y = { from: height - MARGIN.bottom, to: MARGIN.top, ticks: () => [], at: (value) => value };
    const picture = chartFrame(width, height, x, y, [label, ""]);
    known.forEach((values, i) => {
      const middle = MARGIN.top + (i + 0.64) * row;
      const colour = seriesColour(groups[i].colour);
      picture.append(svg("text", { class: "name", x: 16, y: middle - 14 }, groups[i].name));
      if (!values.length) return;
      const [q1, q2, q3] = [0.25, 0.5, 0.75].map((share) => x.at(quantile(values, share)));
      picture.append(
        svg("line", { x1: x.at(values[0]), x2: x.at(values[values.length - 1]), y1: middle, y2: middle, stroke: colour }),
        svg("rect", {
          x: Math.min(q1, q3), width: Math.max(1, Math.abs(q3 - q1)), y: middle - 9, height: 18, fill: colour,
          "fill-opacity": 0.3, stroke: colour,
        }),
        svg("line", { class: "median", x1: q2, x2: q2, y1: middle - 9, y2: middle + 9 }),
      );
      values.forEach((value, j) => {
        // Spread vertically, so that equal values do not hide each other.
        const offset = values.length > 1 ? 12 * (j / (values.length - 1) - 0.5) : 0;
        picture.append(svg("circle", { cx: x.at(value), cy: middle + offset, r: 2.2, fill: colour }));
      });
    });
    host.replaceChildren(picture);
  });
  const figure = el("figure", {}, el("figcaption", {}, title), host);
  figure.redraw = draw;
  return figure;
}

/** Scatter plot with the line of equal values. */
function scatter(title, options) {
  const canvas = el("canvas", { role: "img", "aria-label": title });
  const host = el("div", { class: "chart" }, canvas);
  drawn(host, (width) => {
    const { x: xs, y: ys, labels, height = 300 } = options();
    const context = prepared(canvas, width, height);
    const both = [...xs, ...ys].filter(Number.isFinite);
    const [low, high] = both.length ? extent(both) : [0, 1];
    const x = new Axis(low, high, MARGIN.left, width - MARGIN.right);
    const y = new Axis(low, high, height - MARGIN.bottom, MARGIN.top);
    canvasAxes(context, x, y, labels, height);
    context.strokeStyle = cssColour("--quiet");
    context.beginPath();
    context.moveTo(x.from, y.from);
    context.lineTo(x.to, y.to);
    context.stroke();
    context.fillStyle = cssColour("--accent");
    context.globalAlpha = Math.max(0.25, Math.min(0.8, 400 / xs.length));
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) continue;
      context.beginPath();
      context.arc(x.at(xs[i]), y.at(ys[i]), 2, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
  });
  return el("figure", {}, el("figcaption", {}, title), host);
}

function canvasAxes(context, x, y, labels, height, texts = {}) {
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 1;
  context.strokeStyle = cssColour("--grid");
  context.fillStyle = cssColour("--quiet");
  context.textAlign = "center";
  for (const value of x.ticks(Math.max(2, (x.to - x.from) / 80))) {
    const place = x.at(value);
    context.beginPath();
    context.moveTo(place, y.from);
    context.lineTo(place, y.from + 4);
    context.stroke();
    context.fillText((texts.x || tickText)(value), place, y.from + 17);
  }
  context.textAlign = "right";
  for (const value of y.ticks(Math.max(2, (y.from - y.to) / 50))) {
    const place = y.at(value);
    context.beginPath();
    context.moveTo(x.from - 4, place);
    context.lineTo(x.from, place);
    context.stroke();
    context.fillText((texts.y || tickText)(value), x.from - 7, place + 4);
  }
  context.textAlign = "center";
  context.fillStyle = cssColour("--ink");
  context.fillText(labels[0], (x.from + x.to) / 2, height - 8, x.to - x.from);
  context.save();
  context.translate(13, (y.from + y.to) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(labels[1], 0, 0, y.from - y.to);
  context.restore();
  context.strokeRect(x.from, y.to, x.to - x.from, y.from - y.to);
}
