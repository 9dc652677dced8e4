"""The command `taskelites`."""

import argparse
import inspect
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from taskelites import __version__
from taskelites.algorithms import ALGORITHMS
from taskelites.cli.experiment_commands import EXPERIMENTS, bench, compare, reproduce
from taskelites.cli.export_command import export
from taskelites.cli.report_command import add_no_report, drawing_time, report
from taskelites.cli.run_command import add_evaluation_options, add_workers, replay, resume, run, seconds
from taskelites.cli.values import number
from taskelites.cli.watch_command import size, watch
from taskelites.domains import DOMAINS
from taskelites.errors import Interrupted, TaskelitesError, UserError
from taskelites.experiments.benchmark.run import ENTRIES
from taskelites.results.export import FORMATS
from taskelites.show.report import DRAWING_TIME

_AHEAD = "batches evaluated together, for a simulator that is fast with many rows per call (default: 1)"
_BUG = (
    "taskelites: this is a bug of taskelites, or of your own domain or algorithm if the last lines above are of your "
    f"files; please report what is above, with the command and `taskelites --version` ({__version__})"
)
_DOMAIN = "a name that `taskelites list` shows, or module:name of your own"
_EPILOG = """\
examples:
  taskelites run arm
  taskelites run arm --evaluations 1e5 --tasks 1000 --set tournament=50
  taskelites run mymodule:mydomain --replicates 5 --out results
  taskelites run mymodule:mysimulator --workers 8 --timeout 60 --out days
  taskelites resume days --evaluations 2e6
  taskelites report days
  taskelites watch days --task best,median,worst --out walks.mp4
  taskelites export days --out days.parquet
  taskelites compare arm --algorithms mt-map-elites,cma-es,random --replicates 10 --evaluations 1e5
  taskelites bench --replicates 5 --evaluations 1e5 --out bench
  taskelites reproduce arm --replicates 5 --evaluations 2e5
  taskelites reproduce hexapod --tasks 200 --replicates 5 --evaluations 5e4 --set single_evaluations=2e4
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        Its exit status: 0, 2 for a user's mistake, 1 for other errors that have a name, 70 for a bug, 130 after
        Ctrl-C, 143 after SIGTERM.
    """
    options = parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    options.line = shlex.join(["taskelites", *options.arguments])
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # a person at a terminal has no use for our source lines
            return int(options.command(options))
    except Interrupted as stop:
        return _complain(str(stop), 128 + int(stop.signal or 2), options)
    except KeyboardInterrupt:
        return _complain("interrupted", 130, options)
    except UserError as error:
        return _complain(f"error: {error}", 2, options)
    except (TaskelitesError, OSError) as error:
        return _complain(f"error: {getattr(error, 'strerror', None) or error}", 1, options)
    except Exception:  # noqa: BLE001 - whatever it is, it is a mistake of ours
        traceback.print_exc()
        print(_BUG, file=sys.stderr, flush=True)
        return 70


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"taskelites: warning: {message}", file=sys.stderr)


