"""Synthetic results of all kinds, and functions that write their pages."""

import warnings
from types import SimpleNamespace

import numpy as np

import taskelites as te
from taskelites.problem.sketch import Drawing
from taskelites.show import Sketch, Stroke

HOSTILE = [
    "<script>window.hurt = 1; alert(1)</script>",
    '"><img src=x onerror="window.hurt = 2">',
    "</script><script>window.hurt = 3</script>",
    "\u2028 ]]> <!-- <script x \U0001f600 & &amp; ' ` ${1}",
    "</title></style><svg onload='window.hurt = 4'>",
    "half a letter \ud800 </script y",
    "x" * 10_000,
]


def make_result(tasks, fitness, solutions=None, **more):
    """Return a result; its default history has 40 points."""
    fitness = np.asarray(fitness, dtype=float)
    number = len(fitness)
    if solutions is None:
        solutions = np.random.default_rng(1).random((number, 3))
    solutions = np.where(np.isnan(fitness)[:, None], np.nan, solutions).astype(solutions.dtype)
    settings = {"problem": "sample", "algorithm": {"name": "mt-map-elites", "tournament": 50}, "seed": 3}
    settings |= {"bounds": [0.0, 1.0], "evaluations": 4000, **more.pop("settings", {})}
    given = {"history": history(fitness), "settings": settings} | more
    return te.Result(
        solutions=solutions,
        fitness=fitness,
        tasks=tasks if isinstance(tasks, te.Tasks) else te.Tasks(descriptors=tasks),
        evaluations=4000,
        task_evaluations=np.arange(number) + 7,
        last_improved=np.where(np.isnan(fitness), 0, np.arange(number) + 1),
        **given,
    )


def history(fitness, points=40, sizes=(1, 10)):
    """Return a history whose mean grows linearly to its final value."""
    known = fitness[np.isfinite(fitness)]
    middle = known.mean() if len(known) else np.nan
    way = np.linspace(1, 0, points)
    return {
        "evaluations": np.linspace(100, 4000, points),
        "coverage": np.linspace(0.5, 1, points) * np.isfinite(fitness).mean(),
        "mean": middle - way,
        "median": middle - 1.1 * way,
        "q05": middle - 0.5 - way,
        "q95": middle + 0.5 - way,
        "lowest": middle - 1 - way,
        "highest": middle + 1 - way,
        "seconds": np.linspace(0.1, 3.5, points),
        # All sizes are tried equally often. Larger sizes succeed less often.
        **{f"tried_{size}": np.arange(1.0, points + 1) * 60 for size in sizes},
        **{f"successes_{size}": np.arange(1.0, points + 1) * 60 / (1 + size) for size in sizes},
    }


def arm_result(number=150, dim=6, single=False, unsolved=()):
    """Return a result on the arm with random solutions, and the domain."""
    random = np.random.default_rng(0)
    domain = te.domain("arm", tasks=random.random((number, 2)), dim=dim)
    solutions = random.random((number, dim)).astype(np.float32 if single else np.float64)
    fitness = -np.hypot(*(_tips(solutions, domain.tasks.descriptors) - 1.0).T)
    fitness[list(unsolved)] = np.nan
    settings = {"problem": "arm", "options": {"target": [1.0, 1.0]}, "dim": dim}
    result = make_result(
        domain.tasks, fitness, solutions, optimum=domain.optimum, worst=domain.worst, settings=settings
    )
    return result, domain


def _tips(solutions, tasks):
    from taskelites.domains.arm import joints

    return joints(solutions.T, tasks.T, xp=np)[-1].T


def drawing(draw, number=8):
    """Return a result on a domain with a few tasks and the given `draw`, and the domain."""
    tasks = te.Tasks(descriptors=np.random.default_rng(4).random((number, 2)))
    domain = te.Domain(name="drawn", fitness=lambda x, t: x[0], tasks=tasks, bounds=(0, 1), dim=3, draw=draw)
    return make_result(tasks, np.linspace(-1, 0, number)), domain


def raises(solution, task, ax=None):
    raise KeyError("<b>no such robot</b>")


