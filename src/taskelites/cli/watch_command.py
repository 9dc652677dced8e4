"""`taskelites watch`."""

import argparse
import itertools
import operator
import textwrap
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from taskelites.cli.find_run import domain_of, nearby
from taskelites.cli.values import split
from taskelites.errors import InvalidValueError
from taskelites.problem.problem import Domain
from taskelites.results.result import Result, load
from taskelites.show.film import (
    PICTURES,
    Labelled,
    SideBySide,
    check_film,
    film_suffix,
    label,
    tile,
    write_film,
    write_picture,
)
from taskelites.storage import file_name, write_whole

_SIZE, _SIZE_OF_SEVERAL = (640, 480), (400, 300)
_MOST_PIXELS = 4096
_MOST_AT_ONCE = 25
# A still is the frame in the middle of so many a second.
_STILL_FPS = 2.0


@dataclass(frozen=True)
class Elite:
    """What is to be shown: a task by number, and how it was asked for, if by a word."""

    task: int
    word: str = ""

    def title(self, result: Result) -> str:
        """What is written on its film."""
        return f"task {self.task}{f' ({self.word})' if self.word else ''}\nfitness {result.fitness[self.task]:.4g}"


def size(text: str) -> tuple[int, int]:
    """Width and height, from 640x480.

    Example:
        >>> size("640x480")
        (640, 480)
    """
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()) or not all(
        16 <= int(number) <= _MOST_PIXELS for number in (width, height)
    ):
        raise argparse.ArgumentTypeError(f"expected a size of 16 to {_MOST_PIXELS} pixels such as 640x480: {text!r}")
    return int(width), int(height)


def watch(options: argparse.Namespace) -> int:
    """Film elites of a run."""
    if (Path(options.run) / "comparison.json").exists():
        raise InvalidValueError(
            f"{options.run!r} is a comparison: name one of its runs, such as {_a_run_in(options.run)!r}"
        )
    result = load(options.run)
    folder = Path(options.run).resolve()
    folder = folder if folder.is_dir() else folder.parent
    elites = chosen(result, options.task or ["best"], options.seed)
    if not 0.01 <= options.speed <= 100:
        raise InvalidValueError(f"--speed must be between 0.01 and 100, not {options.speed:g}")
    out = None if options.out is None else Path(options.out).absolute()
    check_film(out or folder / f"film{film_suffix()}", options.fps, pictures=True)
    with domain_of(folder, options.run, result) as domain:
        filmed = getattr(domain, "film", None) is not None
        if not filmed and getattr(domain, "draw", None) is None:
            raise InvalidValueError(f"{domain.name} can't be shown: it has neither film nor draw (see te.Domain)")
        if out is None:
            out = folder / f"{_name(elites)}{film_suffix() if filmed else '.png'}"
        if not filmed and out.suffix.lower() not in PICTURES:
            raise InvalidValueError(
                f"{domain.name} can be drawn but not filmed, so --out must end in .png, not {out.name!r}"
            )
        pixels = options.size or (_SIZE if len(elites) == 1 else _SIZE_OF_SEVERAL)
        show = _film if filmed else _draw
        written = show(domain, result, elites, out, pixels, options)
    print(f"{'saved':<12} {nearby(out)} ({written})")
    return 0


