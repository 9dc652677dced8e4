"""The command `taskelites`."""

import argparse
import ast
import difflib
import importlib
import inspect
import shlex
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from taskelites import __version__
from taskelites.algorithms import ALGORITHMS, as_algorithm
from taskelites.domains import DOMAINS
from taskelites.errors import FitnessError, Interrupted, one_of, whole_number
from taskelites.experiments import compare, reproduce_arm
from taskelites.experiments.arm import verdicts
from taskelites.experiments.running import label_algorithms
from taskelites.problem import Domain, is_domain
from taskelites.result import Result
from taskelites.runs import RunFolder
from taskelites.search import MOST_EVALUATIONS, solve
from taskelites.storage import file_name
from taskelites.tasks import Tasks, read

# Each with what says what became of the claims.
_EXPERIMENTS = {"arm": (reproduce_arm, verdicts)}
_DOMAIN = "a name that `taskelites list` shows, or module:name of your own"
_EPILOG = """\
examples:
  taskelites run arm
  taskelites run arm --evaluations 1e5 --tasks 1000 --set tournament=50
  taskelites run mymodule:mydomain --replicates 5 --out results
  taskelites compare arm --algorithms mt-map-elites,cma-es,random --replicates 10 --evaluations 1e5
  taskelites reproduce arm --replicates 5 --evaluations 2e5
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 2 for a user's mistake, 1 for trouble, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    options.line = shlex.join(["taskelites", *(sys.argv[1:] if arguments is None else arguments)])
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn  # a person at a terminal has no use for our source lines
            return int(options.command(options))
    except Interrupted as stop:
        return _complain(str(stop), 130, options)
    except KeyboardInterrupt:
        return _complain("interrupted", 130, options)
    except (ValueError, TypeError, FitnessError, ImportError, FileNotFoundError, FileExistsError) as error:
        return _complain(f"error: {error}", 2, options)
    except OSError as error:
        return _complain(f"error: {error.strerror or error}", 1, options)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"taskelites: warning: {message}", file=sys.stderr)


def _complain(line: str, status: int, options: argparse.Namespace) -> int:
    if options.traceback:
        traceback.print_exc()
    print(f"taskelites: {line}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskelites",
        description="The best solution for every task: many-task optimisation by quality diversity.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"taskelites {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--traceback", action="store_true", help="show where in the code an error arose")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    _add_run(commands, shared)
    _add_compare(commands, shared)
    _add_reproduce(commands, shared)
    listing = commands.add_parser(
        "list", parents=[shared], help="domains and algorithms, one line each", description="What is there, by name."
    )
    listing.set_defaults(command=_list)
    return parser


def _add_run(commands: Any, shared: argparse.ArgumentParser) -> None:
    run = commands.add_parser(
        "run",
        parents=[shared],
        help="a run on a domain",
        description="Find the best solution of every task of a domain, and save the result.",
    )
    run.set_defaults(command=_run)
    run.add_argument("domain", metavar="DOMAIN", help=_DOMAIN)
    run.add_argument(
        "--algorithm",
        default="mt-map-elites",
        metavar="NAME",
        help="see `taskelites list`, or module:name of your own (default: mt-map-elites)",
    )
    _add_problem(run, "a setting of the algorithm or an option of the domain")
    run.add_argument("--evaluations", type=_number, default=1_000_000, metavar="N", help="the budget (default: 1e6)")
    run.add_argument("--batch-size", type=_number, default=64, metavar="N", help="candidates a step (default: 64)")
    run.add_argument(
        "--seed", type=_number, default=0, metavar="N", help="the same seed gives the same result (default: 0)"
    )
    run.add_argument("--replicates", type=_number, metavar="N", help="independent runs, of seed, seed + 1, ...")
    run.add_argument("--out", metavar="FOLDER", help="a new folder for the result; by default one below runs/")
    run.add_argument("--quiet", action="store_true", help="no progress")


def _add_compare(commands: Any, shared: argparse.ArgumentParser) -> None:
    compare = commands.add_parser(
        "compare",
        parents=[shared],
        help="replicates of several algorithms: table, statistics, figure",
        description="Compare algorithms over replicates on one domain. With --out, the same command again goes on with "
        "the runs that are missing.",
    )
    compare.set_defaults(command=_compare)
    compare.add_argument("domain", metavar="DOMAIN", help=_DOMAIN)
    compare.add_argument(
        "--algorithms",
        required=True,
        metavar="A,B,...",
        help="names that `taskelites list` shows or module:name of your own, with settings in parentheses "
        "and labels before: 'mt-map-elites,fixed=mt-map-elites(tournament=50),mymodule:mine'",
    )
    _add_problem(compare, "an option of the domain")
    compare.add_argument("--replicates", type=_number, metavar="N", help="runs of each algorithm (default: 10)")
    compare.add_argument("--evaluations", type=_number, metavar="N", help="the budget of each run (default: 1e6)")
    compare.add_argument("--batch-size", type=_number, metavar="N", help="candidates a step (default: 64)")
    compare.add_argument("--seed", type=_number, metavar="N", help="of the first replicate (default: 0)")
    compare.add_argument("--out", metavar="FOLDER", help="a folder for everything; by default a new one below runs/")
    compare.add_argument(
        "--add", action="store_true", help="put these algorithms into the comparison that --out holds, on its terms"
    )
    compare.add_argument("--quiet", action="store_true", help="no progress")


def _add_reproduce(commands: Any, shared: argparse.ArgumentParser) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        parents=[shared],
        help="an experiment of the paper, whole or smaller",
        description="Run an experiment of the paper: its figure, and a page on each of its claims. With --out, the "
        "same command again goes on with the runs that are missing.",
    )
    reproduce.set_defaults(command=_reproduce)
    reproduce.add_argument("experiment", metavar="EXPERIMENT", help=f"{' or '.join(_EXPERIMENTS)}")
    _add_problem(reproduce, "an option of the experiment, such as target=(0.5,0.5)")
    reproduce.add_argument("--replicates", type=_number, metavar="N", help="of each algorithm (default: the paper's)")
    reproduce.add_argument("--evaluations", type=_number, metavar="N", help="of each run (default: the paper's)")
    reproduce.add_argument("--seed", type=_number, metavar="N", help="of the first replicate (default: 0)")
    reproduce.add_argument("--out", metavar="FOLDER", help="a folder for everything; by default a new one below runs/")
    reproduce.add_argument("--quiet", action="store_true", help="no progress")


def _add_problem(parser: argparse.ArgumentParser, what_set_sets: str) -> None:
    """The options that say what is solved."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help=f"{what_set_sets}; may be repeated"
    )
    parser.add_argument("--tasks", metavar="N|FILE", help="how many tasks, or a .csv or .npy file of descriptors")
    parser.add_argument("--dim", type=_number, metavar="N", help="length of a solution")


