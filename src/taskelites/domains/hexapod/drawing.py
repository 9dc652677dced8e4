"""Drawing of a walk: the robot and its path from above, and the contacts of its feet over time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.domains.hexapod.analysis import Analysis, analyse, body_model, shown_engine
from taskelites.domains.hexapod.body import BASE, LEG_NAMES, LEGS
from taskelites.domains.hexapod.episode import CORRIDOR, Rules
from taskelites.domains.hexapod.gait import RATE

if TYPE_CHECKING:
    from taskelites.domains.hexapod.mujoco_engine import Walk

_LEFT, _RIGHT = "#009E73", "#D55E00"
_SEGMENTS = {"coxa": "0.45", "femur": "#0072B2", "tibia": "#E69F00"}
# The legs from top to bottom: the left ones from the front, then the right ones from the front.
_ROWS = (2, 1, 0, 3, 4, 5)


@dataclass(frozen=True)
class HexapodDrawing:
    """Draws the robot from above at the start and the end of its walk, its path, and the contacts of its feet.

    Args:
        rules: rules that end a walk early.
        damage: as returned by `as_damage`.
    """

    rules: Rules
    damage: tuple[tuple[int, str], ...] = ()

    def __call__(self, solution: Any, task: Any, ax: Any = None) -> Any:
        """Draw one gait on one body and return the axes.

        Args:
            solution: the gait, `(36,)`.
            task: lengths of the body, m, `(12,)`.
            ax: matplotlib axes, which get two insets; by default, new ones.

        Example:
            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> from taskelites.domains.hexapod.body import NOMINAL
            >>> from taskelites.domains.hexapod.gait import FORWARD
            >>> HexapodDrawing(Rules())(FORWARD, NOMINAL).get_title()
            '0.5... m in 3.00 s'
        """
        import matplotlib.pyplot as plt

        engine = shown_engine(self.rules, self.damage)
        found = analyse(engine, solution, task)
        if ax is None:
            ax = plt.figure(figsize=(6.4, 5.6), layout="constrained").add_subplot()
        ax.set_axis_off()
        above, below = ax.inset_axes((0.15, 0.44, 0.84, 0.56)), ax.inset_axes((0.15, 0.08, 0.84, 0.26))
        _draw_path(above, found.walk, body_model(engine, task))
        _draw_contacts(below, found)
        why = f", when {found.reason}" if found.reason else ""
        ax.set_title(f"{found.distance:.3f} m in {found.seconds:.2f} s{why}", fontsize=9)
        return ax


def _draw_path(ax: Any, walk: "Walk", model: Any) -> None:
    """Draw the robot from above at its start and its end, and the path of its base."""
    origin = walk.positions[0, :2]
    path = walk.positions[:, :2] - origin
    _draw_body(ax, model, walk.positions[0], origin, alpha=0.3)
    ax.plot(*path.T, color="black", linewidth=1.2)
    _draw_body(ax, model, walk.positions[-1], origin, alpha=1.0)
    ax.plot(*path[0], "o", color="black", markersize=4, markerfacecolor="white")
    ax.plot(*path[-1], "o", color="black", markersize=4)
    ax.axvline(0.0, color="0.7", linewidth=0.8, zorder=0)
    for edge in (-CORRIDOR, CORRIDOR):
        ax.axhline(edge, color="0.7", linewidth=0.8, linestyle="--", zorder=0)
    ax.set(xlim=(min(0, path[:, 0].min()) - 0.4, max(0.9, path[:, 0].max() + 0.4)), ylim=(-0.56, 0.56))
    ax.set_aspect("equal", adjustable="box")
    for name, colour in _SEGMENTS.items():
        ax.plot([], color=colour, linewidth=2.5, label=name)
    ax.legend(loc="lower right", ncols=3, fontsize=7, frameon=False, bbox_to_anchor=(1, 0.08))
    ax.set_xlabel("forward (m)", fontsize=8, labelpad=1)
    ax.set_ylabel("left (m)", fontsize=8, labelpad=1)
    ax.tick_params(labelsize=7)


def _draw_body(ax: Any, model: Any, position: np.ndarray, origin: np.ndarray, alpha: float) -> None:
    import mujoco
    from matplotlib.patches import Circle, Polygon

    data = mujoco.MjData(model)
    data.qpos[:] = position
    mujoco.mj_kinematics(model, data)
    base = data.body("base")
    length, width, _ = BASE
    corners = np.array([[1, 1], [1, -1], [-1, -1], [-1, 1]]) * [length / 2, width / 2]
    turn = base.xmat.reshape(3, 3)[:2, :2]
    placed = corners @ turn.T + base.xpos[:2] - origin
    ax.add_patch(Polygon(placed, facecolor="0.75", edgecolor="0.25", linewidth=1, alpha=alpha, zorder=2))
    front = placed[:2] + (placed[[3, 2]] - placed[:2]) * 0.12
    ax.plot(*front.T, color="white", linewidth=2, alpha=alpha, zorder=3)
    for leg in range(LEGS):
        foot = data.geom(f"foot_{leg}").xpos[:2]
        joints = [data.body(i).xpos[:2] for i in range(model.nbody) if model.body(i).name.endswith(f"_{leg}")]
        points = np.array([*joints, foot]) - origin
        for i, colour in zip(range(len(points) - 1), _SEGMENTS.values(), strict=False):
            ax.plot(*points[i : i + 2].T, color=colour, linewidth=2.5, alpha=alpha, zorder=4, solid_capstyle="round")
        radius = float(model.geom(f"foot_{leg}").size[0])
        look = {"facecolor": _SEGMENTS["tibia"], "edgecolor": "0.25", "linewidth": 0.6, "alpha": alpha}
        ax.add_patch(Circle(points[-1], radius, **look, zorder=5))


def _draw_contacts(ax: Any, found: Analysis) -> None:
    """Draw when each foot is on the ground."""
    for row, leg in enumerate(_ROWS):
        ax.broken_barh(
            _spans(found.touching[:, leg]), (row - 0.36, 0.72), color=_LEFT if row < 3 else _RIGHT, linewidth=0
        )
    if found.base_touches.any():
        ax.broken_barh(_spans(found.base_touches), (-0.5, LEGS), color="0.8", linewidth=0, zorder=0)
    ax.set(xlim=(0, found.seconds), ylim=(LEGS - 0.5, -0.5))
    ax.set_yticks(range(LEGS), [LEG_NAMES[leg] for leg in _ROWS])
    ax.set_xlabel("feet on the ground over time (s)", fontsize=8, labelpad=1)
    ax.tick_params(labelsize=7)


def _spans(flags: np.ndarray) -> list[tuple[float, float]]:
    """Return start and duration, in seconds, of each interval of true flags, given one flag per step.

    Example:
        >>> _spans(np.repeat([False, True, False], 240))
        [(1.0, 1.0)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(float(first) / RATE, float(last - first) / RATE) for first, last in edges.reshape(-1, 2)]