def image(solution, task, ax=None):
    ax.imshow(np.arange(6.0).reshape(2, 3))


def busy(solution, task, ax=None):
    """Draw artists of several kinds."""
    from matplotlib.patches import Circle

    ax.plot([0, 1, 2], solution, "--", label=r"$\alpha$")
    ax.add_patch(Circle((1, 0.5), 0.25, hatch="/", alpha=0.5, label="disc"))
    ax.annotate("here", (0, 0), (1, 1), arrowprops={})
    ax.set(xlim=(0, 2), ylim=(0, 1), title="a title")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))


class Zigzag(Drawing):
    """A line with a gap, a line far beyond the axes, markers, and texts that look like markup."""

    def many(self, solutions, tasks):
        number = len(solutions)
        across = np.tile([0.0, 0.5, 1.0, 1.5, 2.0], (number, 1))
        values = np.column_stack([solutions[:, :2], np.full(number, np.nan), solutions[:, 2], solutions[:, 2]])
        strokes = [
            Stroke(points=np.stack([across, values], axis=-1), colour="tab:orange", width=2, label="the <i>line</i>"),
            Stroke(points=[[1, 0.5], [1000, 500]], colour="#ff000080", width=1),
            Stroke(points=solutions[:, None, :2], colour="green", width=0, marker="s", size=8, label="square"),
        ]
        limits = np.tile([0.0, 2.0, 0.0, 1.0], (number, 1))
        titles = [f"a <u>title</u>\nof {solution[0]:.3f}" for solution in solutions]
        return Sketch(strokes=strokes, limits=limits, titles=titles, labels=("across", "upwards"), equal=False)


def comparison(labels=("mt-map-elites", "map-elites-random", "random"), replicates=4):
    random = np.random.default_rng(2)
    base, _ = arm_result(60)
    results = {}
    for k, label in enumerate(labels):
        results[label] = [
            make_result(
                base.tasks,
                base.optimum - 0.05 * (k + 1) * (1 + random.random(60)),
                optimum=base.optimum,
                worst=base.worst,
                settings={"problem": "arm", "seed": seed, "algorithm": {"name": str(label)}},
            )
            for seed in range(replicates)
        ]
    return te.Comparison(results=results, settings={"problem": "arm", "replicates": replicates, "seed": 0})


def hostile():
    """Return a result and failures in which every text of a user contains markup or scripts."""
    number = 42
    objects = [f"{HOSTILE[i % len(HOSTILE)]} {i}" for i in range(number)]
    descriptors = np.random.default_rng(5).random((number, 2))
    names = [HOSTILE[0], HOSTILE[1]]
    tasks = te.Tasks(objects, descriptors=descriptors, names=names)
    settings = {
        "problem": HOSTILE[2] + HOSTILE[5],
        "algorithm": {"name": HOSTILE[4] + HOSTILE[6]},
        "options": {HOSTILE[0]: HOSTILE[3]},
    }
    result = make_result(
        tasks, np.where(np.arange(number) % 7, np.linspace(-1, 0, number), np.nan), failed=7, settings=settings
    )
    failures = [
        SimpleNamespace(id=i, evaluation=10 * i, task=i, kind="raised", message=text) for i, text in enumerate(HOSTILE)
    ]
    return result, failures


class HostileDrawing(Drawing):
    def many(self, solutions, tasks):
        stroke = Stroke(points=[[0, 0], [1, 1]], colour="red", label=HOSTILE[1])
        return Sketch(
            strokes=[stroke],
            limits=np.tile([0, 1, 0, 1], (len(solutions), 1)),
            titles=[HOSTILE[0] + HOSTILE[5]] * len(solutions),
            labels=(HOSTILE[2], HOSTILE[3]),
        )


def write(path, result, **more):
    te.show.report(result, path, **more)
    return result


def write_arm(path, **more):
    result, domain = arm_result(**more)
    return write(path, result, domain=domain, command="taskelites run arm --seed 3")


def write_drawing(draw):
    def writes(path):
        result, domain = drawing(draw)
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of a `draw` that raises an error
            return write(path, result, domain=domain)

    return writes


