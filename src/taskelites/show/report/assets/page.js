// Puts the page together.

function choice(label, options, chosen, value = null) {
  const select = el("select", { onchange: () => chosen(select.value) },
    ...options.map(([key, text]) => el("option", { value: key }, text)));
  if (value !== null) select.value = value;
  return el("label", {}, `${label} `, select);
}

function toggle(label, on, changed) {
  const box = el("input", { type: "checkbox", onchange: () => changed(box.checked) });
  box.checked = on;
  return el("label", {}, box, ` ${label}`);
}

function searchBox(choose) {
  const input = el("input", {
    type: "search", size: 9, placeholder: tasks.labels ? "number or text" : "number", "aria-label": "search for a task",
  });
  const answer = el("span", { class: "answer", role: "status" });
  let before = "";
  let turn = 0;
  const form = el("form", {
    class: "search",
    onsubmit: (event) => {
      event.preventDefault();
      const text = input.value.trim();
      if (!text) return;
      // The same text again finds the next match.
      turn = text === before ? turn + 1 : 0;
      before = text;
      const [place, said] = found(text, turn);
      answer.textContent = said;
      if (place >= 0) choose(place);
    },
  }, el("label", {}, "task ", input), el("button", { type: "submit" }, "find"), answer);
  return form;
}

/** The index of the task that matches a text, and the answer to show. */
function found(text, turn = 0) {
  let none = "no task has this in its text";
  if (/^\d+$/.test(text)) {
    const id = Number(text);
    const place = taskAt(id);
    if (place >= 0) return [place, ""];
    const sample = id < tasks.all ? `task ${text} is not in the sample that this page shows` : null;
    none = sample || `there is no task ${text}; tasks are numbered 0 to ${tasks.all - 1}`;
    if (!tasks.labels) return [-1, none];
  }
  if (tasks.labels) {
    const wanted = text.toLowerCase();
    const matches = [];
    tasks.labels.forEach((label, i) => { if (label.toLowerCase().includes(wanted)) matches.push(i); });
    if (!matches.length) return [-1, none];
    const k = turn % matches.length;
    return [matches[k], matches.length > 1 ? `${whole(k + 1)} of ${whole(matches.length)} with this text` : ""];
  }
  return [-1, `enter the number of a task, 0 to ${tasks.all - 1}`];
}

function zoomButtons(map) {
  return el("span", { class: "row", role: "group", "aria-label": "zoom" },
    el("button", { type: "button", "aria-label": "zoom in", onclick: () => map.zoomBy(1.5) }, "+"),
    el("button", { type: "button", "aria-label": "zoom out", onclick: () => map.zoomBy(1 / 1.5) }, "−"),
    el("button", { type: "button", onclick: () => map.reset() }, "whole map"));
}

function keysNote() {
  return el("p", { class: "note", id: "map-keys" },
    "On the map: drag to pan; click, then scroll to zoom; arrow keys go from task to task, + and - zoom, 0 shows the whole map.");
}

/** The plane of a single descriptor, with the value as height. */
function linePlane(plane, values, scale, label) {
  const points = new Float64Array(2 * tasks.number);
  for (let i = 0; i < tasks.number; i++) {
    points[2 * i] = plane.low[0] + plane.unit[2 * i] * (plane.high[0] - plane.low[0]);
    points[2 * i + 1] = Number.isFinite(values[i]) ? scale.placed(values[i]) : NaN;
  }
  return { ...unitPlane(points, [plane.labels[0], label]), kind: "line", ylog: scale.log };
}

function mapSection(listeners) {
  const values = about.values.map((value) => ({ ...value, array: numbers(value.numbers) }));
  const first = firstPlane();
  let value = values[0];
  let axes = [-1, -1];
  const map = new TaskMap({
    label: "map of the tasks", heightOf: (width) => Math.max(280, Math.min(0.72 * window.innerHeight, width, 720)),
    tell: (i) => {
      const lines = [`fitness ${shown(values[0].array[i])}`];
      if (value.key !== "fitness") lines.push(`${value.label} ${value.whole ? wholeOrNone(value.array[i]) : shown(value.array[i])}`);
      return lines;
    },
  });
  const bar = el("div", {});
  const panel = taskPanel(values, choose);

  function paint() {
    const scale = new Scale(value.array, value);
    if (first.kind === "line") map.plane = linePlane(first, value.array, scale, value.label);
    map.setValues(value.array, scale);
    bar.replaceChildren(colourBar(scale, value.label));
    for (const listener of listeners) listener.paint?.(value, map.buckets);
  }

  function choose(i) {
    map.select(i);
    panel.show(i);
    for (const listener of listeners) listener.select?.(i);
    try {
      history.replaceState(null, "", `#task=${taskId(i)}`);
    } catch {
      // In a frame of another page, the address can't be changed.
    }
  }

  function axisChoice(k) {
    const options = [[-1, `component ${k + 1}`], ...tasks.names.map((name, i) => [i, name])];
    return choice(k ? "y" : "x", options, (key) => {
      axes[k] = Number(key);
      const chosen = axes.every((axis) => axis >= 0);
      const mixed = axes.some((axis) => axis >= 0) && !chosen;
      if (mixed) map.setPlane({ ...mixedPlane(first, axes), kind: "descriptors" });
      else map.setPlane(chosen ? { ...unitPlane(columnPoints(...axes), axes.map((axis) => tasks.names[axis])), kind: "descriptors" } : first);
      map.select(map.selected);
    }, -1);
  }

  map.setPlane(first);
  map.on("choose", choose);
  const quick = el("span", { class: "row", role: "group", "aria-label": "choose a task" },
    ...["best", "median", "worst", "random"].map((word) =>
      el("button", { type: "button", onclick: () => choose(ranked(ranking(values), word)) }, word)));
  const controls = el("div", { class: "row controls" },
    choice("colour", values.map((one) => [one.key, one.label]), (key) => {
      value = values.find((one) => one.key === key);
      paint();
    }),
    first.kind === "components" ? axisChoice(0) : null, first.kind === "components" ? axisChoice(1) : null,
    searchBox(choose), quick, zoomButtons(map));
  const part = section("Map", mapNote(first), controls,
    el("div", { class: "map-and-task" }, el("div", { class: "map-side" }, bar, map.element, keysNote()), panel.element));
  return { part, start: () => { paint(); choose(startTask(ranking(values))); }, values };
}

