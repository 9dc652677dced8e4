"""The figures of the hexapod experiment, arranged as in the paper."""

from typing import Any

import numpy as np

from taskelites.analysis.elites import best_elites
from taskelites.domains.hexapod.body import BASE, FEMUR, LEG_NAMES, LEGS, NOMINAL, TIBIA, links
from taskelites.experiments.paper.hexapod.claims import (
    BANDIT,
    CMA,
    PAPER_MEAN,
    PAPER_TRANSFER,
    TOP,
    HexapodMeasurements,
)
from taskelites.experiments.paper.hexapod.map import JOINTS, PAIRS, PARTS, leg_shifts

# Angles of the projection: the view is from behind, the left and above.
_TURN, _TILT = np.radians(-65.0), np.radians(55.0)


def _colour(number: int) -> str:
    """Return a colour of the palette that all figures share."""
    from taskelites.show.comparison_plots import COLOURS

    return COLOURS[number]


def figure(data: HexapodMeasurements, algorithms: list[str]) -> Any:
    """Plot bodies, curves, final values, and the runs of CMA-ES on one body (figure 3 of the paper)."""
    import matplotlib.pyplot as plt

    from taskelites.show import curves, finals

    whole = plt.figure(figsize=(14, 8.6), layout="constrained")
    parts: Any = whole.subfigures(2, 1, height_ratios=[1, 1.35])
    top, bottom = parts
    drawings: Any = top.subplots(1, 4)
    bodies = np.asarray(data.comparison.results[BANDIT][0].tasks.descriptors)
    shown = [NOMINAL, *bodies[: len(drawings) - 1]]
    for i, (ax, lengths) in enumerate(zip(drawings, shown, strict=False)):
        show_body(lengths, ax, legend=i == 0)
        name = "the robot, all lengths in the middle" if i == 0 else f"body {i - 1} of the tasks"
        ax.set_title(f"{'ABCD'[i]}  {name}", fontsize="medium")
    for ax in drawings[len(shown) :]:
        ax.set_axis_off()
    left, middle, right = bottom.subplots(1, 3, width_ratios=[1.25, 1, 1.1])
    curves(data.comparison, ax=left, labels=algorithms)
    left.set(ylabel="mean fitness over all bodies, m")
    left.set_title("E  median and quartiles", fontsize="medium")
    finals(data.comparison, ax=middle, labels=algorithms)
    middle.set(xlabel=f"mean fitness over all bodies, m\nafter {data.comparison.budget:,} evaluations")
    middle.set_yticks(middle.get_yticks(), [label.replace("-elites-", "-elites-\n") for label in algorithms])
    middle.set_title("F  final values", fontsize="medium")
    draw_single(data, right)
    right.set_title(f"G  CMA-ES on one body, {len(data.finals)} runs", fontsize="medium")
    return whole


def map_figure(data: HexapodMeasurements) -> Any:
    """Plot genomes, transfer and bodies of a map (figure 4 of the paper, and its claims about bodies)."""
    import matplotlib.pyplot as plt

    whole = plt.figure(figsize=(14, 9.4), layout="constrained")
    parts: Any = whole.subfigures(2, 1)
    top, bottom = parts
    draw_genomes(data, top.subplots())
    left, middle, right = bottom.subplots(1, 3, width_ratios=[1.5, 1.2, 0.9])
    draw_transfer(data, left)
    draw_lengths(data, middle)
    best = int(best_elites(data.map, 0.0, least=1)[0])
    show_body(np.asarray(data.map.tasks.descriptors)[best], right, legend=True)
    right.set_title(f"D  the best body: {data.map.fitness[best]:.2f} m", fontsize="medium")
    return whole


def show_body(lengths: np.ndarray, ax: Any, *, legend: bool = False) -> None:
    """Show a rendered body, or a body drawn as sticks if no rendering backend works."""
    from taskelites.domains.hexapod.rendering import portrait

    try:
        picture = portrait(lengths, width=720, height=600)
    except ImportError:
        draw_body(lengths, ax, legend=legend)
        return
    ax.imshow(picture)
    ax.set_axis_off()


