// The map of the tasks on a canvas: zoom, pan, hover and choose, by pointer or keyboard.

const tasks = about.tasks;
const taskIds = tasks.ids ? numbers(tasks.ids) : null;
const descriptors = tasks.descriptors ? numbers(tasks.descriptors) : null;
const neighbourTable = tasks.neighbours ? numbers(tasks.neighbours) : null;
const NEIGHBOURS = 6;
const LABELS_SHOWN = 6;

function taskId(i) {
  return taskIds ? taskIds[i] : i;
}

/** The index of the task with this number; -1 if the page does not have it. */
function taskAt(id) {
  if (!taskIds) return Number.isInteger(id) && id >= 0 && id < tasks.number ? id : -1;
  const place = nearest(taskIds, id);
  return taskIds[place] === id ? place : -1;
}

function taskName(i) {
  return tasks.labels ? `task ${taskId(i)} (${tasks.labels[i]})` : `task ${taskId(i)}`;
}

/** The nearest other tasks by the distance of the search; none if the page does not know it. */
function neighboursOf(i) {
  if (neighbourTable) {
    return Array.from(neighbourTable.subarray(i * NEIGHBOURS, (i + 1) * NEIGHBOURS)).filter((other) => other >= 0);
  }
  const width = tasks.names.length;
  if (!descriptors || tasks.distance || width < tasks.dim) return [];
  const best = []; // pairs of distance and task, the nearest first
  for (let j = 0; j < tasks.number; j++) {
    if (j === i) continue;
    let distance = 0;
    for (let k = 0; k < width; k++) {
      distance += ((descriptors[j * width + k] - descriptors[i * width + k]) / tasks.widths[k]) ** 2;
    }
    if (best.length === NEIGHBOURS && distance >= best[NEIGHBOURS - 1][0]) continue;
    let place = best.length;
    while (place > 0 && best[place - 1][0] > distance) place--;
    best.splice(place, 0, [distance, j]);
    if (best.length > NEIGHBOURS) best.pop();
  }
  return best.map(([, j]) => j);
}

/** The descriptors of a task, as pairs of name and text. */
function describe(i) {
  const width = tasks.names.length;
  return tasks.names.map((name, k) => [name, shown(descriptors[i * width + k], 5)]);
}

function columnPoints(first, second) {
  const width = tasks.names.length;
  const points = new Float64Array(2 * tasks.number);
  for (let i = 0; i < tasks.number; i++) {
    points[2 * i] = descriptors[i * width + first];
    points[2 * i + 1] = descriptors[i * width + second];
  }
  return points;
}

