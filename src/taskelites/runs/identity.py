"""Short hashes of a fitness, an algorithm or task objects, to notice that they changed between two runs."""

import functools
import hashlib
import inspect
import random
import re
import sys
import textwrap
import tokenize
from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

# The code of these counts by its name, since a run saves their versions.
_VERSIONED = sys.stdlib_module_names | {"jax", "jaxlib", "numpy", "scipy", "taskelites"}
# Methods that a dataclass may have generated; what differs between them are its fields.
_GENERATED = {"__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__replace__"}
_GENERATED |= {"__setattr__", "__delattr__", "__getstate__", "__setstate__"}
_PLAIN = (int, float, complex, str, bool, type(None))
# Values nested deeper, or after this many others, count by their type: a fitness may hold a whole simulator.
_DEPTH = 100
_NUMBER = 100_000


def code_of(thing: Any, *, mutable: bool = True) -> str | None:
    """Return a short hash of a function or an object and the values it holds; None for objects of this library.

    What counts:

    - functions: source, default arguments and closure;
    - `functools.partial`: function and arguments;
    - bound methods and callable objects: the code of the class and the attributes of the object;
    - arrays, containers and other objects among these values: their contents.

    The source includes comments, and is read from the file as it is now. Lambdas and functions without source count by
    their bytecode. Globals that a function reads do not count. Random generators, and objects whose contents can't be
    read, count by their type. A class can leave counters and caches out with `__getstate__`, as for pickling.

    Args:
        thing: the function or object.
        mutable: whether the contents of arrays, lists, dicts, sets and other objects count, which a fitness may change
            when it is called.

    Example:
        >>> from functools import partial
        >>> code_of(partial(pow, 2)) == code_of(partial(pow, 2)), code_of(partial(pow, 2)) == code_of(partial(pow, 3))
        (True, False)
    """
    if _package_of(type(thing)) == "taskelites":
        return None
    hasher = _Hasher(mutable)
    digest = hasher.digest((type(thing), thing)).hex()[:12]
    # Bytecode depends on the version of Python.
    kind = f"{sys.version_info.major}.{sys.version_info.minor}" if hasher.used_bytecode else "source"
    return f"{kind}-{digest}"


def same_code(before: str | None, now: str | None) -> bool:
    """Return whether two results of `code_of` agree, or can't be compared.

    Example:
        >>> same_code("source-aaa", "source-bbb"), same_code("3.11-aaa", "3.12-bbb"), same_code(None, "source-aaa")
        (False, True, True)
    """
    if before is None or now is None or before.partition("-")[0] != now.partition("-")[0]:
        return True
    return before == now


def text_of(objects: Any) -> str | None:
    """Return a short hash of the text of objects; None if the text contains memory addresses.

    Example:
        >>> text_of(["a", "b"]) == text_of(["a", "b"]), text_of(["a"]) == text_of(["b"]), text_of([object()])
        (True, False, None)
    """
    text = "\n".join(map(str, objects))
    return None if " at 0x" in text else hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


