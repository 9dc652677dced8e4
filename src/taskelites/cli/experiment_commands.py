"""`taskelites compare`, `taskelites bench` and `taskelites reproduce`."""

import argparse
import inspect
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from taskelites.cli.failures import exit_status, print_reasons
from taskelites.cli.report_command import report_comparison
from taskelites.cli.run_command import ray_executor
from taskelites.cli.run_request import EVALUATION
from taskelites.cli.values import (
    find_algorithm,
    make_algorithm,
    make_domain,
    parse_setting,
    parse_specification,
    parse_tasks,
    split_label,
    split_list,
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

# The function that runs each experiment, and the function that reads the outcomes of its claims.
EXPERIMENTS: dict[str, tuple[Callable[..., Path], Callable[[Path], list[tuple[str, str]]]]] = {
    "arm": (reproduce_arm, arm.verdicts),
    "hexapod": (reproduce_hexapod, hexapod.verdicts),
}


def compare(options: argparse.Namespace) -> int:
    """Run `taskelites compare` and return the exit status."""
    algorithms = _parse_algorithms(options.algorithms)
    extra = dict(parse_setting(text) for text in options.set)
    domain = make_domain(options.domain, extra, tasks=options.tasks, dim=options.dim)
    if options.add and not options.out:
        raise InvalidValueError("--add needs --out FOLDER, the folder of the comparison to add the algorithms to")
    evaluations = 1_000_000 if options.evaluations is None and not options.add else options.evaluations
    with (
        _output_folder(options.out, f"compare-{file_name(domain.name)}") as folder,
        ray_executor(options.ray) as cluster,
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
    every = [result for results in found.results.values() for result in results]
    print_reasons(every)
    report_comparison(found, folder, options)
    return exit_status(every, allow_failures=options.allow_failures)


def _parse_algorithms(given: str) -> dict[str, Any]:
    """Return the algorithms in the value of --algorithms, by label."""
    algorithms: dict[str, Any] = {}
    for text in split_list(given):
        label, rest = split_label(text)
        name, inline = parse_specification(rest)
        made = make_algorithm(name, find_algorithm("--algorithms", name), inline)
        label = label or next(iter(label_algorithms([made])))
        if label in algorithms:
            raise InvalidValueError(
                f"--algorithms must have distinct labels, not {label!r} twice; set another label with LABEL=NAME"
            )
        algorithms[label] = made
    if not algorithms:
        raise InvalidValueError("--algorithms must name at least one algorithm; `taskelites list` shows them")
    return algorithms


def bench(options: argparse.Namespace) -> int:
    """Run `taskelites bench`, or with --from only write its tables and figures, and return the exit status."""
    width = shutil.get_terminal_size((80, 24)).columns
    if options.source:
        _check_from(options)
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
        given["algorithms"] = _parse_algorithms(options.algorithms)
    if options.domains is not None:
        given["domains"] = _parse_domains(options)
    elif options.tasks is not None:
        given["tasks"] = parse_tasks(options.tasks)
    with _output_folder(options.out, "bench") as folder:
        found = run_bench(**given, out=folder, command=options.line, progress=not options.quiet)
    print(found.summary(width))
    print(f"\nsaved in {folder}: bench.md, tables, figures, and a comparison for each domain", flush=True)
    return 0


def _check_from(options: argparse.Namespace) -> None:
    """Raise if an option for runs is combined with --from, which runs nothing."""
    for name in ("algorithms", "domains", "evaluations", "replicates", "seed", "batch_size", "tasks", "workers"):
        if getattr(options, name) is not None:
            raise InvalidValueError(
                f"--{name.replace('_', '-')} cannot be combined with --from, which runs nothing; leave it out"
            )


def _parse_domains(options: argparse.Namespace) -> dict[str, Any]:
    """Return the domains in the value of --domains, by label, with the benchmark's options unless others are given."""
    domains: dict[str, Any] = {}
    for text in split_list(options.domains):
        label, rest = split_label(text)
        name, inline = parse_specification(rest, "a domain")
        if "(" not in rest and name in ENTRIES:
            inline = dict(ENTRIES[name].options)
            if options.tasks is not None:
                inline.pop("tasks", None)
        elif options.tasks is not None and "tasks" in inline:
            raise InvalidValueError(
                f"--tasks cannot be combined with the tasks of {rest!r} in --domains; give only one of them"
            )
        label = label or rest
        if label in domains:
            raise InvalidValueError(
                f"--domains must have distinct labels, not {label!r} twice; set another label with LABEL=NAME"
            )
        domains[label] = make_domain(name, inline, option="--domains", tasks=options.tasks)
    if not domains:
        raise InvalidValueError("--domains must name at least one domain; `taskelites list` shows them")
    return domains


def reproduce(options: argparse.Namespace) -> int:
    """Run `taskelites reproduce` and return the exit status."""
    make, verdicts = EXPERIMENTS[one_of("EXPERIMENT", options.experiment, EXPERIMENTS)]
    given = dict(parse_setting(text) for text in options.set)
    accepted = inspect.signature(make).parameters
    for name in given:
        one_of("--set", name, set(accepted) - {"out", "command", "progress"})
    for name in ("replicates", "evaluations", "dim", "seed"):
        if (value := getattr(options, name)) is not None:
            if name not in accepted:
                raise InvalidValueError(
                    f"--{name} cannot be set for {options.experiment!r}, where it is fixed; leave it out"
                )
            given[name] = value
    if options.tasks is not None:
        given["tasks"] = parse_tasks(options.tasks)
    begin = time.monotonic()
    with _output_folder(options.out, f"reproduce-{options.experiment}") as folder:
        page = make(folder, **given, command=options.line, progress=not options.quiet)
    seconds = time.monotonic() - begin
    lines = [(outcome, claim) for claim, outcome in verdicts(folder)]
    lines += [("time", f"{seconds / 60:.1f} minutes"), ("saved", f"{page}, {page.with_suffix('.png')}")]
    width = max(len(head) for head, _ in lines) + 2
    print("\n".join(f"{head:<{width}}{rest}" for head, rest in lines))
    return 0


@contextmanager
def _output_folder(out: str | None, name: str) -> Iterator[Path]:
    """Provide the folder given by --out, or a new one below runs/. The folder is removed at the end if it is empty."""
    folder = Path(out) if out else Path(RunFolder.under("runs", name).named)
    try:
        yield folder
    finally:
        with suppress(OSError):  # not empty
            folder.rmdir()