/** Points scaled to the unit square, with a margin. */
function unitPlane(points, labels) {
  const n = points.length / 2;
  const low = [];
  const high = [];
  for (const axis of [0, 1]) {
    let [least, most] = [Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const value = points[2 * i + axis];
      if (!Number.isFinite(value)) continue;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    if (!(most >= least)) [least, most] = [0, 1];
    const width = most > least ? most - least : 1;
    low.push(least - 0.05 * width);
    high.push(most + 0.05 * width);
  }
  const unit = new Float32Array(2 * n);
  for (let i = 0; i < 2 * n; i++) {
    const axis = i % 2;
    const share = (points[i] - low[axis]) / (high[axis] - low[axis]);
    unit[i] = Number.isFinite(share) ? share : 0.012; // a task without a value is at the lower edge
  }
  return { unit, low, high, labels };
}

/** The plane that Python chose, and the cells of the tasks if there are any. */
function firstPlane() {
  const { points, labels, low, high, kind, cells, cellStart } = about.plane;
  const plane = { unit: numbers(points), low, high, labels, kind };
  if (cells) {
    plane.cells = numbers(cells);
    plane.cellStart = numbers(cellStart);
  }
  return plane;
}

class TaskMap {
  constructor({ label, heightOf, small = false, tell = null }) {
    this.small = small;
    this.tell = tell;
    this.heightOf = heightOf;
    this.view = { x0: 0, x1: 1, y0: 0, y1: 1 };
    this.linked = [this];
    this.selected = -1;
    this.near = [];
    this.hovered = -1;
    this.listeners = { choose: [], hover: [] };
    this.canvas = el("canvas", {
      tabindex: 0, role: "application", "aria-label": label, "aria-describedby": "map-keys",
    });
    this.tip = el("div", { class: "tip", role: "presentation" });
    this.element = el("div", { class: "map" }, this.canvas, this.tip);
    this.redraw = drawn(this.element, (width) => this.layout(width));
    this.listen();
  }

  on(kind, listener) {
    this.listeners[kind].push(listener);
  }

  setPlane(plane) {
    this.plane = plane;
    this.reset();
  }

  setValues(values, scale) {
    this.values = values;
    this.scale = scale;
    this.buckets = new Int16Array(values.length);
    for (let i = 0; i < values.length; i++) this.buckets[i] = scale.bucket(values[i]);
    // Sorted by colour, so that each is set once; unsolved tasks are first, below the others.
    this.order = Uint32Array.from(values.keys()).sort((a, b) => this.buckets[a] - this.buckets[b]);
    this.request();
  }

  layout(width) {
    this.width = width;
    this.height = this.heightOf(width);
    const margin = this.small
      ? { left: 8, right: 8, top: 8, bottom: 8 }
      : { left: width < 500 ? 46 : 58, right: 10, top: 10, bottom: 42 };
    this.box = {
      x: margin.left, y: margin.top, w: width - margin.left - margin.right, h: this.height - margin.top - margin.bottom,
    };
    this.context = prepared(this.canvas, width, this.height);
    this.draw();
  }

  request() {
    if (this.waiting || !this.box) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  screen(i) {
    const { x0, x1, y0, y1 } = this.view;
    const { x, y, w, h } = this.box;
    return [
      x + ((this.plane.unit[2 * i] - x0) / (x1 - x0)) * w,
      y + h - ((this.plane.unit[2 * i + 1] - y0) / (y1 - y0)) * h,
    ];
  }

  get zoom() {
    return 1 / (this.view.x1 - this.view.x0);
  }

  get radius() {
    const even = Math.sqrt((0.2 * this.box.w * this.box.h) / (Math.PI * tasks.number));
    return Math.max(this.small ? 0.7 : 1.2, Math.min(7, even)) * Math.min(4, Math.sqrt(this.zoom));
  }

  draw() {
    if (!this.plane || !this.values) return;
    const { context, box, plane } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.w, box.h);
    context.clip();
    context.fillStyle = cssColour("--paper");
    context.fillRect(box.x, box.y, box.w, box.h);
    if (plane.cells) this.drawCells();
    else this.drawPoints();
    for (const other of this.near) this.outline(other, 1);
    if (this.hovered >= 0 && this.hovered !== this.selected) this.outline(this.hovered, 1.5);
    if (this.selected >= 0) this.outline(this.selected, 3);
    context.restore();
    this.drawAxes();
  }

  cellPath(i) {
    const { context, box, plane } = this;
    const { x0, x1, y0, y1 } = this.view;
    for (let c = plane.cellStart[i]; c < plane.cellStart[i + 1]; c++) {
      const x = box.x + ((plane.cells[2 * c] / 65535 - x0) / (x1 - x0)) * box.w;
      const y = box.y + box.h - ((plane.cells[2 * c + 1] / 65535 - y0) / (y1 - y0)) * box.h;
      if (c === plane.cellStart[i]) context.moveTo(x, y);
      else context.lineTo(x, y);
    }
    context.closePath();
  }

  eachColour(add, finish) {
    const none = cssColour("--unsolved");
    let current = null;
    for (const i of this.order) {
      if (!this.inView(i)) continue;
      const bucket = this.buckets[i];
      if (bucket !== current) {
        if (current !== null) finish();
        current = bucket;
        const colour = bucket < 0 ? none : palette[bucket];
        this.context.fillStyle = colour;
        this.context.strokeStyle = colour;
        this.context.beginPath();
      }
      add(i);
    }
    if (current !== null) finish();
  }

  inView(i) {
    const { x0, x1, y0, y1 } = this.view;
    const [u, v] = [this.plane.unit[2 * i], this.plane.unit[2 * i + 1]];
    const margin = this.plane.cells ? 0.5 : 0.05 * (x1 - x0);
    return u > x0 - margin && u < x1 + margin && v > y0 - margin && v < y1 + margin;
  }

  drawCells() {
    const { context } = this;
    context.lineWidth = 0.7;
    this.eachColour((i) => this.cellPath(i), () => {
      context.fill();
      context.stroke(); // covers the thin gap between two cells
    });
  }

  drawPoints() {
    const { context, radius } = this;
    const square = tasks.number > 20000 || this.plane.kind === "order";
    const [side, tall] = this.plane.kind === "order" ? this.tile : [1.8 * radius, 1.8 * radius];
    this.eachColour((i) => {
      const [x, y] = this.screen(i);
      if (square) context.rect(x - side / 2, y - tall / 2, side, tall);
      else {
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 7);
      }
    }, () => context.fill());
  }

  /** Width and height of a task if the tasks are in rows. */
  get tile() {
    const { unit } = this.plane;
    const columns = Math.ceil(Math.sqrt(tasks.number));
    const across = columns > 1 ? unit[2] - unit[0] : 1;
    const down = tasks.number > columns ? unit[1] - unit[2 * columns + 1] : 1;
    return [0.87 * across * this.box.w, 0.87 * down * this.box.h].map((size) => Math.max(1, size * this.zoom));
  }

  outline(i, width) {
    const { context } = this;
    for (const [colour, wide] of [[cssColour("--outline-far"), width + 2], [cssColour("--outline"), width]]) {
      context.beginPath();
      const [x, y] = this.screen(i);
      if (this.plane.cells) this.cellPath(i);
      else if (this.plane.kind === "order") {
        const [side, tall] = this.tile;
        context.rect(x - side / 2, y - tall / 2, side, tall);
      } else {
        context.arc(x, y, this.radius + 2 + width, 0, 7);
      }
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.stroke();
    }
  }

  drawAxes() {
    const { context, box, plane, view } = this;
    if (this.small) {
      context.strokeStyle = cssColour("--grid");
      context.strokeRect(box.x, box.y, box.w, box.h);
      return;
    }
    const span = [plane.high[0] - plane.low[0], plane.high[1] - plane.low[1]];
    const x = new Axis(plane.low[0] + view.x0 * span[0], plane.low[0] + view.x1 * span[0], box.x, box.x + box.w);
    const y = new Axis(plane.low[1] + view.y0 * span[1], plane.low[1] + view.y1 * span[1], box.y + box.h, box.y);
    const quiet = plane.kind === "order";
    if (quiet) x.ticks = y.ticks = () => [];
    const texts = plane.ylog ? { y: (value) => tickText(Number((10 ** value).toPrecision(2))) } : {};
    canvasAxes(context, x, y, plane.labels, this.height, texts);
  }

  /** The task at a position on the canvas; -1 if there is none near. */
  at(x, y) {
    const { box, view } = this;
    if (x < box.x || x > box.x + box.w || y < box.y || y > box.y + box.h) return -1;
    const u = view.x0 + ((x - box.x) / box.w) * (view.x1 - view.x0);
    const v = view.y0 + ((box.y + box.h - y) / box.h) * (view.y1 - view.y0);
    let best = -1;
    // Cells are Voronoi cells of the unit square: the nearest point there owns the cell.
    const [fx, fy] = this.plane.cells ? [1, 1] : [box.w / (view.x1 - view.x0), box.h / (view.y1 - view.y0)];
    let least = Infinity;
    for (let i = 0; i < tasks.number; i++) {
      const dx = (this.plane.unit[2 * i] - u) * fx;
      const dy = (this.plane.unit[2 * i + 1] - v) * fy;
      const distance = dx * dx + dy * dy;
      if (distance < least) [least, best] = [distance, i];
    }
    return this.plane.cells || least < 30 * 30 ? best : -1;
  }

  /** The nearest task to the left, right, above or below another one. */
  beside(from, [right, up]) {
    const [x, y] = this.screen(from);
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < tasks.number; i++) {
      if (i === from) continue;
      const [ox, oy] = this.screen(i);
      const along = (ox - x) * right - (oy - y) * up;
      const across = Math.abs((ox - x) * up + (oy - y) * right);
      if (along <= 0 || across > along) continue;
      const distance = along + 2 * across;
      if (distance < least) [least, best] = [distance, i];
    }
    return best;
  }

  hover(i, x = 0, y = 0) {
    for (const map of this.linked) {
      map.hovered = i;
      map.request();
    }
    this.tip.style.display = i < 0 ? "none" : "block";
    this.canvas.style.cursor = i < 0 ? "default" : "pointer";
    if (i < 0) return;
    this.tip.replaceChildren(...this.tipLines(i).map((line, k) => el(k ? "div" : "strong", {}, line)));
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, this.width - wide - 2))}px`;
    this.tip.style.top = `${y + 16 + this.tip.offsetHeight > this.height ? y - this.tip.offsetHeight - 8 : y + 16}px`;
  }

  tipLines(i) {
    const name = taskName(i);
    const lines = [name.length > 80 ? `${name.slice(0, 80)}...` : name];
    lines.push(...this.tell(i));
    if (descriptors) {
      const all = describe(i);
      lines.push(...all.slice(0, LABELS_SHOWN).map(([label, value]) => `${label} ${value}`));
      if (all.length > LABELS_SHOWN) lines.push(`and ${all.length - LABELS_SHOWN} more`);
    }
    return lines;
  }

  choose(i) {
    if (i >= 0) for (const listener of this.listeners.choose) listener(i);
  }

  select(i) {
    this.selected = i;
    this.near = i >= 0 && !this.small ? neighboursOf(i) : [];
    if (i >= 0 && this.plane) this.reveal(i);
    this.request();
  }

  /** Move the view so that it contains a task. */
  reveal(i) {
    const { x0, x1, y0, y1 } = this.view;
    const [u, v] = [this.plane.unit[2 * i], this.plane.unit[2 * i + 1]];
    if (u >= x0 && u <= x1 && v >= y0 && v <= y1) return;
    this.look(u - (x1 - x0) / 2, v - (y1 - y0) / 2, x1 - x0);
  }

  /** Show the square of this width with its lower left corner at (x0, y0). */
  look(x0, y0, width) {
    const wide = Math.max(1 / 500, Math.min(1, width));
    const left = Math.max(0, Math.min(1 - wide, x0));
    const bottom = Math.max(0, Math.min(1 - wide, y0));
    for (const map of this.linked) {
      map.view = { x0: left, x1: left + wide, y0: bottom, y1: bottom + wide };
      map.canvas.style.touchAction = wide < 1 ? "none" : "pan-y";
      map.request();
    }
  }

  reset() {
    this.look(0, 0, 1);
  }

  /** Zoom around a position on the canvas, by default around its centre. */
  zoomBy(factor, at = null) {
    const { x0, x1, y0 } = this.view;
    const share = at ? [(at[0] - this.box.x) / this.box.w, 1 - (at[1] - this.box.y) / this.box.h] : [0.5, 0.5];
    const before = x1 - x0;
    const width = Math.max(1 / 500, Math.min(1, before / factor));
    this.look(x0 + share[0] * (before - width), y0 + share[1] * (before - width), width);
  }

  place(event) {
    const frame = this.canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  listen() {
    const { canvas } = this;
    const pointers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, this.place(event));
      canvas.setPointerCapture(event.pointerId);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const now = this.place(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        this.hover(this.at(...now), ...now);
        return;
      }
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (pointers.size === 2) {
        const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
        const spread = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
        this.zoomBy(spread(now) / Math.max(1, spread(before)), [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]);
      } else if (moved > 4) {
        const width = this.view.x1 - this.view.x0;
        const across = ((now[0] - before[0]) / this.box.w) * width;
        const along = ((now[1] - before[1]) / this.box.h) * width;
        this.look(this.view.x0 - across, this.view.y0 + along, width);
        this.hover(-1);
      }
      pointers.set(event.pointerId, now);
    });
    const up = (event) => {
      if (pointers.delete(event.pointerId) && event.type === "pointerup" && moved <= 4) {
        this.choose(this.at(...this.place(event)));
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(2, this.place(event)));
    canvas.addEventListener("wheel", (event) => {
      // Without the focus on the map, the wheel scrolls the page.
      if (document.activeElement !== canvas && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), this.place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const zoom = { "+": 1.5, "=": 1.5, "-": 1 / 1.5 }[event.key];
    if (direction) this.choose(this.selected < 0 ? 0 : this.beside(this.selected, direction));
    else if (zoom) this.zoomBy(zoom, this.selected < 0 ? null : this.screen(this.selected));
    else if (event.key === "0") this.reset();
    else return;
    event.preventDefault();
  }
}

/** The colour bar and its scale. */
function colourBar(scale, label) {
  const what = el("span", { class: "what" }, label);
  if (!scale.known) return el("div", { class: "colours" }, what, el("div", { class: "marks" }, "no values"));
  const stops = scale.high > scale.low ? [0, 0.25, 0.5, 0.75, 1] : [1];
  const bar = svg("svg", { viewBox: "0 0 256 12", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" });
  for (let i = 0; i < 64; i++) {
    const place = stops.length === 1 ? 255 : 4 * i;
    bar.append(svg("rect", { x: 4 * i, y: 0, width: 4.5, height: 12, fill: palette[scale.reverse ? 255 - place : place] }));
  }
  const marks = stops.map((share) => el("span", {}, scale.text(share)));
  return el("div", { class: "colours" }, what, bar, el("div", { class: "marks" }, ...marks));
}
