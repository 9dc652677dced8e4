"""`taskelites compare`, `taskelites bench` and `taskelites reproduce`."""

import argparse
import inspect
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from taskelites.cli.report_command import report_comparison
from taskelites.cli.run_command import joined_ray
from taskelites.cli.run_request import EVALUATION
from taskelites.cli.values import (
    algorithm_maker,
    labelled,
    make_algorithm,
    make_domain,
    number_or_file,
    pair,
    specification,
    split,
)
from taskelites.errors import InvalidValueError, one_of
from taskelites.experiments import Bench, reproduce_arm, reproduce_hexapod
from taskelites.experiments import bench as run_bench
from taskelites.experiments import compare as run_comparison
from taskelites.experiments.benchmark.run import ENTRIES
from taskelites.experiments.comparison.run import label_algorithms
from taskelites.experiments.paper.arm import reproduce as arm
from taskelites.experiments.paper.hexapod import reproduce as hexapod
from taskelites.runs import RunFolder
from taskelites.storage import file_name

# Each with what says what became of the claims.
EXPERIMENTS: dict[str, tuple[Callable[..., Path], Callable[[Path], list[tuple[str, str]]]]] = {
    "arm": (reproduce_arm, arm.verdicts),
    "hexapod": (reproduce_hexapod, hexapod.verdicts),
}


def compare(options: argparse.Namespace) -> int:
    """Compare algorithms."""
    algorithms = _algorithms(options.algorithms)
    extra = dict(pair(text) for text in options.set)
    domain = make_domain(options.domain, extra, tasks=options.tasks, dim=options.dim)
    if options.add and not options.out:
        raise InvalidValueError("--add needs --out FOLDER, the comparison to put the algorithms into")
    evaluations = 1_000_000 if options.evaluations is None and not options.add else options.evaluations
    with (
        _folder(options.out, f"compare-{file_name(domain.name)}") as folder,
        joined_ray(options.ray) as cluster,
    ):
        found = run_comparison(
            domain,
            algorithms=algorithms,
            evaluations=evaluations,
            replicates=options.replicates,
            batch_size=options.batch_size,
            ahead=options.ahead,
            seed=options.seed,
            out=folder,
            add=options.add,
            progress=not options.quiet,
            **{name: value for name in EVALUATION if (value := getattr(options, name, None)) is not None},
            **cluster,
        )
    print(found.summary(shutil.get_terminal_size((120, 24)).columns))
    print(f"\nsaved in {folder}: figure, tables, tests, runs", flush=True)
    report_comparison(found, folder, options)
    return 0


def _algorithms(given: str) -> dict[str, Any]:
    """What --algorithms names, by label."""
    algorithms: dict[str, Any] = {}
    for text in split(given):
        label, rest = labelled(text)
        name, inline = specification(rest)
        made = make_algorithm(name, algorithm_maker("--algorithms", name), inline)
        label = label or next(iter(label_algorithms([made])))
        if label in algorithms:
            raise InvalidValueError(f"--algorithms names {label!r} twice; LABEL=NAME gives an algorithm another label")
        algorithms[label] = made
    if not algorithms:
        raise InvalidValueError("--algorithms must name at least one algorithm; `taskelites list` shows them")
    return algorithms


def bench(options: argparse.Namespace) -> int:
    """Compare algorithms on several domains, or write the page on what is there."""
    width = shutil.get_terminal_size((80, 24)).columns
    if options.source:
        _only_from(options)
        found = Bench.load(options.source)
        folder = found.save(options.out or options.source)
        print(f"{found.summary(width)}\n\nsaved in {folder}: bench.md, tables, figures", flush=True)
        return 0
    given = {
        name: value
        for name in ("replicates", "evaluations", "batch_size", "seed", "workers")
        if (value := getattr(options, name)) is not None
    }
    if options.algorithms is not None:
        given["algorithms"] = _algorithms(options.algorithms)
    if options.domains is not None:
        given["domains"] = _bench_domains(options)
    elif options.tasks is not None:
        given["tasks"] = number_or_file(options.tasks)
    with _folder(options.out, "bench") as folder:
        found = run_bench(**given, out=folder, command=options.line, progress=not options.quiet)
    print(found.summary(width))
    print(f"\nsaved in {folder}: bench.md, tables, figures, and a comparison for each domain", flush=True)
    return 0


def _only_from(options: argparse.Namespace) -> None:
    """With --from nothing is run, so nothing can be said of runs."""
    for name in ("algorithms", "domains", "evaluations", "replicates", "seed", "batch_size", "tasks", "workers"):
        if getattr(options, name) is not None:
            raise InvalidValueError(
                f"--from runs nothing, so --{name.replace('_', '-')} has no meaning there; leave it out"
            )


def _bench_domains(options: argparse.Namespace) -> dict[str, Any]:
    """What --domains names, by label: made with the options in parentheses, or as the benchmark has them."""
    domains: dict[str, Any] = {}
    for text in split(options.domains):
        label, rest = labelled(text)
        name, inline = specification(rest, "a domain")
        if "(" not in rest and name in ENTRIES:
            inline = dict(ENTRIES[name].options)
            if options.tasks is not None:
                inline.pop("tasks", None)
        elif options.tasks is not None and "tasks" in inline:
            raise InvalidValueError(f"--tasks and the tasks of {rest!r} contradict each other; give one of them")
        label = label or rest
        if label in domains:
            raise InvalidValueError(f"--domains names {label!r} twice; LABEL=NAME gives a domain another label")
        domains[label] = make_domain(name, inline, said="--domains", tasks=options.tasks)
    if not domains:
        raise InvalidValueError("--domains must name at least one domain; `taskelites list` shows them")
    return domains


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
                raise InvalidValueError(f"--{name} is not for {options.experiment!r}, which is as it is; leave it out")
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
