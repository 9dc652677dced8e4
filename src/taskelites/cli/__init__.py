"""The `taskelites` command."""

import argparse
import inspect
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from taskelites import __version__
from taskelites.algorithms import ALGORITHMS
from taskelites.cli.experiment_commands import EXPERIMENTS, bench, compare, reproduce
from taskelites.cli.export_command import export
from taskelites.cli.failures import add_allow_failures
from taskelites.cli.report_command import add_no_report, parse_drawing_time, report
from taskelites.cli.run_command import add_evaluation_options, add_workers, parse_seconds, replay, resume, run
from taskelites.cli.values import parse_number
from taskelites.cli.watch_command import parse_size, watch
from taskelites.compile_cache import keep_compiled_programs
from taskelites.disk_cache import keep_arrays
from taskelites.domains import DOMAINS
from taskelites.errors import Interrupted, TaskelitesError, UserError
from taskelites.experiments.benchmark.run import ENTRIES
from taskelites.results.export import FORMATS
from taskelites.show.report import DRAWING_TIME

_AHEAD_HELP = (
    "number of batches evaluated together, for simulators that are faster with more rows per call (default: 1)"
)
_UNEXPECTED_ERROR = (
    "taskelites: unexpected error. If the last lines above are in your own files, correct your domain or algorithm; "
    "otherwise this is a bug of taskelites: please report it with the lines above, the command and the version "
    f"({__version__})"
)
_DOMAIN_HELP = "a name shown by `taskelites list`, or module:name or path/to/file.py:name of your own domain"
_ALGORITHM_HELP = "a name shown by `taskelites list`, or module:name or path/to/file.py:name of your own algorithm"
_EPILOG = """\
examples:
  taskelites run arm
  taskelites run arm --evaluations 1e5 --tasks 1000 --algorithm mt-map-elites --set tournament=50
  taskelites run mymodule:mydomain --replicates 5 --out results
  taskelites run path/to/mymodule.py:mydomain
  taskelites run mymodule:mysimulator --workers 8 --timeout 60 --out my-run
  taskelites resume my-run --evaluations 2e6 --domain mymodule:mysimulator
  taskelites report my-run --domain mymodule:mysimulator
  taskelites watch my-run --domain mymodule:mysimulator --task best,median,worst --out film.mp4
  taskelites export my-run --out elites.parquet
  taskelites compare arm --algorithms mt-map-elites,cma-es,random --replicates 10 --evaluations 1e5
  taskelites bench --replicates 5 --evaluations 1e5 --out bench
  taskelites reproduce arm --replicates 5 --evaluations 2e5
  taskelites reproduce hexapod --tasks 200 --replicates 5 --evaluations 5e4 --set single_evaluations=2e4
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: command-line arguments; default: `sys.argv[1:]`.

    Returns:
        The exit status: 0 for success, 2 for invalid arguments, 1 for other known errors or if more than half of all
        evaluations failed, 70 for unexpected errors, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    options = parser().parse_args(arguments)
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    options.line = shlex.join(["taskelites", *options.arguments])
    try:
        with warnings.catch_warnings(), keep_arrays():
            keep_compiled_programs()
            warnings.showwarning = _print_warning  # without the source line, which does not help users
            return int(options.command(options))
    except Interrupted as stop:
        return _print_error(str(stop), 128 + int(stop.signal or 2), options)
    except KeyboardInterrupt:
        return _print_error("interrupted", 130, options)
    except UserError as error:
        return _print_error(f"error: {error}", 2, options)
    except (TaskelitesError, OSError) as error:
        return _print_error(f"error: {getattr(error, 'strerror', None) or error}", 1, options)
    except Exception:  # noqa: BLE001 - whatever is left is a bug
        traceback.print_exc()
        print(_UNEXPECTED_ERROR, file=sys.stderr, flush=True)
        return 70


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    tqdm.write(f"taskelites: warning: {message}", file=sys.stderr)  # above a progress bar, if there is one


def _print_error(line: str, status: int, options: argparse.Namespace) -> int:
    if options.traceback:
        traceback.print_exc()
    print(f"taskelites: {line}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """Return the argument parser with all commands."""
    whole = argparse.ArgumentParser(
        prog="taskelites",
        description="Find the best solution for every task: many-task optimisation by quality diversity.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"taskelites {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--traceback", action="store_true", help="show the Python traceback of an error")
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
        "list",
        parents=[shared],
        help="list domains and algorithms",
        description="List all built-in domains and algorithms.",
    )
    listing.set_defaults(command=_list_registries)
    return whole


def _add_run(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "run",
        parents=[shared],
        help="run an algorithm on a domain",
        description="Find the best solution for every task of a domain, and save the result and a report.",
    )
    parser.set_defaults(command=run)
    parser.add_argument("domain", metavar="DOMAIN", help=_DOMAIN_HELP)
    parser.add_argument(
        "--algorithm",
        default="auto",
        metavar="NAME",
        help=f"{_ALGORITHM_HELP} (default: auto)",
    )
    _add_problem_options(parser, "setting of the algorithm or option of the domain")
    parser.add_argument(
        "--evaluations", type=parse_number, default=1_000_000, metavar="N", help="number of evaluations (default: 1e6)"
    )
    parser.add_argument(
        "--batch-size", type=parse_number, default=64, metavar="N", help="candidates per step (default: 64)"
    )
    parser.add_argument("--ahead", type=parse_number, default=1, metavar="N", help=_AHEAD_HELP)
    parser.add_argument(
        "--seed",
        type=parse_number,
        default=0,
        metavar="N",
        help="random seed; the same seed gives the same result (default: 0)",
    )
    parser.add_argument(
        "--replicates",
        type=parse_number,
        metavar="N",
        help="number of independent runs, with seeds --seed, --seed + 1, ... (default: a single run)",
    )
    parser.add_argument("--out", metavar="FOLDER", help="new folder for the run (default: a new folder below runs/)")
    _add_checkpoint_every(parser)
    add_no_report(parser)
    add_allow_failures(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_evaluation_options(parser)


def _add_checkpoint_every(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint-every",
        metavar="N|TIME",
        help="interval between checkpoints: a number of evaluations, or a time such as 30s, 5min or 2h (default: 60s)",
    )


def _add_resume(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "resume",
        parents=[shared],
        help="resume an interrupted run, or extend a finished one",
        description="Resume a run from its last checkpoint, after Ctrl-C, a crash or a power cut, or extend a finished "
        "run with --evaluations. The result is the same as without the interruption, except with --mode async. Options "
        "that are not given keep the values of the interrupted run, not the defaults shown below.",
    )
    parser.set_defaults(command=resume)
    parser.add_argument("run", metavar="RUN_FOLDER", help="the folder that `taskelites run` printed after `saved`")
    _add_domain(parser)
    parser.add_argument("--algorithm", metavar="NAME", help="the algorithm of the run, if it is your own")
    parser.add_argument(
        "--evaluations", type=parse_number, metavar="N", help="new total number of evaluations (default: as before)"
    )
    _add_checkpoint_every(parser)
    add_no_report(parser)
    add_allow_failures(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_evaluation_options(parser, samples=False)


def _add_domain(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which code may be run for a run folder, which can come from anyone."""
    parser.add_argument(
        "--domain",
        metavar="NAME",
        help="the domain of the run, if it is your own: module:name or path/to/file.py:name, optionally with options "
        "in parentheses",
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="import and run whatever the run folder names, from the folder in which the run was started",
    )


