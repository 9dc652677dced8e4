"""Whether a function, an algorithm or a list of objects is still what it was, as far as that can be told."""

import functools
import hashlib
import inspect
import sys
from types import CodeType, FunctionType
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def code_of(thing: Any) -> str | None:
    """A few letters that change with the code of a function, or of the class of an object; None where nothing tells.

    Constants, default arguments and plain values that a function closes over count; globals that it reads do not. The
    classes of this library do not count either: they have a version.

    Example:
        >>> code_of(lambda x: x + 1) == code_of(lambda x: x + 2)
        False
        >>> code_of(lambda x: x + 1) == code_of(lambda x: x + 1)
        True
    """
    while isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing) if callable(thing) else thing
    thing = getattr(thing, "__func__", thing)
    parts = _of_function(thing) if isinstance(thing, FunctionType) else _of_class(type(thing))
    if not parts:
        return None
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    # What a function is compiled to depends on the version of Python.
    return f"{sys.version_info.major}.{sys.version_info.minor}-{digest}"


def same_code(before: str | None, now: str | None) -> bool:
    """Whether two of these may be the same; what can't be compared may be.

    Example:
        >>> same_code("3.11-aaa", "3.11-bbb"), same_code("3.11-aaa", "3.12-bbb"), same_code(None, "3.11-aaa")
        (False, True, True)
    """
    if before is None or now is None or before.partition("-")[0] != now.partition("-")[0]:
        return True
    return before == now


def text_of(objects: Any) -> str | None:
    """A few letters that change with the text of objects; None where the text holds their addresses.

    Example:
        >>> text_of(["a", "b"]) == text_of(["a", "b"]), text_of(["a"]) == text_of(["b"]), text_of([object()])
        (True, False, None)
    """
    text = "\n".join(map(str, objects))
    return None if " at 0x" in text else hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


def _of_class(cls: type) -> list[str]:
    parts = []
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in ("taskelites", "builtins", "typing"):
            continue
        for name, member in sorted(vars(base).items()):
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            # What a dataclass writes itself has no file.
            if isinstance(function, FunctionType) and not function.__code__.co_filename.startswith("<"):
                parts += [name, *_of_function(function)]
    return parts


def _of_function(function: FunctionType) -> list[str]:
    closed = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values(), *closed]
    return [*_of_code(function.__code__), *(repr(value) for value in values if isinstance(value, _PLAIN))]


def _of_code(code: CodeType) -> list[str]:
    parts = [code.co_code.hex(), repr(code.co_names)]
    for constant in code.co_consts:
        if isinstance(constant, frozenset):  # whose order differs from process to process
            constant = sorted(map(repr, constant))
        parts += _of_code(constant) if isinstance(constant, CodeType) else [repr(constant)]
    return parts


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
