// One task: its numbers, its solution, its neighbours.

function taskPanel(values, choose) {
  const heading = el("h3", { id: "task-heading" }, "no task chosen");
  const label = el("p", { class: "label-text" });
  // Many descriptors scroll; the tab stop makes that possible by keyboard.
  const many = descriptors && tasks.names.length > 10;
  const facts = el("dl", { class: "facts", tabindex: many ? 0 : null, "aria-label": "numbers of the task" });
  const picture = el("div", { class: "drawing" });
  const note = el("p", { class: "note" });
  const bars = genomes ? genomeBars() : null;
  const beside = el("div", { class: "beside" });
  const fitness = values[0].array;
  const rank = ranking(values);
  let current = -1;

  function show(i) {
    current = i;
    heading.textContent = `Task ${taskId(i)}`;
    label.textContent = tasks.labels ? tasks.labels[i] : "";
    const rows = values.map((value) => [value.label, value.whole ? wholeOrNone(value.array[i]) : shown(value.array[i], 6)]);
    if (descriptors) rows.push(...describe(i));
    facts.replaceChildren(...rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
    showPicture(i);
    showBeside(i);
    announce(`${taskName(i)}, fitness ${shown(fitness[i])}`);
  }

  function showPicture(i) {
    const drawing = pictureOf(i);
    const solved = Number.isFinite(fitness[i]);
    picture.replaceChildren(...(drawing ? [drawing] : []));
    const said = [];
    if (!solved) said.push("This task has no solution.");
    else if (about.undrawn && !drawing) said.push(undrawnText(i));
    if (solved && roundedNote()) said.push(`The numbers are ${roundedNote()}.`);
    note.textContent = said.join(" ");
    bars.element.hidden = !solved;
    copies.hidden = !solved;
    if (solved) bars.show(i);
  }

  function undrawnText(i) {
    const own = about.undrawn.failed[i];
    if (own) return `Not drawn: ${own}`;
    if (about.undrawn.trouble) return `Not drawn: this task was not tried. ${about.undrawn.trouble}`;
    const count = pictures ? pictures.places.size : 0;
    return `Not drawn: this page has pictures of ${whole(count)} of ${whole(about.undrawn.solved)} tasks. `
      + (about.undrawn.full ? "More would exceed its size limit."
        : `${about.again.kind === "command" ? "taskelites report RUN_FOLDER --draw all" : "te.show.report(..., drawing_time=math.inf)"} draws all.`);
  }

  function showBeside(i) {
    const others = neighboursOf(i);
    if (!others.length) beside.replaceChildren();
    else beside.replaceChildren(el("h4", {}, "Neighbours"), el("div", { class: "chips" }, ...others.map((other) =>
      el("button", { type: "button", onclick: () => choose(other), title: `fitness ${shown(fitness[other], 6)}` },
        `${taskId(other)}: ${shown(rank[other], 3)}`))));
  }

  function asPython() {
    const list = (numbersOf) => `[${numbersOf.join(", ")}]`;
    const lines = ["import numpy as np", "", `# ${oneLine(taskName(current))} of ${oneLine(about.name)}: fitness ${exact(fitness[current], false)}`];
    if (descriptors) lines.push(`${tasks.labels ? "descriptors" : "task"} = np.array(${list(rawDescriptors(current))})`);
    lines.push(`solution = np.array(${list(solution(current))})`);
    return `${lines.join("\n")}\n`;
  }

  function asJson() {
    const found = { task: taskId(current) };
    if (tasks.labels) found.label = tasks.labels[current];
    if (descriptors) found.descriptors = Object.fromEntries(tasks.names.map((name, k) => [name, Number(rawDescriptors(current)[k])]));
    found.fitness = fitness[current];
    for (const { key, array } of values) if (["corrected", "deviation"].includes(key)) found[key] = array[current];
    found.solution = solution(current).map(Number);
    return `${JSON.stringify(found)}\n`;
  }

  const copies = el("div", { class: "row" }, copyButton("copy as Python", asPython), copyButton("copy as JSON", asJson));
  const element = el("aside", { class: "task", "aria-labelledby": "task-heading" },
    heading, label, picture, note, bars ? bars.element : null, copies, facts, beside);
  return { element, show };
}

/** The values that rank tasks: the corrected fitness if there is one. */
function ranking(values) {
  return (values.find((value) => value.key === "corrected") || values[0]).array;
}

function wholeOrNone(value) {
  return Number.isFinite(value) ? whole(value) : "none";
}

function oneLine(text) {
  return text.replace(/\s+/g, " ");
}

function rawDescriptors(i) {
  const width = tasks.names.length;
  const single = tasks.descriptors.type === "f4";
  return Array.from({ length: width }, (_, k) => exact(descriptors[i * width + k], single));
}

function solution(i) {
  return genomes.row(i).map((value) => exact(value, genomes.single));
}
