"""Import a domain or an algorithm of the user, and check what it is before anything of it is called.

It is given as module:name or path/to/file.py:name.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskelites.algorithms import Settings
from taskelites.errors import InvalidTypeError, InvalidValueError, MissingFileError, MissingPackageError, one_of
from taskelites.problem.problem import Domain, is_domain


def is_own(name: str) -> bool:
    """Return whether a name is of the user's own code rather than of the registry.

    Example:
        >>> is_own("arm"), is_own("mine:make"), is_own("sims/mine.py:make(size=3)")
        (False, True, True)
    """
    return ":" in name.partition("(")[0]


def import_domain(name: str) -> Any:
    """Return a domain of the user, or a function that makes one.

    Args:
        name: module:name or path/to/file.py:name.

    Raises:
        TypeError: if it is neither a domain nor annotated as returning one.
    """
    found = _import_attribute(name)
    if is_domain(found) or _is_domain_class(found) or _returns(found, _is_domain_class):
        return found
    raise InvalidTypeError(_refusal(name, found, "a te.Domain", "te.Domain"))


def import_algorithm(name: str) -> Any:
    """Return settings of an algorithm of the user, or a class or function that makes them.

    Args:
        name: module:name or path/to/file.py:name.

    Raises:
        TypeError: if it is not an algorithm.
    """
    found = _import_attribute(name)
    if follows_interface(found) or _returns(found, _is_settings_class):
        return found
    what = "an algorithm (settings with `bind` and a `name`, or their class)"
    raise InvalidTypeError(_refusal(name, found, what, "te.algorithms.Settings"))


def follows_interface(algorithm: Any) -> bool:
    """Return whether an object is settings of an algorithm, or a class of them."""
    return isinstance(getattr(algorithm, "name", None), str) and callable(getattr(algorithm, "bind", None))


def _is_domain_class(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Domain)


def _is_settings_class(thing: Any) -> bool:
    return thing is Settings or (isinstance(thing, type) and follows_interface(thing))


def _returns(maker: Any, accepted: Callable[[Any], bool]) -> bool:
    """Return whether a callable is annotated as returning something that is accepted."""
    if isinstance(maker, type) or not callable(maker):
        return False
    try:
        annotation = inspect.signature(maker).return_annotation
    except (TypeError, ValueError):
        return False
    if isinstance(annotation, str):  # looked up rather than evaluated
        found: Any = sys.modules.get(getattr(inspect.unwrap(maker), "__module__", ""))
        for part in annotation.strip("'\"").split("."):
            found = getattr(found, part, None)
        annotation = found
    return accepted(annotation)


def _refusal(name: str, found: Any, expected: str, annotation: str) -> str:
    if inspect.isfunction(found):
        return (
            f"{name} is not annotated as returning {expected}, so it is not called; if it does return one, write "
            f"`def {found.__name__}(...) -> {annotation}:`"
        )
    kind = f"the class {found.__name__}" if isinstance(found, type) else type(found).__name__
    return f"{name} must be {expected}, or a function annotated with `-> {annotation}`, not {kind}"


def _import_attribute(name: str) -> Any:
    """Import an attribute given as module:name; modules in the current folder take precedence."""
    text, _, attribute = name.rpartition(":")
    file = Path(text).resolve() if text.endswith(".py") or "/" in text else None
    folder, module_name = (Path.cwd(), text) if file is None else _module_of(file, text)
    if str(folder) not in sys.path:  # also for workers, which get this path
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # user code may raise any exception
        if isinstance(error, ModuleNotFoundError) and error.name in (module_name, module_name.split(".")[0]):
            raise MissingPackageError(
                f"there is no module {module_name!r} in the current folder or among the installed packages"
            ) from None
        raise MissingPackageError(f"module {text!r} cannot be imported: {type(error).__name__}: {error}") from error
    if file is not None and Path(getattr(module, "__file__", None) or "").resolve() != file:
        raise InvalidValueError(
            f"{text!r} cannot be imported, since another module is called {module_name!r}; rename the file"
        )
    if not hasattr(module, attribute):
        public = [known for known in vars(module) if not known.startswith("_")]
        one_of(f"the name after {text}:", attribute, public)
    return getattr(module, attribute)


def _module_of(file: Path, named: str) -> tuple[Path, str]:
    """Return the folder that must be on Python's path to import a file, and the name of its module.

    Args:
        file: path of the file; it may be part of a package.
        named: the path as the user wrote it, for error messages.
    """
    if not file.is_file():
        hint = f"; did you mean {named + '.py'!r}?" if file.with_name(f"{file.name}.py").is_file() else ""
        raise MissingFileError(f"there is no file {named!r}{hint}")
    if file.suffix != ".py" or "." in file.stem:
        raise InvalidValueError(f"{named!r} cannot be imported; give it a name that ends in .py and has no other dot")
    names = [] if file.stem == "__init__" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)
