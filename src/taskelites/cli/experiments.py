"""`taskelites compare` and `taskelites reproduce`."""

import argparse
import inspect
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from taskelites.cli.reporting import report_comparison
from taskelites.cli.running import manner_of
from taskelites.cli.typed import (
    algorithm_maker,
    labelled,
    make_algorithm,
    make_domain,
    number_or_file,
    pair,
    specification,
    split,
)
from taskelites.errors import one_of
from taskelites.experiments import arm, hexapod, reproduce_arm, reproduce_hexapod
from taskelites.experiments import compare as run_comparison
from taskelites.experiments.running import label_algorithms
from taskelites.runs import RunFolder
from taskelites.storage import file_name

# Each with what says what became of the claims.
EXPERIMENTS: dict[str, tuple[Callable[..., Path], Callable[[Path], list[tuple[str, str]]]]] = {
    "arm": (reproduce_arm, arm.verdicts),
    "hexapod": (reproduce_hexapod, hexapod.verdicts),
}


def compare(options: argparse.Namespace) -> int:
    """Compare algorithms."""
    algorithms: dict[str, Any] = {}
    for text in split(options.algorithms):
        label, rest = labelled(text)
        name, inline = specification(rest)
        made = make_algorithm(name, algorithm_maker("--algorithms", name), inline)
        label = label or next(iter(label_algorithms([made])))
        if label in algorithms:
            raise ValueError(f"--algorithms names {label!r} twice; LABEL=NAME gives an algorithm another label")
        algorithms[label] = made
    if not algorithms:
        raise ValueError("--algorithms must name at least one algorithm; `taskelites list` shows them")
    domain = make_domain(options, dict(pair(text) for text in options.set), set())
    if options.add and not options.out:
        raise ValueError("--add needs --out FOLDER, the comparison to put the algorithms into")
    evaluations = 1_000_000 if options.evaluations is None and not options.add else options.evaluations
    with _folder(options.out, f"compare-{file_name(domain.name)}") as folder, manner_of(options) as manner:
        found = run_comparison(
            domain,
            algorithms=algorithms,
            evaluations=evaluations,
            replicates=options.replicates,
            batch_size=options.batch_size,
            seed=options.seed,
            out=folder,
            add=options.add,
            progress=not options.quiet,
            **manner,
        )
    print(found.summary(shutil.get_terminal_size((120, 24)).columns))
    print(f"\nsaved in {folder}: figure, tables, tests, runs", flush=True)
    report_comparison(found, folder, options)
    return 0


def reproduce(options: argparse.Namespace) -> int:
    """Run an experiment of the paper."""
    make, verdicts = EXPERIMENTS[one_of("EXPERIMENT", options.experiment, EXPERIMENTS)]
    given = dict(pair(text) for text in options.set)
    accepted = inspect.signature(make).parameters
    for name in given:
        one_of("--set", name, set(accepted) - {"out", "command", "progress"})
    for name in ("replicates", "evaluations", "dim", "seed"):
        if (value := getattr(options, name)) is not None:
            if name not in accepted:
                raise ValueError(f"--{name} is not for {options.experiment!r}, which is as it is; leave it out")
            given[name] = value
    if options.tasks is not None:
        given["tasks"] = number_or_file(options.tasks)
    begin = time.monotonic()
    with _folder(options.out, f"reproduce-{options.experiment}") as folder:
        page = make(folder, **given, command=options.line, progress=not options.quiet)
    seconds = time.monotonic() - begin
    lines = [(outcome, claim) for claim, outcome in verdicts(folder)]
    lines += [("time", f"{seconds / 60:.1f} minutes"), ("saved", f"{page}, {page.with_suffix('.png')}")]
    width = max(len(head) for head, _ in lines) + 2
    print("\n".join(f"{head:<{width}}{rest}" for head, rest in lines))
    return 0


@contextmanager
def _folder(out: str | None, name: str) -> Iterator[Path]:
    """The folder that was named, which may hold something already, or a new one, which goes if it stays empty."""
    folder = Path(out) if out else Path(RunFolder.under("runs", name).named)
    try:
        yield folder
    finally:
        with suppress(OSError):  # a folder that something was written to stays
            folder.rmdir()