def draw_body(lengths: np.ndarray, ax: Any, *, legend: bool = False) -> None:
    """Draw a body as sticks, all joints at zero, seen from behind, the left and above."""
    joints, feet = _positions(np.asarray(lengths, float))
    x, y = BASE[0] / 2, BASE[1] / 2
    deck = np.array([(a, b, 0.0) for a, b in ((-x, -y), (x, -y), (x, y), (-x, y), (-x, -y))])
    for leg in range(LEGS):
        coxa, femur, tibia = (joints[f"{part}_{leg}"] for part in ("coxa", "femur", "tibia"))
        for ends, colour, name in (
            ((joints["base"], coxa, femur), _colour(7), None),
            ((femur, tibia), _colour(0), "femur"),
            ((tibia, feet[leg]), _colour(1), "tibia"),
        ):
            seen = _seen(np.array(ends))
            label = name if leg == 0 else None
            ax.plot(*seen.T, color=colour, linewidth=3, solid_capstyle="round", zorder=1, label=label)
        ax.plot(*_seen(feet[leg][None]).T, "o", color="black", markersize=4, zorder=2)
    ax.fill(*_seen(deck).T, facecolor="#DDDDDD", edgecolor=_colour(7), zorder=3)
    arrow = _seen(np.array([(-0.07, 0.0, 0.0), (0.10, 0.0, 0.0)]))
    ax.annotate("", xy=arrow[1], xytext=arrow[0], arrowprops={"arrowstyle": "->", "color": "black"}, zorder=4)
    if legend:
        ax.legend(fontsize="small", loc="upper left", frameon=False)
    # The same limits in all drawings make bodies comparable.
    ax.set(xlim=(-0.30, 0.30), ylim=(-0.33, 0.25), aspect="equal")
    ax.set_axis_off()


def draw_single(data: HexapodMeasurements, ax: Any) -> None:
    """Draw the best fitness over evaluations of each run of CMA-ES on one body, and their median."""
    runs = data.single.results[CMA]
    points, values = data.single.curves(CMA)
    for run in values:
        ax.plot(points, run, color=_colour(2), linewidth=0.8, alpha=0.7, marker="o" if len(run) == 1 else "")
    ax.plot(points, np.median(values, axis=0), color="black", linewidth=2.5, label=f"median of {len(runs)}")
    ax.axhline(data.level, color=_colour(0), linestyle="--", label=f"mean of mt-map-elites, {data.level:.2f} m")
    ax.axhline(PAPER_MEAN, color=_colour(7), linestyle=":", label="the same in the paper, 0.7 m")
    low, high = min(float(values.min()), data.level, PAPER_MEAN), max(float(values.max()), data.level, PAPER_MEAN)
    ax.locator_params(axis="x", nbins=5)  # six-digit labels would overlap
    ax.set(xlabel="evaluations", ylabel="fitness, m", ylim=(low - 0.05 * (high - low), high + 0.3 * (high - low)))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small", loc="upper left")


def draw_genomes(data: HexapodMeasurements, ax: Any) -> None:
    """Draw each gene of each elite as a point, coloured by its fitness, and the best genomes as lines."""
    solved = np.flatnonzero(data.map.solved)
    order = solved[np.argsort(data.map.fitness[solved], kind="stable")]
    genes, fitness = data.map.solutions[order], data.map.fitness[order]
    columns = np.arange(genes.shape[1])
    # Jitter within the column, because thousands of points would hide each other.
    beside = np.random.default_rng(0).uniform(-0.36, 0.36, genes.shape)
    low, high = np.quantile(fitness, [0.02, 0.98])
    dots = ax.scatter(
        (columns + beside).ravel(),
        genes.ravel(),
        c=np.repeat(fitness, genes.shape[1]),
        s=float(np.clip(4000 / len(order), 1.5, 9)),
        vmin=low,
        vmax=high,
        linewidths=0,
        rasterized=True,  # vector graphics would take many megabytes
    )
    ax.plot(columns, genes[-TOP:].T, color="black", linewidth=0.5, alpha=0.6)
    ax.figure.colorbar(dots, ax=ax, label="fitness, m", pad=0.01, aspect=25, extend="both")
    ax.set(xlim=(-0.7, len(columns) - 0.3), ylim=(-0.02, 1.02), ylabel="value of the gene")
    ax.set_xticks(columns, [part[0] for _ in LEG_NAMES for _ in JOINTS for part in PARTS], fontsize="small")
    below: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top"}
    for i, leg in enumerate(LEG_NAMES):
        start = i * len(JOINTS) * len(PARTS)
        for j, joint in enumerate(JOINTS):
            ax.text(start + len(PARTS) * j + 1, -0.085, joint, fontsize="small", color="#444444", **below)
        ax.text(start + 2.5, -0.155, leg, **below)
        if i:
            ax.axvline(start - 0.5, color="black", linewidth=1)
    ax.set_title(
        f"A  genomes of {len(order):,} elites after {data.map.evaluations:,} evaluations, the best {TOP} as lines "
        "(a, p, d: amplitude, phase, duty cycle)",
        fontsize="medium",
    )


