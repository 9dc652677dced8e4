"""What a person types for domains, algorithms, settings and numbers."""

import argparse
import ast
import difflib
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from taskelites.algorithms import ALGORITHMS, as_algorithm
from taskelites.domains import DOMAINS
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingPackageError, one_of
from taskelites.problem.problem import Domain, is_domain
from taskelites.problem.tasks import Tasks, read


def number(text: str) -> int:
    """A whole number, also as 1e6 or 1_000_000."""
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if text.lstrip("+-").isdecimal() else int(value)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"expected a whole number such as 1000 or 1e6, not {text!r}")


def split(text: str) -> list[str]:
    """A list at its commas, those in parentheses left alone."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def labelled(text: str) -> tuple[str, str]:
    """A label and an algorithm, from `algorithm` or `label=algorithm`."""
    label, equals, rest = text.partition("=")
    return (label.strip(), rest.strip()) if equals and "(" not in label else ("", text)


def specification(text: str, what: str = "an algorithm") -> tuple[str, dict[str, Any]]:
    """An algorithm (or another thing) and its settings, from `name` or `name(setting=value, ...)`."""
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
    return name.strip(), dict(pair(f"{key}={value}") for key, value in settings.items())


def algorithm_maker(option: str, name: str) -> Any:
    """What makes an algorithm's settings: of the registry, or a user's own."""
    return _own(name) if ":" in name else ALGORITHMS[one_of(option, name, ALGORITHMS)]


def parameters(maker: Any) -> set[str]:
    """The settings that it takes."""
    return set(inspect.signature(maker).parameters) if isinstance(maker, type) or inspect.isfunction(maker) else set()


def make_algorithm(name: str, maker: Any, settings: dict[str, Any]) -> Any:
    """An algorithm with these settings, or an error that says which of them it does not take."""
    known = parameters(maker)
    for setting in settings:
        if not known:
            raise InvalidValueError(f"{name} takes no settings, so {setting!r} can't be set")
        one_of(f"a setting of {name}", setting, known)
    made = maker(**settings) if isinstance(maker, type) or inspect.isfunction(maker) else maker
    return as_algorithm(made)


def pair(text: str) -> tuple[str, Any]:
    """A name and a value, from NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidValueError(f"--set must be NAME=VALUE, not {text!r}")
    name = name.strip().replace("-", "_")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value.lower(), value))
    except (ValueError, SyntaxError):
        return name, value  # a word, such as sbx


def make_domain(
    name: str,
    extra: dict[str, Any],
    settings: set[str] | None = None,
    said: str = "--set",
    *,
    tasks: str | None = None,
    dim: int | None = None,
) -> Any:
    """Make the domain that was named.

    Args:
        name: of the registry, or module:name.
        extra: options of the domain, given by the option `said`.
        settings: names that `said` accepts besides, for messages.
        said: for messages.
        tasks: a number or a file.
        dim: length of a solution.
    """
    given = dict(extra)
    if tasks is not None:
        given["tasks"] = number_or_file(tasks)
    if dim is not None:
        given["dim"] = dim
    if ":" not in name and name not in DOMAINS and not difflib.get_close_matches(name, DOMAINS, n=1):
        raise InvalidValueError(
            f"there is no domain {name!r}: `taskelites list` shows them, and your own is module:name"
        )
    found = _own(name) if ":" in name else DOMAINS[one_of("DOMAIN", name, DOMAINS)]
    if is_domain(found):
        if given:
            raise InvalidValueError(
                f"{name} is a finished domain, so it takes no {', '.join(given)}; a function that makes a domain can"
            )
        return found
    if not callable(found):
        raise InvalidTypeError(
            f"{name} must be a domain (te.Domain) or a function that makes one, not {type(found).__name__}"
        )
    accepted = inspect.signature(found).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        for option in given:
            one_of(said if option in extra else "the option", option, {*accepted, *((settings or ()) if extra else ())})
    try:
        domain = found(**given)
    except (ValueError, TypeError, OSError):
        raise  # these say what is wrong with an option
    except Exception as error:  # nor is a function of the user's limited in what it may raise
        raise InvalidValueError(f"{name} raised {type(error).__name__}: {error}") from error
    if isinstance(domain, Domain) and ":" in name:  # ours say themselves what matters
        told = {key: value if isinstance(value, int | float | str) else repr(value) for key, value in given.items()}
        domain.options.update(told)
    if not is_domain(domain):
        raise InvalidTypeError(f"{name} must make a domain (te.Domain), but it made {type(domain).__name__}")
    return domain


def number_or_file(text: str) -> int | Tasks:
    """How many tasks, or the tasks of a file."""
    try:
        return number(text)
    except argparse.ArgumentTypeError:
        if Path(text).suffix:
            return read(text)
        raise InvalidValueError(f"--tasks must be a number or a .csv or .npy file, not {text!r}") from None


def _own(name: str) -> Any:
    """A user's own domain, by module:name; modules of the current folder are found."""
    module_name, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module of the user's may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name in (module_name, module_name.split(".")[0]):
            raise MissingPackageError(f"there is no module {module_name!r} here or among the installed ones") from None
        raise MissingPackageError(
            f"module {module_name!r} can't be imported: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, attribute):
        public = [known for known in vars(module) if not known.startswith("_")]
        one_of(f"the name after {module_name}:", attribute, public)
    return getattr(module, attribute)
