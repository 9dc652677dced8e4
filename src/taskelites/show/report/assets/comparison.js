// The page of a comparison.

function comparisonPage() {
  const parts = [];
  const several = about.labels.length > 1;
  const named = (i) => ({ name: about.labels[i], colour: about.styles[i][0], dash: about.styles[i][1] });
  let measure = about.measures[0];
  let xlog = true;
  const figures = [];
  const redraw = () => figures.forEach((figure) => figure.redraw());
  const lines = lineChart("Median of the runs, with the quartiles as a band", () => ({
    series: measure.series.map((one, i) => ({
      ...named(i), x: numbers(one.x), y: numbers(one.middle), low: numbers(one.low), high: numbers(one.high),
    })),
    labels: ["evaluations", measure.label], xlog, ylog: measure.log, height: 340,
  }));
  const finals = boxes("Final values, one point per run", () => ({
    groups: measure.series.map((one, i) => ({ ...named(i), values: numbers(one.finals) })),
    label: measure.label, log: measure.log,
  }));
  figures.push(lines, finals);
  const controls = el("div", { class: "row controls" },
    about.measures.length > 1 ? choice("measure", about.measures.map((one) => [one.key, one.label]), (key) => {
      measure = about.measures.find((one) => one.key === key);
      redraw();
    }) : null,
    toggle("logarithmic evaluations", xlog, (on) => { xlog = on; redraw(); }));
  parts.push(section("Progress", null, controls, el("div", { class: "pair" }, lines, finals)));
  const missing = about.missing.length ? ` Missing: ${about.missing.join(", ")}.` : "";
  parts.push(section("Measures", `Median (interquartile range) of the runs; ${about.tableNote}.${missing}`,
    table(about.table[0], about.table.slice(1), { label: "measures" })));
  if (several) {
    parts.push(section("Tests",
      "Mann-Whitney U on the final mean over all tasks, two-sided; Holm's correction for all pairs; A12: probability that a run of the first is better than a run of the second. "
      + about.testsNote,
      table(about.tests[0], about.tests.slice(1), { label: "tests" })));
  }
  parts.push(comparisonMaps());
  return parts;
}

function comparisonMaps() {
  const kinds = about.maps[0].gap ? [["fitness", "fitness"], ["gap", "gap to the optimum"]] : [["fitness", "fitness"]];
  const arrays = Object.fromEntries(kinds.map(([key]) => [key, about.maps.map((one) => numbers(one[key]))]));
  let kind = "fitness";
  const found = el("div", { class: "note", "aria-live": "polite" }, "Click on a task, or search for one.");
  const bar = el("div", {});
  const plane = firstPlane();
  const maps = about.maps.map((one, k) => new TaskMap({
    label: `map of ${one.label}`, heightOf: (width) => Math.min(420, width), small: true,
    tell: (i) => about.maps.map((other, j) => `${other.label}: ${shown(arrays[kind][j][i])}`),
  }));
  for (const map of maps) {
    map.linked = maps;
    map.on("choose", (i) => choose(i));
  }

  function paint() {
    const together = arrays[kind].flatMap((values) => Array.from(values));
    const scale = new Scale(together, { log: kind === "gap", reverse: kind === "gap" });
    maps.forEach((map, k) => {
      if (plane.kind === "line") map.plane = linePlane(plane, arrays[kind][k], scale, "");
      map.setValues(arrays[kind][k], scale);
    });
    bar.replaceChildren(colourBar(scale, kinds.find(([key]) => key === kind)[1]));
  }

  function choose(i) {
    for (const map of maps) map.select(i);
    const rows = about.maps.map((one, k) => [one.label, ...kinds.map(([key]) => shown(arrays[key][k][i], 6))]);
    found.replaceChildren(el("p", {}, `${taskName(i)}${descriptors ? `: ${describe(i).map((pair) => pair.join(" ")).join(", ")}` : ""}`),
      table(["algorithm", ...kinds.map(([, label]) => label)], rows, { label: "the task" }));
  }

  for (const map of maps) map.setPlane(plane);
  paint();
  const controls = el("div", { class: "row controls" },
    kinds.length > 1 ? choice("colour", kinds, (key) => { kind = key; paint(); }) : null,
    searchBox(choose), zoomButtons(maps[0]));
  const grid = el("div", { class: "maps" }, ...maps.map((map, k) => el("figure", {},
    el("figcaption", {}, `${about.maps[k].label}${about.maps[k].seed === null ? "" : ` (seed ${about.maps[k].seed})`}`), map.element)));
  return section("Maps", "The typical run of each algorithm (its final mean is nearest to the median), all on one scale of colours. "
    + `Across: ${plane.labels[0] || "-"}; upwards: ${plane.labels[1] || kinds[0][1]}.`, controls, bar, grid, keysNote(), found);
}