def draw_transfer(data: HexapodMeasurements, ax: Any) -> None:
    """Draw the fitness of the best elites on other tasks, relative to the elite of each task."""
    from taskelites.show.analyses import difference_boxes

    each = data.transfer.differences(TOP)
    difference_boxes(ax, each, {name.replace("top ", "top\n"): values for name, values in data.pooled.items()})
    ax.axhline(PAPER_TRANSFER, color=_colour(7), linestyle=":", label="about where the paper has it")
    ax.set(xlabel="elites, the best one first; then the best ten and 5 % together", ylabel="copy minus own elite, m")
    ax.set_title("B  top elites on all other bodies (boxes: quartiles, whiskers: 5 to 95 %)", fontsize="medium")
    _make_room(ax)
    ax.legend(fontsize="small", loc="upper right")


def draw_lengths(data: HexapodMeasurements, ax: Any) -> None:
    """Draw how much longer segments are in the best bodies than in all bodies."""
    shifts = leg_shifts(data.map)
    width = 0.35
    for i, (part, span, colour) in enumerate((("femur", FEMUR, _colour(0)), ("tibia", TIBIA, _colour(1)))):
        found = [shifts[place][part] for place in PAIRS]
        scale = 100 / np.ptp(span)
        ax.bar(
            np.arange(len(PAIRS)) + (i - 0.5) * width,
            [scale * shift.difference for shift in found],
            width,
            yerr=[2 * scale * shift.error for shift in found],
            capsize=3,
            color=colour,
            alpha=0.8,
            label=f"{part}s",
        )
    ax.axhline(0, color="black", linewidth=1)
    ax.set_xticks(range(len(PAIRS)), [f"{place} legs" for place in PAIRS])
    ax.set(ylabel="longer than in all bodies, % of the range")
    ax.set_title(f"C  lengths of the best {data.best_number} bodies (bars: 2 standard errors)", fontsize="medium")
    _make_room(ax)
    ax.grid(axis="y", alpha=0.3)
    ax.legend(fontsize="small", loc="upper right", ncols=2)


def _make_room(ax: Any) -> None:
    """Extend the y axis of a panel so that its legend does not hide data."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.13 * (high - low))


def _positions(lengths: np.ndarray) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Return the origin of each link and the positions of the feet, with all joints at zero."""
    places, turns, feet = {}, {}, []
    for part in links(lengths):
        if part.parent is None:
            places[part.name], turns[part.name] = np.zeros(3), np.eye(3)
            continue
        turn = turns[part.parent]
        places[part.name] = places[part.parent] + turn @ part.origin
        turns[part.name] = turn @ _rotation(*part.turn)
        if part.foot is not None:
            feet.append(places[part.name] + turns[part.name] @ part.foot)
    return places, feet


def _rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    (a, b, c), (d, e, f) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, a, -d], [0, d, a]])
    about_y = np.array([[b, 0, e], [0, 1, 0], [-e, 0, b]])
    about_z = np.array([[c, -f, 0], [f, c, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def _seen(points: np.ndarray) -> np.ndarray:
    """Project points in space to the plane of the figure."""
    x, y, z = points.T
    across, along = x * np.sin(_TURN) * -1 - y * np.cos(_TURN), x * np.cos(_TURN) - y * np.sin(_TURN)
    return np.stack([across, along * np.sin(_TILT) + z * np.cos(_TILT)], axis=1)