def _number(text: str) -> int:
    """A whole number, also as 1e6 or 1_000_000."""
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if text.lstrip("+-").isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"expected a whole number such as 1000 or 1e6, not {text!r}")


def _run(options: argparse.Namespace) -> int:
    name, inline = _specification(options.algorithm)
    maker = _algorithm_maker("--algorithm", name)
    own = _parameters(maker)
    given = dict(_pair(text) for text in options.set)
    algorithm = _make_algorithm(name, maker, inline | {key: value for key, value in given.items() if key in own})
    domain = _domain(options, {key: value for key, value in given.items() if key not in own}, own)

    runs = 1 if options.replicates is None else whole_number("--replicates", options.replicates, least=1)
    evaluations = whole_number("--evaluations", options.evaluations, least=1, most=MOST_EVALUATIONS)
    whole_number("--batch-size", options.batch_size, least=1)
    folder = (RunFolder(options.out) if options.out else RunFolder.under("runs", file_name(domain.name))).path
    size = f"{len(domain.tasks):,} tasks, " if hasattr(domain.tasks, "__len__") else ""
    budget = f"{evaluations:,} evaluations, {algorithm.name}"
    seeds = f"seed {options.seed}" if runs == 1 else f"{runs} runs of seeds {options.seed} to {options.seed + runs - 1}"
    print(f"{domain.name}: {size}{budget}, {seeds}", flush=True)
    begin = time.monotonic()
    try:
        results: Any = solve(
            domain,
            evaluations=options.evaluations,
            algorithm=algorithm,
            batch_size=options.batch_size,
            seed=options.seed,
            replicates=options.replicates,
            out=folder,
            progress=not options.quiet,
        )
    finally:
        with suppress(OSError):  # a folder that something was written to stays
            folder.rmdir()
    seconds = time.monotonic() - begin
    print(_closing(results, seconds, folder))
    return 0