class _Hasher:
    """Hashes values by their contents, each object once.

    Args:
        mutable: whether the contents of mutable values count.

    Attributes:
        used_bytecode: whether the bytecode of a function was hashed.
    """

    def __init__(self, mutable: bool) -> None:
        self.used_bytecode = False
        self._mutable = mutable
        # With the object, since the id of a deleted one would be used again.
        self._known: dict[int, tuple[Any, bytes]] = {}
        self._depth = 0

    def digest(self, value: Any) -> bytes:
        """Return the hash of a value."""
        if type(value) in _PLAIN:
            return _sha256(type(value).__name__, repr(value))
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        if self._depth >= _DEPTH or len(self._known) >= _NUMBER:
            return _sha256(_name(type(value)))
        self._known[id(value)] = (value, _sha256("cycle"))  # for a value that contains itself
        self._depth += 1
        found = self._digest(value)
        self._depth -= 1
        self._known[id(value)] = (value, found)
        return found

    def _digest(self, value: Any) -> bytes:
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return self._all("method", [value.__func__, type(value.__self__), value.__self__])
        if isinstance(value, functools.partial):
            return self._all("partial", [value.func, value.args, self._named(value.keywords)])
        if isinstance(value, CodeType):
            return self._bytecode(value)
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, bytes):
            return _sha256("bytes", value)
        if isinstance(value, tuple | frozenset):
            return self._container(value)
        if isinstance(value, np.generic):
            return self._array(np.asarray(value))
        return self._contents(value) if self._mutable else self._object(value)

    def _contents(self, value: Any) -> bytes:
        """Return the hash of a value that may change."""
        if isinstance(value, dict | MappingProxyType | set | list | deque):
            return self._container(value)
        if isinstance(value, np.ma.MaskedArray):
            return self._all("masked", [value.filled(), np.ma.getmaskarray(value)])
        array = _as_array(value) if hasattr(type(value), "__array__") else None
        return self._object(value) if array is None else self._array(array)

    def _all(self, kind: str, values: Any) -> bytes:
        return _sha256(kind, *map(self.digest, values))

    def _named(self, values: dict[str, Any]) -> bytes:
        return _sha256(*(part for name in sorted(values) for part in (name, self.digest(values[name]))))

    def _function(self, function: FunctionType) -> bytes:
        code = function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        closed = {name: _contents_of(cell) for name, cell in cells}
        held = [function.__defaults__, self._named(function.__kwdefaults__ or {}), self._named(closed)]
        module = str(function.__globals__.get("__name__"))  # not `__module__`, which decorators copy
        if _top(module) in _VERSIONED:
            return self._all("function", [f"{module}.{code.co_qualname}", *held])
        source = _source_of(code)
        return self._all("function", [code if source is None else source, *held])

    def _bytecode(self, code: CodeType) -> bytes:
        self.used_bytecode = True
        parts = [code.co_code, code.co_exceptiontable, code.co_names, code.co_freevars, code.co_argcount]
        return self._all("code", [*parts, *code.co_consts])

    def _class(self, cls: type) -> bytes:
        found: list[Any] = []
        for base in cls.__mro__:
            found.append(_name(base))
            members = {} if _package_of(base) in _VERSIONED else vars(base)
            for name, member in sorted(members.items()):
                found += self._member(base, name, member)
        return _sha256("class", *found)

    def _member(self, cls: type, name: str, member: Any) -> list[Any]:
        """Return the name and the hash of what a class defines; nothing for what Python adds by itself."""
        if "__dataclass_fields__" in vars(cls) and name in _GENERATED:
            return []
        if isinstance(member, property):
            member = [member.fget, member.fset]
        elif isinstance(member, staticmethod | classmethod):
            member = member.__func__
        elif isinstance(member, functools.cached_property):
            member = member.func
        elif not isinstance(member, FunctionType) and name.startswith("_"):  # caches, and such as `__slotnames__`
            return []
        return [] if name.startswith("__annotate") else [name, self.digest(member)]

    def _container(self, value: Any) -> bytes:
        name = _name(type(value))
        if isinstance(value, dict | MappingProxyType):
            return _sha256(name, *sorted(self._all("item", item) for item in value.items()))
        if isinstance(value, set | frozenset):
            return _sha256(name, *sorted(map(self.digest, value)))
        if all(kind in _PLAIN for kind in set(map(type, value))):  # one text, since there may be millions of numbers
            return _sha256(name, repr(list(value)))
        return self._all(name, value)

    def _array(self, array: np.ndarray) -> bytes:
        about = ("array", str(array.dtype), str(array.shape))
        if array.dtype.hasobject:
            return _sha256(*about, self.digest(array.tolist()))
        flat = np.ascontiguousarray(array).reshape(-1)
        return _sha256(*about, flat.view(np.uint8).data if flat.nbytes else b"")

    def _object(self, value: Any) -> bytes:
        name = _name(type(value))
        try:
            wrapped = getattr(value, "__wrapped__", None)  # by jax.jit, functools.lru_cache and others
            if callable(wrapped):
                return _sha256("wrapper", name, self.digest(wrapped))
            state = _state_of(value) if self._mutable else _constant_of(value)
        except Exception:  # noqa: BLE001 - these may call code of the user
            state = None
        code = self.digest(type(value)) if callable(value) else b""
        return _sha256("object", name, code, b"" if state is None else self.digest(state))