def _complain(line: str, status: int, options: argparse.Namespace) -> int:
    if options.traceback:
        traceback.print_exc()
    print(f"taskelites: {line}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    whole = argparse.ArgumentParser(
        prog="taskelites",
        description="The best solution for every task: many-task optimisation by quality diversity.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"taskelites {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    commands = whole.add_subparsers(title="commands", required=True, metavar="COMMAND")

    _add_run(commands, shared)
    _add_resume(commands, shared)
    _add_replay(commands, shared)
    _add_report(commands, shared)
    _add_watch(commands, shared)
    _add_export(commands, shared)
    _add_compare(commands, shared)
    _add_bench(commands, shared)
    _add_reproduce(commands, shared)
    listing = commands.add_parser(
        "list", parents=[shared], help="domains and algorithms, one line each", description="What is there, by name."
    )
    listing.set_defaults(command=_list)
    return whole


def _add_run(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "run",
        parents=[shared],
        help="a run on a domain",
        description="Find the best solution of every task of a domain, and save the result.",
    )
    parser.set_defaults(command=run)
    parser.add_argument("domain", metavar="DOMAIN", help=_DOMAIN)
    parser.add_argument(
        "--algorithm",
        default="auto",
        metavar="NAME",
        help="see `taskelites list`, or module:name of your own (default: auto)",
    )
    _add_problem(parser, "a setting of the algorithm or an option of the domain")
    parser.add_argument("--evaluations", type=number, default=1_000_000, metavar="N", help="the budget (default: 1e6)")
    parser.add_argument("--batch-size", type=number, default=64, metavar="N", help="candidates a step (default: 64)")
    parser.add_argument("--ahead", type=number, default=1, metavar="N", help=_AHEAD)
    parser.add_argument(
        "--seed", type=number, default=0, metavar="N", help="the same seed gives the same result (default: 0)"
    )
    parser.add_argument("--replicates", type=number, metavar="N", help="independent runs, of seed, seed + 1, ...")
    parser.add_argument("--out", metavar="FOLDER", help="a new folder for the run; by default one below runs/")
    _add_checkpoint_every(parser)
    add_no_report(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_evaluation_options(parser)


def _add_checkpoint_every(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint-every", metavar="N|TIME", help="evaluations, or a time such as 30s, 5min or 2h (default: 60s)"
    )


def _add_resume(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "resume",
        parents=[shared],
        help="goes on with a run exactly where it stopped",
        description="Go on with the run in a folder, with the options that it was begun and resumed with: after "
        "Ctrl-C, a crash or a power cut it finds what it would have found without.",
    )
    parser.set_defaults(command=resume)
    parser.add_argument("run", metavar="RUN_FOLDER", help="what `taskelites run` named as saved")
    parser.add_argument("--evaluations", type=number, metavar="N", help="raise the budget to this")
    _add_checkpoint_every(parser)
    add_no_report(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_evaluation_options(parser, samples=False)


def _add_replay(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "replay",
        parents=[shared],
        help="makes a failed evaluation of a run again",
        description="Evaluate again what failed in a run: its failures.jsonl lists them by id.",
    )
    parser.set_defaults(command=replay)
    parser.add_argument("run", metavar="RUN_FOLDER", help="of the run; with replicates, RUN_FOLDER/replicate-0")
    parser.add_argument("id", metavar="ID", type=number, help="of the failure")
    parser.add_argument("--timeout", type=seconds, metavar="TIME", help="kill it after so long (default: the run's)")
    parser.add_argument("--here", action="store_true", help="in this process, where a debugger can look")


def _add_report(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "report",
        parents=[shared],
        help="one HTML file to look at",
        description="Write a page on a run, on its replicates or on a comparison, that opens offline in any browser: "
        "the map, the solution of each task that is clicked on, curves, distribution, settings.",
    )
    parser.set_defaults(command=report)
    parser.add_argument("run", metavar="RUN", help="a run folder, that of a comparison, or a saved result.npz")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="an .html file; a report that is there is replaced (default: report.html in the folder)",
    )
    parser.add_argument(
        "--draw",
        type=drawing_time,
        default=DRAWING_TIME,
        metavar="all|none|TIME",
        help="how long the domain may draw solutions, all tasks together; the others get bars "
        f"(default: {DRAWING_TIME:g}s)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_watch(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "watch",
        parents=[shared],
        help="films the elites of a run",
        description="Film what a run found for a task, or for several side by side, without a display; a domain that "
        "can't be filmed is drawn.",
    )
    parser.set_defaults(command=watch)
    parser.add_argument("run", metavar="RUN", help="a run folder, that of one replicate, or a saved result.npz")
    parser.add_argument(
        "--task",
        action="append",
        metavar="TASK,...",
        help="a number, best, median, worst or random; several are shown side by side (default: best)",
    )
    parser.add_argument(
        "--out", metavar="FILE", help=".mp4, .gif or, for a still, .png (default: task-N.mp4 in the run folder)"
    )
    parser.add_argument(
        "--size", type=size, metavar="WxH", help="pixels of each film (default: 640x480; side by side, 400x300)"
    )
    parser.add_argument("--fps", type=float, default=30.0, metavar="N", help="frames a second (default: 30)")
    parser.add_argument("--speed", type=float, default=1.0, metavar="X", help="0.25 is slow motion (default: 1)")
    parser.add_argument("--seed", type=number, metavar="N", help="of the random tasks")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_export(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "export",
        parents=[shared],
        help="writes the elites of a run as a table",
        description="Write what a run found as a table, one row a task: task_id, descriptors,\n"
        "fitness, solution_0, ... Replicates get a column `replicate`, those of a\n"
        "comparison `algorithm` as well. An earlier export is replaced, any other file\n"
        "is not.",
        epilog="examples:\n"
        "  taskelites export runs/my-run\n"
        "  taskelites export runs/my-run --format npz\n"
        "  taskelites export runs/my-comparison --out all.parquet\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=export)
    parser.add_argument(
        "run", metavar="RUN", help="a run folder, that of one replicate, a saved result.npz, or a comparison's folder"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="ending in .csv, .parquet or .npz (default: tasks.csv in the run folder)"
    )
    parser.add_argument("--format", choices=FORMATS, help="of the default file (default: csv)")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_compare(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "compare",
        parents=[shared],
        help="replicates of several algorithms: table, statistics, figure",
        description="Compare algorithms over replicates on one domain. With --out, the same command again goes on with "
        "the runs that are missing.",
    )
    parser.set_defaults(command=compare)
    parser.add_argument("domain", metavar="DOMAIN", help=_DOMAIN)
    parser.add_argument(
        "--algorithms",
        required=True,
        metavar="A,B,...",
        help="names that `taskelites list` shows or module:name of your own, with settings in parentheses "
        "and labels before: 'mt-map-elites,fixed=mt-map-elites(tournament=50),mymodule:mine'",
    )
    _add_problem(parser, "an option of the domain")
    parser.add_argument("--replicates", type=number, metavar="N", help="runs of each algorithm (default: 10)")
    parser.add_argument("--evaluations", type=number, metavar="N", help="the budget of each run (default: 1e6)")
    parser.add_argument("--batch-size", type=number, metavar="N", help="candidates a step (default: 64)")
    parser.add_argument("--ahead", type=number, metavar="N", help=_AHEAD)
    parser.add_argument("--seed", type=number, metavar="N", help="of the first replicate (default: 0)")
    parser.add_argument("--out", metavar="FOLDER", help="a folder for everything; by default a new one below runs/")
    parser.add_argument(
        "--add", action="store_true", help="put these algorithms into the comparison that --out holds, on its terms"
    )
    add_no_report(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    add_evaluation_options(parser, modes=False)


def _add_bench(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "bench",
        parents=[shared],
        help="all algorithms on all domains: one table, statistics, figures",
        description="Compare algorithms over replicates on several domains, a comparison for each. With --out, the "
        "same command again goes on with the runs that are missing, and others add to it.",
    )
    parser.set_defaults(command=bench)
    parser.add_argument(
        "--algorithms", metavar="A,B,...", help="as for `taskelites compare` (default: all that `list` shows)"
    )
    parser.add_argument(
        "--domains",
        metavar="A,B,...",
        help=f"{', '.join(ENTRIES)}, as the benchmark has them (the default), or any other, with options in "
        "parentheses and labels before: 'archery,far=arm(form=exponential,target=(1,1)),mymodule:mine'",
    )
    parser.add_argument("--tasks", metavar="N|FILE", help="of each domain (default: the domain's)")
    parser.add_argument("--replicates", type=number, metavar="N", help="runs of each algorithm (default: 20)")
    parser.add_argument("--evaluations", type=number, metavar="N", help="the budget (default: 1e6; hexapod 1e5)")
    parser.add_argument("--batch-size", type=number, metavar="N", help="candidates a step (default: 64)")
    parser.add_argument("--seed", type=number, metavar="N", help="of the first replicate (default: 0)")
    add_workers(parser)
    parser.add_argument("--out", metavar="FOLDER", help="a folder for everything; by default a new one below runs/")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FOLDER",
        help="run nothing: page, tables and figures of the benchmark that is there, into it or into --out",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_reproduce(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "reproduce",
        parents=[shared],
        help="an experiment of the paper, whole or smaller",
        description="Run an experiment of the paper: its figure, and a page on each of its claims. With --out, the "
        "same command again goes on with the runs that are missing.",
    )
    parser.set_defaults(command=reproduce)
    parser.add_argument("experiment", metavar="EXPERIMENT", help=f"{' or '.join(EXPERIMENTS)}")
    _add_problem(parser, "an option of the experiment, such as target=(0.5,0.5) or threads=8")
    parser.add_argument("--replicates", type=number, metavar="N", help="of each algorithm (default: the paper's)")
    parser.add_argument("--evaluations", type=number, metavar="N", help="of each run (default: the paper's)")
    parser.add_argument("--seed", type=number, metavar="N", help="of the first replicate (default: 0)")
    parser.add_argument("--out", metavar="FOLDER", help="a folder for everything; by default a new one below runs/")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _add_problem(parser: argparse.ArgumentParser, what_set_sets: str) -> None:
    """The options that say what is solved."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help=f"{what_set_sets}; may be repeated"
    )
    parser.add_argument("--tasks", metavar="N|FILE", help="how many tasks, or a .csv or .npy file of descriptors")
    parser.add_argument("--dim", type=number, metavar="N", help="length of a solution")


def _list(options: argparse.Namespace) -> int:
    for title, registry in (("domains", DOMAINS), ("algorithms", ALGORITHMS)):
        print(f"{title}:")
        for name, thing in registry.items():
            module = inspect.getmodule(thing)
            print(f"  {name:<18} {(inspect.getdoc(module) or '').splitlines()[0]}")
    return 0
