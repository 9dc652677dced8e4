"""Parse command-line values: numbers, lists, settings, algorithms and domains."""

import argparse
import ast
import difflib
import inspect
from pathlib import Path
from typing import Any

from taskelites.algorithms import ALGORITHMS, as_algorithm
from taskelites.cli.user_code import follows_interface, import_algorithm, import_domain, is_own
from taskelites.domains import DOMAINS
from taskelites.errors import InvalidTypeError, InvalidValueError, one_of
from taskelites.problem.problem import Domain, is_domain
from taskelites.problem.tasks import Tasks, read


def parse_number(text: str) -> int:
    """Parse a whole number such as 1000, 1e6 or 1_000_000."""
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if text.lstrip("+-").isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"expected a whole number such as 1000 or 1e6, not {text!r}")


def split_list(text: str) -> list[str]:
    """Split a list at its commas, except for those in parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def split_label(text: str) -> tuple[str, str]:
    """Split `label=specification` or `specification` into a label, "" if there is none, and a specification."""
    label, equals, rest = text.partition("=")
    return (label.strip(), rest.strip()) if equals and "(" not in label else ("", text)


def parse_specification(text: str, what: str = "an algorithm") -> tuple[str, dict[str, Any]]:
    """Parse `name` or `name(setting=value, ...)` into a name and its settings.

    Args:
        text: text to parse.
        what: the kind of thing that is named, for error messages.
    """
    name, opened, inside = text.strip().partition("(")
    if not opened:
        return name.strip(), {}
    wrong = f"{what} must be NAME or NAME(SETTING=VALUE, ...), not {text!r}"
    try:
        call = ast.parse(f"settings({inside}", mode="eval").body
    except SyntaxError:
        raise InvalidValueError(wrong) from None
    if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
        raise InvalidValueError(wrong)
    settings = {item.arg: ast.unparse(item.value) for item in call.keywords}
    return name.strip(), dict(parse_setting(f"{key}={value}") for key, value in settings.items())


def find_algorithm(option: str, name: str) -> Any:
    """Return the class, function or settings that define an algorithm.

    Args:
        option: name of the command-line option, for error messages.
        name: a name in the registry, or module:name.
    """
    return import_algorithm(name) if is_own(name) else ALGORITHMS[one_of(option, name, ALGORITHMS)]


def setting_names(maker: Any) -> set[str]:
    """Return the names of the settings that a class or function takes; none for settings that are made already."""
    return set(inspect.signature(maker).parameters) if _makes_settings(maker) else set()


def _makes_settings(found: Any) -> bool:
    return isinstance(found, type) or not follows_interface(found)


def make_algorithm(name: str, maker: Any, settings: dict[str, Any]) -> Any:
    """Return an algorithm.

    Args:
        name: name of the algorithm, for error messages.
        maker: result of `find_algorithm`.
        settings: values by name.

    Raises:
        ValueError: if the algorithm does not take one of the settings.
    """
    known = setting_names(maker)
    for setting in settings:
        if not known:
            raise InvalidValueError(f"{name} takes no settings; leave out {setting!r}")
        one_of(f"a setting of {name}", setting, known)
    return as_algorithm(maker(**settings) if _makes_settings(maker) else maker)


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE into a name and a Python value; text that is not a literal stays text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidValueError(f"--set must have the form NAME=VALUE, not {text!r}")
    name = name.strip().replace("-", "_")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value.lower(), value))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return name, value  # text such as sbx


def make_domain(
    name: str,
    extra: dict[str, Any],
    algorithm_settings: set[str] | None = None,
    option: str = "--set",
    *,
    tasks: str | None = None,
    dim: int | None = None,
) -> Any:
    """Return a domain.

    Args:
        name: a name in the registry, or module:name.
        extra: options of the domain, by name.
        algorithm_settings: further names that `option` accepts, for error messages.
        option: the command-line option that gave `extra`, for error messages.
        tasks: a number of tasks, or a file.
        dim: number of dimensions of a solution.
    """
    given = dict(extra)
    if tasks is not None:
        given["tasks"] = parse_tasks(tasks)
    if dim is not None:
        given["dim"] = dim
    if is_own(name):
        found = import_domain(name)
    elif name not in DOMAINS and not difflib.get_close_matches(name, DOMAINS, n=1):
        hint = f"; name a domain in the file, such as {name}:domain" if name.endswith(".py") else ""
        raise InvalidValueError(
            f"DOMAIN must be a name shown by `taskelites list`, or module:name or file.py:name of your own domain, not "
            f"{name!r}{hint}"
        )
    else:
        found = DOMAINS[one_of("DOMAIN", name, DOMAINS)]
    if is_domain(found):
        if given:
            raise InvalidValueError(
                f"{name} is a te.Domain, which takes no options, but {', '.join(given)} was given; leave it out, or "
                "name a function that returns a domain"
            )
        return found
    accepted = inspect.signature(found).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        for key in given:
            one_of(
                option if key in extra else f"the options of {name}",
                key,
                {*accepted, *((algorithm_settings or ()) if extra else ())},
            )
    try:
        domain = found(**given)
    except (ValueError, TypeError, OSError):
        raise  # domains raise these for invalid options
    except Exception as error:  # user code may raise any exception
        raise InvalidValueError(f"{name} raised {type(error).__name__}: {error}") from error
    if isinstance(domain, Domain) and is_own(name):  # built-in domains fill in their options themselves
        plain = {key: value if isinstance(value, int | float | str) else repr(value) for key, value in given.items()}
        domain.options.update(plain)
    if not is_domain(domain):
        raise InvalidTypeError(f"{name} must return a te.Domain, but it returned {type(domain).__name__}")
    return domain


def parse_tasks(text: str) -> int | Tasks:
    """Return a number of tasks, or read the tasks of a file."""
    try:
        return parse_number(text)
    except argparse.ArgumentTypeError:
        if Path(text).suffix:
            return read(text)
        raise InvalidValueError(f"--tasks must be a number or a .csv or .npy file, not {text!r}") from None