def chosen(result: Result, words: Iterable[str], seed: int | None = None) -> list[Elite]:
    """Which elites are meant, each once, in their order.

    Args:
        result: of the run.
        words: task numbers, "best", "median", "worst", "random", or lists of them with commas.
        seed: of the random ones.

    Example:
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=2000)
        >>> [elite.word for elite in chosen(result, ["best,worst", "17"])]
        ['best', 'worst', '']
    """
    solved = np.flatnonzero(result.solved)
    if len(solved) == 0:
        raise InvalidValueError("no task of this run is solved, so there is nothing to watch")
    order = solved[np.argsort(result.fitness[solved], kind="stable")]
    ranked = {"best": order[-1], "median": order[(len(order) - 1) // 2], "worst": order[0]}
    random = iter(np.random.default_rng(seed).permutation(solved))
    found: dict[int, Elite] = {}
    for word in (part for listed in words for part in split(listed)):
        if word == "random":
            task = int(next((task for task in random if int(task) not in found), solved[0]))
        elif word in ranked:
            task = int(ranked[word])
        else:
            task = _task_number(word, result)
        found.setdefault(task, Elite(task, "" if word.isdecimal() else word))
    if len(found) > _MOST_AT_ONCE:
        raise InvalidValueError(f"--task names {len(found)} tasks, and at most {_MOST_AT_ONCE} fit side by side")
    return list(found.values())


def _task_number(word: str, result: Result) -> int:
    if not word.isdecimal():
        raise InvalidValueError(f"--task must be a task's number, best, median, worst or random, not {word!r}")
    task = int(word)
    if task >= len(result):
        raise InvalidValueError(f"--task must be 0 to {len(result) - 1}, the tasks of this run, not {task}")
    if not result.solved[task]:
        raise InvalidValueError(f"task {task} has no solution in this run, so there is nothing to watch")
    return task


def _film(
    domain: Domain, result: Result, elites: list[Elite], out: Path, pixels: tuple[int, int], options: argparse.Namespace
) -> str:
    """Film elites, tell of each, and say what was written."""
    assert domain.film is not None
    still = out.suffix.lower() in PICTURES
    fps = _STILL_FPS if still else options.fps / options.speed
    films = []
    for elite in elites:
        task = domain.tasks.pick(np.array([elite.task]))[0]
        film = domain.film(result.solutions[elite.task], task, width=pixels[0], height=pixels[1], fps=fps)
        _tell(result, elite, getattr(film, "fitness", None), getattr(film, "note", ""))
        films.append(film)
    titles = [elite.title(result) for elite in elites]
    if still:
        pictures = [label(_last(film), title) for film, title in zip(films, titles, strict=True)]
        write_picture(out, tile(pictures))
        return f"{pixels[0]} x {pixels[1]} pixels" + (" each" if len(elites) > 1 else "")
    labelled = [Labelled(film, title) for film, title in zip(films, titles, strict=True)]
    whole: Any = labelled[0] if len(labelled) == 1 else SideBySide(labelled)
    total = operator.length_hint(whole) or None
    counter = itertools.count()
    with tqdm(whole, total=total, desc="filming", unit=" frames", disable=True if options.quiet else None) as frames:
        write_film(out, (frame for frame, _ in zip(frames, counter, strict=False)), options.fps)
    number = next(counter)
    return f"{number} frames, {number / options.fps:.3g} s"


def _last(film: Iterable[np.ndarray]) -> np.ndarray:
    """Where it ends, which is what the fitness is about."""
    frames = deque(film, maxlen=1)
    if not frames:
        raise InvalidValueError("the film of this task has no frames")
    return frames[0]


def _draw(
    domain: Domain, result: Result, elites: list[Elite], out: Path, pixels: tuple[int, int], options: argparse.Namespace
) -> str:
    """Draw elites, tell of each, and say what was written."""
    from matplotlib.figure import Figure

    assert domain.draw is not None
    columns = int(np.ceil(np.sqrt(len(elites))))
    rows = -(-len(elites) // columns)
    figure = Figure(figsize=(columns * pixels[0] / 100, rows * pixels[1] / 100), dpi=100, layout="constrained")
    for number, elite in enumerate(elites):
        ax = figure.add_subplot(rows, columns, number + 1)
        domain.draw(result.solutions[elite.task], domain.tasks.pick(np.array([elite.task]))[0], ax=ax)
        heading = elite.title(result).replace("\n", ", ")
        ax.set_title("\n".join(filter(None, [heading, ax.get_title()])), fontsize=9)
        _tell(result, elite, None, "")
    write_whole(out, partial(figure.savefig, format="png"))
    return "a drawing"


def _tell(result: Result, elite: Elite, again: float | None, note: str) -> None:
    """Which task it is, how well it is solved, and what came out this time."""
    fitness = float(result.fitness[elite.task])
    at = f"found by evaluation {result.last_improved[elite.task]:,}"
    print(f"task {elite.task}{f' ({elite.word})' if elite.word else ''}: fitness {fitness:.6g}, {at}")
    if result.tasks.descriptors is not None:
        row = result.tasks.descriptors[elite.task]
        # Lines break between descriptors, not between a name and its value.
        words = [f"{name}\xa0{value:.4g}" for name, value in zip(result.tasks.names, row, strict=True)]
        lines = textwrap.wrap(", ".join(words), 100, initial_indent="  ", subsequent_indent="  ")
        print("\n".join(lines).replace("\xa0", " "))
    if again is not None:
        simulator = result.settings.get("options", {}).get("simulator")
        with_what = f" (made with {simulator})" if simulator else ""
        same = "the same as in the run" if again == fitness else f"not the {fitness!r} of the run{with_what}"
        print(f"  as filmed: {float(again)!r}, {same}", flush=True)
    if note:
        print(f"  {note}", flush=True)


def _a_run_in(comparison: str) -> str:
    """A run of a comparison, to be named in a message."""
    found = sorted(Path(comparison).glob("runs/*/replicate-*/result.npz"))
    return str(found[0].parent) if found else f"{comparison}/runs/mt-map-elites/replicate-0"


def _name(elites: list[Elite]) -> str:
    """Of a file that shows them."""
    if len(elites) == 1:
        return f"task-{elites[0].task}"
    return file_name(f"tasks-{'-'.join(str(elite.task) for elite in elites)}")
