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

from taskelites.cli.find_run import domain_of, relative_to_cwd
from taskelites.cli.values import split_list
from taskelites.errors import InvalidValueError, counted
from taskelites.problem.problem import Domain
from taskelites.results.result import Result, load
from taskelites.show.film import (
    PICTURE_SUFFIXES,
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

_SIZE, _TILE_SIZE = (640, 480), (400, 300)
_MAX_PIXELS = 4096
_MAX_ELITES = 25
# A still is the last frame of a film at this frame rate.
_STILL_FPS = 2.0


@dataclass(frozen=True)
class Elite:
    """An elite to show.

    Attributes:
        task: number of the task.
        word: the word that selected it, such as "best"; "" if it was selected by number.
    """

    task: int
    word: str = ""

    def title(self, result: Result) -> str:
        """Return the label of the film: task and fitness."""
        return f"task {self.task}{f' ({self.word})' if self.word else ''}\nfitness {result.fitness[self.task]:.4g}"


def parse_size(text: str) -> tuple[int, int]:
    """Parse a width and height in pixels, such as 640x480.

    Example:
        >>> parse_size("640x480")
        (640, 480)
    """
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal()) or not all(
        16 <= int(number) <= _MAX_PIXELS for number in (width, height)
    ):
        raise argparse.ArgumentTypeError(
            f"expected WIDTHxHEIGHT of 16 to {_MAX_PIXELS} pixels each, such as 640x480, not {text!r}"
        )
    return int(width), int(height)


def watch(options: argparse.Namespace) -> int:
    """Run `taskelites watch` and return the exit status."""
    if (Path(options.run) / "comparison.json").exists():
        raise InvalidValueError(
            f"RUN must be a run, but {options.run!r} is a comparison; name one of its runs, such as "
            f"{_example_run(options.run)!r}"
        )
    result = load(options.run)
    folder = Path(options.run).resolve()
    folder = folder if folder.is_dir() else folder.parent
    elites = choose_elites(result, options.task or ["best"], options.seed)
    if not 0.01 <= options.speed <= 100:
        raise InvalidValueError(f"--speed must be between 0.01 and 100, not {options.speed:g}")
    out = None if options.out is None else Path(options.out).absolute()
    check_film(out or folder / f"film{film_suffix()}", options.fps, pictures=True)
    with domain_of(folder, result, options) as domain:
        can_film = getattr(domain, "film", None) is not None
        if not can_film and getattr(domain, "draw", None) is None:
            raise InvalidValueError(
                f"{domain.name} cannot be shown, since it has neither film nor draw (see te.Domain)"
            )
        if out is None:
            out = folder / f"{_file_stem(elites)}{film_suffix() if can_film else '.png'}"
        if not can_film and out.suffix.lower() not in PICTURE_SUFFIXES:
            raise InvalidValueError(
                f"--out must end in .png, not {out.name!r}: {domain.name} can be drawn but not filmed"
            )
        pixels = options.size or (_SIZE if len(elites) == 1 else _TILE_SIZE)
        show = _film_elites if can_film else _draw_elites
        written = show(domain, result, elites, out, pixels, options)
    print(f"{'saved':<12} {relative_to_cwd(out)} ({written})")
    return 0