def write_hostile(path):
    result, failures = hostile()
    domain = te.Domain(
        name="evil", fitness=lambda x, t: x[0], tasks=result.tasks, bounds=(0, 1), dim=3, draw=HostileDrawing()
    )
    return write(path, result, domain=domain, failures=failures, command=f"taskelites run {HOSTILE[2]}")


def write_hostile_comparison(path):
    return write(path, comparison(labels=HOSTILE[:5], replicates=2), command=HOSTILE[0])


def write_big(path):
    number = 100_000
    random = np.random.default_rng(0)
    return write(path, make_result(random.random((number, 2)), -random.random(number), random.random((number, 36))))


def write_objects(path):
    tasks = te.Tasks([f"Robot {'abc'[i % 3]} leg {i}" for i in range(30)])
    return write(path, make_result(tasks, np.arange(30.0)))


def write_wide(path):
    descriptors = np.random.default_rng(6).normal(size=(80, 12)) * np.linspace(3, 0.1, 12)
    tasks = te.Tasks(descriptors=descriptors, names=[f"d{i}" for i in range(12)])
    return write(path, make_result(tasks, descriptors[:, 1], history=history(descriptors[:, 1], sizes=range(1, 13))))


def write_noise(path):
    """Write the page of a result with corrected fitness; one task is unsolved."""
    fitness = np.r_[np.linspace(-1, 0, 24), np.nan]
    result = make_result(grid(5), fitness)
    for name, value in (("corrected", fitness - 0.25), ("deviation", np.abs(fitness) / 10), ("samples", 8)):
        object.__setattr__(result, name, value)
    return write(path, result)


def write_failures(path):
    result = make_result(
        np.random.default_rng(7).random((20, 2)), np.linspace(0, 1, 20), failed=4, infeasible=2, retried=1
    )
    object.__setattr__(result, "failures", {"raised": 3, "timeout": 1, "nan": 0})
    kept = [SimpleNamespace(id=i, evaluation=1000 + i, task=i, kind="raised", message=f"lost {i}") for i in range(3)]
    return write(path, result, failures=kept)


def grid(number):
    """Return tasks on a square grid, numbered row by row."""
    return np.stack(np.meshgrid(np.arange(number), np.arange(number)), axis=-1).reshape(-1, 2) / (number - 1.0)


SAMPLES = {
    "arm": write_arm,
    "arm-single": lambda path: write_arm(path, single=True, unsolved=[4]),
    "comparison": lambda path: write(path, comparison(), command="taskelites compare arm"),
    "replicates": lambda path: write(path, comparison(labels=["mt-map-elites"]).results["mt-map-elites"]),
    "line": lambda path: write(
        path, make_result(np.linspace(0, 1, 50)[:, None], np.r_[np.sin(np.linspace(0, 3, 48)), np.nan, 2.0])
    ),
    "grid": lambda path: write(path, make_result(grid(6), np.arange(36.0))),
    "wide": write_wide,
    "objects": write_objects,
    "one task": lambda path: write(path, make_result([[0.5, 0.5]], [1.25])),
    "one object": lambda path: write(path, make_result(te.Tasks(["alone"]), [1.25])),
    "none solved": lambda path: write(path, make_result(grid(5), np.full(25, np.nan))),
    "no history": lambda path: write(
        path, make_result(grid(5), np.arange(25.0), history={}, settings={"algorithm": {}})
    ),
    "one point": lambda path: write(
        path, make_result(grid(3), np.arange(9.0), history=history(np.arange(9.0), points=1))
    ),
    "no point": lambda path: write(
        path, make_result(grid(3), np.arange(9.0), history=history(np.arange(9.0), points=0))
    ),
    "noise": write_noise,
    "same fitness": lambda path: write(path, make_result(grid(5), np.full(25, 3.0))),
    "failures": write_failures,
    "raises": write_drawing(raises),
    "image": write_drawing(image),
    "busy": write_drawing(busy),
    "sketch": write_drawing(Zigzag()),
    "hostile": write_hostile,
    "hostile comparison": write_hostile_comparison,
    "big": write_big,
}