def _sha256(*parts: Any) -> bytes:
    """Return the hash of texts and bytes, which differs if the same bytes are divided in another way."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    return found.digest()


def _name(cls: type) -> str:
    # A script's module has another name when it is imported.
    return f"{cls.__module__}.{cls.__qualname__}" if _package_of(cls) in _VERSIONED else cls.__name__


def _package_of(cls: type) -> str:
    return _top(str(cls.__module__))


def _top(module: str) -> str:
    return module.partition(".")[0]


def _contents_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _source_of(code: CodeType) -> str | None:
    """Return the source of a function, or None if there is none of its own."""
    # A lambda's source is the whole statement around it, and several programs have a file of this name.
    if code.co_name == "<lambda>" or code.co_filename == "<string>":
        return None
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError, IndexError, SyntaxError, tokenize.TokenError):
        return None
    if not re.search(rf"\bdef\s+{re.escape(code.co_name)}\b", source):  # the file was edited after its import
        return None
    return textwrap.dedent(source).strip()


def _as_array(value: Any) -> np.ndarray | None:
    """Return an array of NumPy, JAX or another library as NumPy's; None if that fails."""
    try:
        return np.asarray(value)
    except Exception:  # noqa: BLE001 - conversion may raise anything
        pass
    try:
        return np.asarray(sys.modules["jax"].random.key_data(value))
    except Exception:  # noqa: BLE001 - it was no random key, or JAX isn't used
        return None


def _state_of(value: Any) -> Any:
    """Return what an object holds, or None if only its type counts."""
    cls = type(value)
    if isinstance(value, random.Random):  # it changes with every number
        return None
    constant = _constant_of(value)
    if constant is not None:
        return constant
    package = _package_of(cls)
    if package in sys.stdlib_module_names:
        return _shown(value)
    if package != "taskelites" and isinstance(cls.__reduce__, FunctionType):
        return value.__reduce__()
    if package != "taskelites" and isinstance(cls.__getstate__, FunctionType):
        return value.__getstate__()
    if is_dataclass(value):
        # Not `getattr`, which would call properties, unless there are only slots.
        held = getattr(value, "__dict__", None)
        names = [item.name for item in fields(value)]
        return {name: getattr(value, name, None) if held is None else held.get(name) for name in names}
    if package == "taskelites":
        return None
    # A `__getstate__` that is not Python's may be a simulator's, whose state changes as it is used.
    default: Any = object.__getstate__
    state = value.__getstate__() if cls.__getstate__ is default else None
    return _without_caches(cls, state) if state else _shown(value)


def _constant_of(value: Any) -> Any:
    """Return what an object holds if that never changes, or None."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, BuiltinFunctionType):
        return (value.__qualname__, value.__self__)
    return None


def _shown(value: Any) -> Any:
    """Return the attributes or the text of an object whose text shows its contents; None for any other one."""
    text = repr(value)
    if text.startswith("<") or "0x" in text:
        return None
    return getattr(value, "__dict__", None) or text


def _without_caches(cls: type, state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    parts = [part for base in cls.__mro__ for part in vars(base).items()]
    caches = {name for name, part in parts if isinstance(part, functools.cached_property)}
    return {name: part for name, part in state.items() if name not in caches}