def _closing(results: Result | list[Result], seconds: float, folder: Path) -> str:
    """What a person wants to know at the end."""
    if isinstance(results, Result):
        told = results.evaluations
        lines = [results.summary()]
    else:
        told = sum(result.evaluations for result in results)
        lines = _table(results)
    lines.append(f"{'time':<12} {seconds:.1f} s ({told / seconds:,.0f} evaluations a second, start-up included)")
    lines.append(f"{'saved':<12} {folder}")
    return "\n".join(lines)


def _table(results: list[Result]) -> list[str]:
    """A line for each replicate; the gap only where the optimum is known."""
    columns = {"mean": "mean", "median": "median", "best": "highest", "worst": "lowest", "gap": "gap"}
    if all(result.optimum is None for result in results):
        del columns["gap"]
    lines = [f"{'seed':>6} {'coverage':>10}" + "".join(f" {title:>12}" for title in columns)]
    for result in results:
        row = result.to_row()
        start = f"{result.settings['seed']:>6} {100 * row['coverage']:>8.4g} %"
        lines.append(start + "".join(f" {row[measure]:>12.6g}" for measure in columns.values()))
    return lines


def _compare(options: argparse.Namespace) -> int:
    algorithms: dict[str, Any] = {}
    for text in _split(options.algorithms):
        label, specification = _labelled(text)
        name, inline = _specification(specification)
        made = _make_algorithm(name, _algorithm_maker("--algorithms", name), inline)
        label = label or next(iter(label_algorithms([made])))
        if label in algorithms:
            raise ValueError(f"--algorithms names {label!r} twice; LABEL=NAME gives an algorithm another label")
        algorithms[label] = made
    if not algorithms:
        raise ValueError("--algorithms must name at least one algorithm; `taskelites list` shows them")
    domain = _domain(options, dict(_pair(text) for text in options.set), set())
    if options.add and not options.out:
        raise ValueError("--add needs --out FOLDER, the comparison to put the algorithms into")
    evaluations = 1_000_000 if options.evaluations is None and not options.add else options.evaluations
    with _folder(options.out, f"compare-{file_name(domain.name)}") as folder:
        found = compare(
            domain,
            algorithms=algorithms,
            evaluations=evaluations,
            replicates=options.replicates,
            batch_size=options.batch_size,
            seed=options.seed,
            out=folder,
            add=options.add,
            progress=not options.quiet,
        )
    print(found.summary(shutil.get_terminal_size((120, 24)).columns))
    print(f"\nsaved in {folder}: figure, tables, tests, runs")
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    make, verdicts = _EXPERIMENTS[one_of("EXPERIMENT", options.experiment, _EXPERIMENTS)]
    given = dict(_pair(text) for text in options.set)
    accepted = inspect.signature(make).parameters
    for name in given:
        one_of("--set", name, set(accepted) - {"out", "command", "progress"})
    for name in ("replicates", "evaluations", "dim", "seed"):
        if (value := getattr(options, name)) is not None:
            given[name] = value
    if options.tasks is not None:
        given["tasks"] = _number_or_file(options.tasks)
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
    folder = Path(out) if out else RunFolder.under("runs", name).path
    try:
        yield folder
    finally:
        with suppress(OSError):  # a folder that something was written to stays
            folder.rmdir()