def _add_replay(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "replay",
        parents=[shared],
        help="repeat a failed evaluation of a run",
        description="Repeat a failed evaluation of a run, to see why it failed. The file failures.jsonl in the run "
        "folder lists all failures with their id.",
    )
    parser.set_defaults(command=replay)
    parser.add_argument(
        "run",
        metavar="RUN_FOLDER",
        help="a run folder; for replicates, the folder of one of them, such as RUN_FOLDER/replicate-0",
    )
    parser.add_argument("id", metavar="ID", type=parse_number, help="id of the failure")
    _add_domain(parser)
    parser.add_argument(
        "--timeout",
        type=parse_seconds,
        metavar="TIME",
        help="time limit, in seconds or as 30s, 5min or 2h (default: as in the run)",
    )
    parser.add_argument(
        "--here", action="store_true", help="evaluate in this process rather than a new one, for use with a debugger"
    )


def _add_report(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "report",
        parents=[shared],
        help="write an HTML report of a run or a comparison",
        description="Write a report of a run, its replicates or a comparison as one HTML file that works offline: an "
        "interactive map of the tasks and their solutions, curves, the distribution of fitness, and all settings.",
    )
    parser.set_defaults(command=report)
    parser.add_argument("run", metavar="RUN", help="folder of a run or a comparison, or a result.npz file")
    _add_domain(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=".html file; an existing report is replaced (default: report.html in the folder of the run)",
    )
    parser.add_argument(
        "--draw",
        type=parse_drawing_time,
        default=DRAWING_TIME,
        metavar="all|none|TIME",
        help="time limit for the drawings of all solutions; solutions without a drawing are shown as bars "
        f"(default: {DRAWING_TIME:g}s)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_watch(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "watch",
        parents=[shared],
        help="film the elites of a run",
        description="Film the elites of one or several tasks, side by side. No display is needed. If a domain cannot "
        "make films, the elites are drawn.",
    )
    parser.set_defaults(command=watch)
    parser.add_argument("run", metavar="RUN", help="folder of a run or of a replicate, or a result.npz file")
    _add_domain(parser)
    parser.add_argument(
        "--task",
        action="append",
        metavar="TASK,...",
        help="comma-separated tasks to show: numbers, best, median, worst or random (default: best)",
    )
    parser.add_argument(
        "--out", metavar="FILE", help=".mp4 or .gif file, or .png for a still (default: task-N.mp4 in the run folder)"
    )
    parser.add_argument(
        "--size",
        type=parse_size,
        metavar="WxH",
        help="size per task in pixels (default: 640x480, or 400x300 for several tasks)",
    )
    parser.add_argument("--fps", type=float, default=30.0, metavar="N", help="frames per second (default: 30)")
    parser.add_argument(
        "--speed", type=float, default=1.0, metavar="X", help="playback speed; 0.25 is slow motion (default: 1)"
    )
    parser.add_argument("--seed", type=parse_number, metavar="N", help="random seed for --task random")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_export(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "export",
        parents=[shared],
        help="export the elites of a run as a table",
        description="Write the elites of a run as a table with one row per task. Its columns are\n"
        "task_id, the descriptors, fitness, solution_0, solution_1, ...; for replicates\n"
        "also `replicate`, for a comparison also `algorithm`. An earlier export is\n"
        "replaced; any other existing file is an error.",
        epilog="examples:\n"
        "  taskelites export runs/my-run\n"
        "  taskelites export runs/my-run --format npz\n"
        "  taskelites export runs/my-comparison --out all.parquet\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=export)
    parser.add_argument("run", metavar="RUN", help="folder of a run, a replicate or a comparison, or a result.npz file")
    parser.add_argument(
        "--out", metavar="FILE", help=".csv, .parquet or .npz file (default: tasks.csv in the run folder)"
    )
    parser.add_argument("--format", choices=FORMATS, help="format of the file if --out is not given (default: csv)")
    parser.add_argument(
        "--formulas",
        action="store_true",
        help="write texts to CSV as they are, also those that a spreadsheet takes for formulas",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_compare(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "compare",
        parents=[shared],
        help="compare algorithms on a domain: table, statistics, figure",
        description="Compare algorithms on a domain over several replicates each. With --out, repeating an interrupted "
        "command runs only the missing replicates.",
    )
    parser.set_defaults(command=compare)
    parser.add_argument("domain", metavar="DOMAIN", help=_DOMAIN_HELP)
    parser.add_argument(
        "--algorithms",
        required=True,
        metavar="A,B,...",
        help="names shown by `taskelites list`, or module:name of your own algorithms; optionally with settings in "
        "parentheses and a label: 'auto,random,mine=mymodule:myalgorithm(rate=0.1)'",
    )
    _add_problem_options(parser, "option of the domain")
    parser.add_argument("--replicates", type=parse_number, metavar="N", help="runs per algorithm (default: 10)")
    parser.add_argument("--evaluations", type=parse_number, metavar="N", help="evaluations per run (default: 1e6)")
    parser.add_argument("--batch-size", type=parse_number, metavar="N", help="candidates per step (default: 64)")
    parser.add_argument("--ahead", type=parse_number, metavar="N", help=_AHEAD_HELP)
    parser.add_argument(
        "--seed", type=parse_number, metavar="N", help="random seed of the first replicate (default: 0)"
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder for all results (default: a new folder below runs/)")
    parser.add_argument(
        "--add", action="store_true", help="add these algorithms to the comparison in --out, with its settings"
    )
    add_no_report(parser)
    add_allow_failures(parser)
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")
    add_evaluation_options(parser, modes=False)


def _add_bench(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "bench",
        parents=[shared],
        help="compare algorithms on several domains: table, statistics, figures",
        description="Compare algorithms on several domains over several replicates each. With --out, repeating an "
        "interrupted command runs only the missing replicates; further algorithms and domains are added.",
    )
    parser.set_defaults(command=bench)
    parser.add_argument(
        "--algorithms", metavar="A,B,...", help="as for `taskelites compare` (default: all of `taskelites list`)"
    )
    parser.add_argument(
        "--domains",
        metavar="A,B,...",
        help=f"{', '.join(ENTRIES)} with the options of the benchmark (default: all of them), or any other domain; "
        "optionally with options in parentheses and a label: "
        "'archery,far=arm(form=exponential,target=(1,1)),mymodule:mine'",
    )
    parser.add_argument("--tasks", metavar="N|FILE", help="tasks of each domain, as for `taskelites run`")
    parser.add_argument(
        "--replicates", type=parse_number, metavar="N", help="runs per algorithm and domain (default: 20)"
    )
    parser.add_argument(
        "--evaluations", type=parse_number, metavar="N", help="evaluations per run (default: 1e6; hexapod: 1e5)"
    )
    parser.add_argument("--batch-size", type=parse_number, metavar="N", help="candidates per step (default: 64)")
    parser.add_argument(
        "--seed", type=parse_number, metavar="N", help="random seed of the first replicate (default: 0)"
    )
    add_workers(parser)
    parser.add_argument("--out", metavar="FOLDER", help="folder for all results (default: a new folder below runs/)")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FOLDER",
        help="run nothing; write the page, tables and figures of the benchmark in FOLDER again, there or to --out",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_reproduce(commands: Any, shared: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "reproduce",
        parents=[shared],
        help="reproduce an experiment of the paper, in full or smaller",
        description="Run an experiment of the paper (Mouret and Maguire, Quality Diversity for Multi-task "
        "Optimization, GECCO 2020), and write its figure and a page that checks each of its claims. With --out, "
        "repeating an interrupted command runs only the missing replicates.",
    )
    parser.set_defaults(command=reproduce)
    parser.add_argument("experiment", metavar="EXPERIMENT", help=f"{' or '.join(EXPERIMENTS)}")
    _add_problem_options(parser, "option of the experiment, such as target=(0.5,0.5) or threads=8")
    parser.add_argument(
        "--replicates", type=parse_number, metavar="N", help="runs per algorithm (default: as in the paper)"
    )
    parser.add_argument(
        "--evaluations", type=parse_number, metavar="N", help="evaluations per run (default: as in the paper)"
    )
    parser.add_argument(
        "--seed", type=parse_number, metavar="N", help="random seed of the first replicate (default: 0)"
    )
    parser.add_argument("--out", metavar="FOLDER", help="folder for all results (default: a new folder below runs/)")
    parser.add_argument("--quiet", action="store_true", help="show no progress bar")


def _add_problem_options(parser: argparse.ArgumentParser, set_help: str) -> None:
    """Add the options of the problem.

    Args:
        parser: parser of a command.
        set_help: help text of --set.
    """
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help=f"{set_help}; repeat it for several"
    )
    parser.add_argument(
        "--tasks",
        metavar="N|FILE",
        help="number of tasks, or a .csv or .npy file with descriptors, one row per task (default: set by the domain)",
    )
    parser.add_argument(
        "--dim", type=parse_number, metavar="N", help="number of dimensions of a solution (default: set by the domain)"
    )


def _list_registries(options: argparse.Namespace) -> int:
    for title, registry in (("domains", DOMAINS), ("algorithms", ALGORITHMS)):
        print(f"{title}:")
        for name, thing in registry.items():
            module = inspect.getmodule(thing)
            print(f"  {name:<18} {(inspect.getdoc(module) or '').splitlines()[0]}")
    return 0