function mixedPlane(first, axes) {
  const width = tasks.names.length;
  const points = new Float64Array(2 * tasks.number);
  for (let i = 0; i < tasks.number; i++) {
    for (const k of [0, 1]) {
      points[2 * i + k] = axes[k] >= 0
        ? descriptors[i * width + axes[k]]
        : first.low[k] + first.unit[2 * i + k] * (first.high[k] - first.low[k]);
    }
  }
  return unitPlane(points, axes.map((axis, k) => (axis >= 0 ? tasks.names[axis] : first.labels[k])));
}

function mapNote(plane) {
  const some = tasks.number < tasks.all
    ? `A random sample of ${whole(tasks.number)} of ${whole(tasks.all)} tasks; the curves and the numbers above are for all tasks. ` : "";
  const kinds = {
    descriptors: "Each task is at its two descriptors.",
    components: `Tasks have ${tasks.dim} descriptors${tasks.names.length < tasks.dim ? `, of which this page has the first ${tasks.names.length}` : ""}. Each task is at the first two principal components, or at two descriptors that you choose.`,
    line: "Each task is at its descriptor; the height is the value.",
    order: "These tasks have no descriptors, so they are in the order of their numbers.",
  };
  return some + kinds[plane.kind];
}

function startTask(fitness) {
  const asked = /^#task=(\d+)$/.exec(location.hash);
  const place = asked ? taskAt(Number(asked[1])) : -1;
  return place >= 0 ? place : ranked(fitness, "best");
}

function ranked(fitness, word) {
  const solved = Array.from(fitness.keys()).filter((i) => Number.isFinite(fitness[i]));
  if (!solved.length) return 0;
  if (word === "random") return solved[Math.floor(Math.random() * solved.length)];
  solved.sort((a, b) => fitness[a] - fitness[b]);
  return { best: solved[solved.length - 1], worst: solved[0], median: solved[(solved.length - 1) >> 1] }[word];
}

function progressSection() {
  if (!about.curves) return null;
  const columns = Object.fromEntries(Object.entries(about.curves).map(([name, reference]) => [name, numbers(reference)]));
  let xlog = true;
  const [blue, orange] = COLOURS;
  const fitness = lineChart("Fitness over the solved tasks; the band contains the middle 90 % of them", () => ({
    series: [
      { name: "mean", x: columns.evaluations, y: columns.mean, colour: blue, low: columns.q05, high: columns.q95 },
      { name: "median", x: columns.evaluations, y: columns.median, colour: orange, dash: "--" },
    ],
    labels: ["evaluations", "fitness"], xlog, height: 300,
  }));
  const coverage = lineChart("Coverage: the share of solved tasks", () => ({
    series: [{ name: "coverage", x: columns.evaluations, y: columns.coverage, colour: COLOURS[2] }],
    labels: ["evaluations", "coverage"], xlog, range: [0, 1.02], height: 300, legend: false,
  }));
  const controls = el("div", { class: "row controls" },
    toggle("logarithmic evaluations", xlog, (on) => { xlog = on; fitness.redraw(); coverage.redraw(); }));
  return section("Progress", null, controls, el("div", { class: "pair" }, fitness, coverage));
}

function banditSection() {
  if (!about.bandit) return null;
  const { title, names, evaluations, shares, rates } = about.bandit;
  const x = numbers(evaluations);
  const rows = (reference) => {
    const all = numbers(reference);
    return names.map((_, i) => all.subarray(i * x.length, (i + 1) * x.length));
  };
  const [shareRows, rateRows] = [rows(shares), rows(rates)];
  return section(title, "How often each was chosen, and the share of its candidates that became elites.",
    el("div", { class: "pair" },
      shareChart("Share of the candidates", () => ({
        x, shares: shareRows, names, colours: COLOURS, labels: ["evaluations", "share"],
      })),
      lineChart("Success rate", () => ({
        series: names.map((name, i) => ({ name, x, y: rateRows[i], colour: COLOURS[i % COLOURS.length], dash: ["-", "--", ":"][Math.floor(i / COLOURS.length) % 3] })),
        labels: ["evaluations", "success rate"], height: 240,
      }))));
}