def _split(text: str) -> list[str]:
    """A list at its commas, those in parentheses left alone."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _labelled(text: str) -> tuple[str, str]:
    """A label and an algorithm, from `algorithm` or `label=algorithm`."""
    label, equals, rest = text.partition("=")
    return (label.strip(), rest.strip()) if equals and "(" not in label else ("", text)


def _specification(text: str) -> tuple[str, dict[str, Any]]:
    """An algorithm and its settings, from `name` or `name(setting=value, ...)`."""
    name, opened, inside = text.strip().partition("(")
    if not opened:
        return name.strip(), {}
    wrong = f"an algorithm must be NAME or NAME(SETTING=VALUE, ...), not {text!r}"
    try:
        call = ast.parse(f"settings({inside}", mode="eval").body
    except SyntaxError:
        raise ValueError(wrong) from None
    if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
        raise ValueError(wrong)
    settings = {item.arg: ast.unparse(item.value) for item in call.keywords}
    return name.strip(), dict(_pair(f"{key}={value}") for key, value in settings.items())


def _algorithm_maker(option: str, name: str) -> Any:
    """What makes an algorithm's settings: of the registry, or a user's own."""
    return _own(name) if ":" in name else ALGORITHMS[one_of(option, name, ALGORITHMS)]


def _parameters(maker: Any) -> set[str]:
    """The settings that it takes."""
    return set(inspect.signature(maker).parameters) if isinstance(maker, type) or inspect.isfunction(maker) else set()


def _make_algorithm(name: str, maker: Any, settings: dict[str, Any]) -> Any:
    known = _parameters(maker)
    for setting in settings:
        if not known:
            raise ValueError(f"{name} takes no settings, so {setting!r} can't be set")
        one_of(f"a setting of {name}", setting, known)
    made = maker(**settings) if isinstance(maker, type) or inspect.isfunction(maker) else maker
    return as_algorithm(made)


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--set must be NAME=VALUE, not {text!r}")
    name = name.strip().replace("-", "_")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value.lower(), value))
    except (ValueError, SyntaxError):
        return name, value  # a word, such as sbx


def _domain(options: argparse.Namespace, extra: dict[str, Any], settings: set[str]) -> Any:
    """The domain that was named, made with what was said of it."""
    given = dict(extra)
    if options.tasks is not None:
        given["tasks"] = _number_or_file(options.tasks)
    if options.dim is not None:
        given["dim"] = options.dim
    name = options.domain
    if ":" not in name and name not in DOMAINS and not difflib.get_close_matches(name, DOMAINS, n=1):
        raise ValueError(f"there is no domain {name!r}: `taskelites list` shows them, and your own is module:name")
    found = _own(name) if ":" in name else DOMAINS[one_of("DOMAIN", name, DOMAINS)]
    if is_domain(found):
        if given:
            raise ValueError(
                f"{name} is a finished domain, so it takes no {', '.join(given)}; a function that makes a domain can"
            )
        return found
    if not callable(found):
        raise TypeError(f"{name} must be a domain (te.Domain) or a function that makes one, not {type(found).__name__}")
    accepted = inspect.signature(found).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        for option in given:
            one_of("--set" if option in extra else "the option", option, {*accepted, *(settings if extra else ())})
    try:
        domain = found(**given)
    except (ValueError, TypeError, OSError):
        raise  # these say what is wrong with an option
    except Exception as error:  # nor is a function of the user's limited in what it may raise
        raise ValueError(f"{name} raised {type(error).__name__}: {error}") from error
    if isinstance(domain, Domain):
        told = {key: value if isinstance(value, int | float | str) else repr(value) for key, value in given.items()}
        domain.options.update(told)
    if not is_domain(domain):
        raise TypeError(f"{name} must make a domain (te.Domain), but it made {type(domain).__name__}")
    return domain


def _number_or_file(text: str) -> int | Tasks:
    try:
        return _number(text)
    except argparse.ArgumentTypeError:
        if Path(text).suffix:
            return read(text)
        raise ValueError(f"--tasks must be a number or a .csv or .npy file, not {text!r}") from None


def _own(name: str) -> Any:
    """A user's own domain, by module:name; modules of the current folder are found."""
    module_name, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module of the user's may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name in (module_name, module_name.split(".")[0]):
            raise ImportError(f"there is no module {module_name!r} here or among the installed ones") from None
        raise ImportError(f"module {module_name!r} can't be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        public = [known for known in vars(module) if not known.startswith("_")]
        one_of(f"the name after {module_name}:", attribute, public)
    return getattr(module, attribute)


def _list(options: argparse.Namespace) -> int:
    for title, registry in (("domains", DOMAINS), ("algorithms", ALGORITHMS)):
        print(f"{title}:")
        for name, thing in registry.items():
            module = inspect.getmodule(thing)
            print(f"  {name:<18} {(inspect.getdoc(module) or '').splitlines()[0]}")
    return 0