def choose_elites(result: Result, words: Iterable[str], seed: int | None = None) -> list[Elite]:
    """Return the selected elites without duplicates, in the given order.

    Args:
        result: result of the run.
        words: task numbers, "best", "median", "worst", "random", or comma-separated lists of these.
        seed: seed for "random".

    Example:
        >>> import taskelites as te
        >>> result = te.solve(te.domain("arm", tasks=300), evaluations=2000)
        >>> [elite.word for elite in choose_elites(result, ["best,worst", "17"])]
        ['best', 'worst', '']
    """
    solved = np.flatnonzero(result.solved)
    if len(solved) == 0:
        raise InvalidValueError("no task of this run is solved, so there is nothing to watch")
    order = solved[np.argsort(result.fitness[solved], kind="stable")]
    ranked = {"best": order[-1], "median": order[(len(order) - 1) // 2], "worst": order[0]}
    random = iter(np.random.default_rng(seed).permutation(solved))
    found: dict[int, Elite] = {}
    for word in (part for listed in words for part in split_list(listed)):
        if word == "random":
            task = int(next((task for task in random if int(task) not in found), solved[0]))
        elif word in ranked:
            task = int(ranked[word])
        else:
            task = _task_number(word, result)
        found.setdefault(task, Elite(task, "" if word.isdecimal() else word))
    if len(found) > _MAX_ELITES:
        raise InvalidValueError(
            f"--task must name at most {_MAX_ELITES} tasks, which are shown side by side, not {len(found)}"
        )
    return list(found.values())


def _task_number(word: str, result: Result) -> int:
    if not word.isdecimal():
        raise InvalidValueError(f"--task must be the number of a task, best, median, worst or random, not {word!r}")
    task = int(word)
    if task >= len(result):
        raise InvalidValueError(f"--task must be 0 to {len(result) - 1} for this run, not {task}")
    if not result.solved[task]:
        raise InvalidValueError(f"--task must be a solved task, but task {task} has no solution in this run")
    return task


def _film_elites(
    domain: Domain, result: Result, elites: list[Elite], out: Path, pixels: tuple[int, int], options: argparse.Namespace
) -> str:
    """Film elites, print a summary of each, and return a description of the file."""
    assert domain.film is not None
    still = out.suffix.lower() in PICTURE_SUFFIXES
    fps = _STILL_FPS if still else options.fps / options.speed
    films = []
    for elite in elites:
        task = domain.tasks.pick(np.array([elite.task]))[0]
        film = domain.film(result.solutions[elite.task], task, width=pixels[0], height=pixels[1], fps=fps)
        _print_elite(result, elite, getattr(film, "fitness", None), getattr(film, "note", ""))
        films.append(film)
    titles = [elite.title(result) for elite in elites]
    if still:
        pictures = [label(_last_frame(film), title) for film, title in zip(films, titles, strict=True)]
        write_picture(out, tile(pictures))
        return f"{pixels[0]} x {pixels[1]} pixels" + (" each" if len(elites) > 1 else "")
    labelled = [Labelled(film, title) for film, title in zip(films, titles, strict=True)]
    whole: Any = labelled[0] if len(labelled) == 1 else SideBySide(labelled)
    total = operator.length_hint(whole) or None
    counter = itertools.count()
    with tqdm(whole, total=total, desc="filming", unit=" frames", disable=True if options.quiet else None) as frames:
        write_film(out, (frame for frame, _ in zip(frames, counter, strict=False)), options.fps)
    number = next(counter)
    return f"{counted(number, 'frame')}, {number / options.fps:.3g} s"


def _last_frame(film: Iterable[np.ndarray]) -> np.ndarray:
    """Return the last frame of a film, which shows the outcome that the fitness measures."""
    frames = deque(film, maxlen=1)
    if not frames:
        raise InvalidValueError("the film of the domain must have at least one frame, but it is empty")
    return frames[0]


def _draw_elites(
    domain: Domain, result: Result, elites: list[Elite], out: Path, pixels: tuple[int, int], options: argparse.Namespace
) -> str:
    """Draw elites, print a summary of each, and return a description of the file."""
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
        _print_elite(result, elite, None, "")
    write_whole(out, partial(figure.savefig, format="png"))
    return "a drawing"


def _print_elite(result: Result, elite: Elite, filmed_fitness: float | None, note: str) -> None:
    """Print the task of an elite, its fitness in the run, and its fitness in the film if it was evaluated there.

    Args:
        result: result of the run.
        elite: the elite.
        filmed_fitness: fitness in the film, or None.
        note: further text from the domain.
    """
    fitness = float(result.fitness[elite.task])
    at = f"found by evaluation {result.last_improved[elite.task]:,}"
    print(f"task {elite.task}{f' ({elite.word})' if elite.word else ''}: fitness {fitness:.6g}, {at}")
    if result.tasks.descriptors is not None:
        row = result.tasks.descriptors[elite.task]
        # No-break spaces keep a name and its value on one line.
        words = [f"{name}\xa0{value:.4g}" for name, value in zip(result.tasks.names, row, strict=True)]
        lines = textwrap.wrap(", ".join(words), 100, initial_indent="  ", subsequent_indent="  ")
        print("\n".join(lines).replace("\xa0", " "))
    if filmed_fitness is not None:
        simulator = result.settings.get("options", {}).get("simulator")
        simulated = f" (simulated with {simulator})" if simulator else ""
        same = "same as in the run" if filmed_fitness == fitness else f"in the run {fitness!r}{simulated}"
        print(f"  fitness in the film: {float(filmed_fitness)!r}, {same}", flush=True)
    if note:
        print(f"  {note}", flush=True)


def _example_run(comparison: str) -> str:
    """Return the path of some run of a comparison, for an error message."""
    found = sorted(Path(comparison).glob("runs/*/replicate-*/result.npz"))
    return str(found[0].parent) if found else f"{comparison}/runs/mt-map-elites/replicate-0"


def _file_stem(elites: list[Elite]) -> str:
    """Return the default file name, without suffix."""
    if len(elites) == 1:
        return f"task-{elites[0].task}"
    return file_name(f"tasks-{'-'.join(str(elite.task) for elite in elites)}")