function distributionSection(values) {
  const shownValues = values.filter((value) => ["fitness", "gap", "corrected"].includes(value.key));
  let value = values[0];
  const corrected = values.find((one) => one.key === "corrected");
  const picture = histogram("Tasks by value", () => ({
    groups: value.key === "fitness" && corrected
      ? [{ name: "believed", values: value.array, colour: COLOURS[0] }, { name: "corrected", values: corrected.array, colour: COLOURS[1] }]
      : [{ name: value.label, values: value.array, colour: COLOURS[0] }],
    label: value.label,
  }));
  const controls = shownValues.length > 1 ? el("div", { class: "row controls" },
    choice("value", shownValues.map((one) => [one.key, one.label]), (key) => {
      value = values.find((one) => one.key === key);
      picture.redraw();
    })) : null;
  const noise = corrected ? scatter(`Believed and corrected fitness (mean of ${about.samples} samples); both are equal on the line`, () => ({
    x: values[0].array, y: corrected.array, labels: ["believed", "corrected"],
  })) : null;
  return section("Distribution", null, controls, el("div", { class: noise ? "pair" : "" }, picture, noise));
}

function failureSection() {
  if (!about.failures) return null;
  const { counts, examples, all } = about.failures;
  return section("Failures", "Evaluations without a usable fitness. They count as evaluations and change no solution.",
    table(["kind", "evaluations"], counts.map(([kind, number]) => [kind, whole(number)]), { label: "counts of failures" }),
    examples.length ? el("details", {},
      el("summary", {}, `${examples.length} of ${whole(all)}`),
      table(["id", "evaluation", "task", "kind", "message"], examples, { label: "failures", kind: "wide" })) : null);
}

function settingsSection() {
  const { kind, text } = about.again;
  const heads = { command: "This command repeats it:", python: "It was started in Python. With its fitness and tasks, and other arguments such as initial or target if it had any, this call repeats it:" };
  return section("Settings", null,
    kind === "none" ? null : el("div", {}, el("p", { class: "note" }, heads[kind]),
      el("pre", { tabindex: 0 }, text), copyButton("copy", () => text)),
    el("details", { open: true }, el("summary", {}, "all settings"), table(["name", "value"], about.settings, { label: "settings", kind: "texts" })));
}

function themeButton() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const button = el("button", { type: "button", class: "theme", "aria-label": "light or dark" });
  const name = () => { button.textContent = dark() ? "light" : "dark"; };
  const again = () => { name(); redraws.forEach((draw) => draw()); };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; again(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  name();
  return button;
}

function header() {
  const short = (text) => (text.length > 120 ? `${text.slice(0, 120)}...` : text);
  return el("header", {}, el("div", { class: "row title-row" }, el("h1", {}, short(about.name)), themeButton()),
  el("p", { class: "note" }, short(about.algorithm)),
  about.notice ? el("p", { class: "notice", role: "alert" }, about.notice) : null,
  el("dl", { class: "tiles" }, ...about.tiles.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
}

function runPage(page) {
  const listeners = [];
  const { part, start, values } = mapSection(listeners);
  const lines = genomes ? parallelCoordinates() : null;
  page.append(part);
  start();
  // The sections below the map wait until the map can be used.
  setTimeout(() => {
    page.append(...[
      progressSection(), distributionSection(values), banditSection(),
      lines ? section("Solutions", genomeNote(), lines.element) : null, failureSection(), settingsSection(), footer(),
    ].filter(Boolean));
    if (lines) {
      const current = startOf(values);
      lines.colour(current.value.array, current.buckets);
      listeners.push({ paint: (value, buckets) => lines.colour(value.array, buckets), select: lines.select });
      lines.select(current.selected);
    }
    document.documentElement.dataset.ready = "whole";
  }, 0);

  function startOf(all) {
    const scale = new Scale(all[0].array, all[0]);
    return { value: all[0], buckets: Int16Array.from(all[0].array, (value) => scale.bucket(value)), selected: startTask(ranking(all)) };
  }
}

function genomeNote() {
  const some = tasks.number > GENOMES_DRAWN ? ` ${whole(GENOMES_DRAWN)} of ${whole(tasks.number)} are drawn, evenly spaced by rank.` : "";
  return `Each line is the solution of a task, coloured like the map; the chosen task is outlined.${some}`;
}

function footer() {
  return el("footer", { class: "note" }, about.written);
}

const page = document.getElementById("page");
page.append(header(), live);
if (about.kind === "run") runPage(page);
else {
  page.append(...comparisonPage(), settingsSection(), footer());
  document.documentElement.dataset.ready = "whole";
}
document.documentElement.dataset.ready ||= "map";
