"""Files in safe formats: atomic writing, checked reading, and conversion of values to JSON.

A file from a stranger can be wrong, never dangerous. Readers check the sizes that a file states before they take
memory, never unpickle, and raise a `StorageError` that names the file.
"""

import errno
import hashlib
import json
import math
import os
import platform
import secrets
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from taskelites.errors import InvalidValueError, StorageError, whole_number

# The arrays of a file may take this much memory, in bytes, or as much as the file itself has: a zip file of 3 MB could
# otherwise become 3 GB. `write_arrays` does not compress more than this, so it writes nothing that can't be read.
MOST_UNPACKED = 2**30
# Characters of a JSON document: parsed, each takes up to 24 bytes.
MOST_TEXT = 2**25
_MOST_NESTED = 100
# JSON documents of this version or a newer one have a checksum.
_WITH_CHECKSUM = 2
# What NumPy, zip and JSON raise for bytes that are not what they should be. MemoryError is not one of them: a good file
# must not count as damaged because memory is short.
MALFORMED = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, RuntimeError, EOFError, OSError),
    *(zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, tokenize.TokenError),
)

# Members of an `.npz` file: allowed dtype kinds and the name of each axis; None for any shape. Axes of one name have
# one length. A name that ends in * stands for all that begin with the rest.
Layout = Mapping[str, tuple[str, tuple[str, ...] | None]]


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file atomically: write to a temporary file, sync it to disk and rename it.

    Args:
        path: the file to write or replace.
        write: function that writes the contents to an open binary file.

    Raises:
        StorageError: if the file cannot be written, for example on a full disk, or is a symbolic link. An existing file
            is left unchanged.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_whole(path, lambda file: file.write(b"hello"))
        >>> path.read_text()
        'hello'
    """
    refuse_link(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)  # a rename is not durable until its folder is synced
    except OSError as error:
        raise StorageError(error.errno, f"could not write {str(path)!r}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any] | None = None) -> None:
    """Write an `.npz` file atomically; compressed, unless it is too large to be read back.

    Args:
        path: the file to write or replace.
        arrays: the arrays by name.
        about: a JSON object for the member `about`, which also gets the names of the arrays: none is lost unnoticed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.npz"
        >>> write_arrays(path, {"a": np.arange(3)})
        >>> np.load(path)["a"].tolist()
        [0, 1, 2]
    """
    if about is not None:
        arrays = {"about": as_member({**about, "arrays": sorted(arrays)}), **arrays}
    header = 1024  # at most, per array
    large = sum(header + np.asarray(array).nbytes for array in arrays.values()) > MOST_UNPACKED
    save = np.savez if large else np.savez_compressed
    # mypy cannot rule out that an array has the name of a NumPy argument.
    write_whole(path, lambda file: save(file, **arrays))  # type: ignore[arg-type]


@contextmanager
def appending(path: Path) -> Iterator[TextIO]:
    """Open a text file to append to it, and create it if needed. Lone surrogates are written as escapes.

    Raises:
        StorageError: if it cannot be written, or is a symbolic link.
    """
    refuse_link(path)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with open(descriptor, "a", encoding="utf-8", errors="backslashreplace", newline="") as file:
            yield file
    except OSError as error:
        raise StorageError(error.errno, f"could not write {str(path)!r}: {error.strerror or error}") from error


def refuse_link(path: Path) -> None:
    """Raise an error if a path is a symbolic link, which would lead what is written to another place.

    Raises:
        StorageError: if it is one. Links above it are followed.
    """
    if path.is_symlink():
        raise StorageError(
            errno.ELOOP,
            f"{str(path)!r} is a symbolic link, and taskelites does not write through links; remove it, or replace it "
            "by what it points to",
        )


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that new file names survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically. Lone surrogates are written as escapes, which JSON reads back.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_text(path, "hello")
        >>> path.read_text()
        'hello'
    """
    write_whole(path, lambda file: _write(file, escaped(text).encode()))


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def escaped(text: str) -> str:
    r"""Return a text with its lone surrogates as escapes: UTF-8 can't encode them, nor do tables of pandas hold them.

    Example:
        >>> escaped("a\udc80")
        'a\\udc80'
    """
    return text.encode(errors="backslashreplace").decode()


def file_name(text: str) -> str:
    """Return the text as a file name of at most 60 characters, with special characters replaced by hyphens.

    Example:
        >>> file_name("mt-map-elites(tournament=50)")
        'mt-map-elites-tournament-50'
    """
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in str(text)).strip("-")
    if len(kept) > 60:  # the hash keeps names apart that differ only at their ends
        kept = f"{kept[:51]}-{hashlib.sha256(str(text).encode(errors='surrogatepass')).hexdigest()[:8]}"
    return kept or "unnamed"


def plain(value: Any) -> Any:
    """Convert a value, such as the settings of an algorithm, to types that JSON supports.

    Example:
        >>> plain({"size": np.int64(3), "kinds": ("a", None)})
        {'size': 3, 'kinds': ['a', None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        shown = [item.name for item in fields(value) if item.repr]
        return {"type": type(value).__name__} | {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    text = repr(value)
    if " at 0x" in text:  # memory addresses differ between processes
        named = value if hasattr(value, "__qualname__") else type(value)
        text = f"{named.__module__}.{named.__qualname__}"
    return text


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document atomically, with a checksum that `read_json` compares from version 2 of a format on.

    Raises:
        ValueError: if it is too large to be read back.
        StorageError: if it cannot be written.
    """
    plain_values = json.loads(json.dumps(document))
    text = json.dumps(plain_values | {"checksum": _checksum(plain_values)}, indent=2, ensure_ascii=False) + "\n"
    _check_length(text)
    write_text(path, text)


def read_json(path: Path, *, expected: str, newest: int, what: str, remedy: str) -> dict[str, Any]:
    """Read a JSON document, and compare its format, version and checksum.

    Args:
        path: the file.
        expected: its format.
        newest: the newest version that can be read.
        what: see `reading`.
        remedy: see `reading`.

    Returns:
        The document without its checksum.

    Raises:
        StorageError: if it can't be read, is malformed, was edited, or is from a newer version.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "note.json"
        >>> write_json(path, {"format": "note", "version": 2, "text": "hello"})
        >>> read_json(path, expected="note", newest=2, what="not a note", remedy="write it again")["text"]
        'hello'
    """
    with reading(path, what, remedy):
        document = parse_json(read_text(path))
        check_format(path, document, expected=expected, newest=newest)
        checksum = document.pop("checksum") if document["version"] >= _WITH_CHECKSUM else None
    if checksum is not None and checksum != _checksum(document):
        raise StorageError(
            errno.EBADMSG,
            f"{str(path)!r} was changed after it was written, since its checksum does not match; undo the change, or "
            f'keep it by setting "checksum" to null; otherwise, {remedy}',
        )
    return document


def parse_json(text: str) -> dict[str, Any]:
    """Return the contents of a JSON object.

    Raises:
        ValueError: if it is too long, nested too deeply, not JSON, or not an object.

    Example:
        >>> parse_json('{"seed": 3}')
        {'seed': 3}
    """
    _check_length(text)
    document = json.loads(text)
    if not isinstance(document, dict):
        raise InvalidValueError(f"it must be a JSON object, not a {type(document).__name__}")
    level: list[Any] = [document]
    for _ in range(_MOST_NESTED):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return document
    raise InvalidValueError(f"it is nested more than {_MOST_NESTED} levels deep")


def as_member(document: Mapping[str, Any]) -> np.ndarray:
    """Return a JSON document as a text array, the member of an `.npz` file that `ArrayFile.document` reads."""
    text = json.dumps(document)
    _check_length(text)
    return np.array(text)


def _check_length(text: str) -> None:
    if len(text) > MOST_TEXT:
        raise InvalidValueError(f"it has {len(text):,} characters of JSON, and at most {MOST_TEXT:,} can be read")


def _checksum(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def read_text(path: Path, most: int = 4 * MOST_TEXT) -> str:
    """Read a UTF-8 text file of at most `most` bytes.

    Raises:
        ValueError: if it is larger, or not UTF-8.
        OSError: if it can't be read.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InvalidValueError(f"it is larger than {most:,} bytes")
    return data.decode()


@contextmanager
def reading(path: Path, what: str, remedy: str) -> Iterator[None]:
    """Turn whatever wrong contents of a file raise into a `StorageError` that names the file.

    Args:
        path: the file.
        what: what a foreign file would be, such as "not a taskelites result".
        remedy: what to do.

    Example:
        >>> with reading(Path("run.json"), "not a run", "restore it"):
        ...     parse_json("{")
        Traceback (most recent call last):
        taskelites.errors.StorageError: 'run.json' is damaged or not a run (Expecting property name ...); restore it
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(error.errno, f"could not read {str(path)!r}: {error.strerror or error}") from error
    except MALFORMED as error:
        raise StorageError(
            errno.EBADMSG, f"{str(path)!r} is damaged or {what} ({reason_of(error)}); {remedy}"
        ) from None


def reason_of(error: BaseException) -> str:
    """Return why a file is malformed, for a message.

    Example:
        >>> reason_of(KeyError("seed"))
        "it has no 'seed'"
    """
    if isinstance(error, KeyError) and error.args:
        return f"it has no {error.args[0]!r}"[:300]
    return str(error)[:300] or type(error).__name__


def count_in(values: Mapping[str, Any], name: str) -> int:
    """Return a count from a file, a whole number of at least 0.

    Raises:
        ValueError, TypeError, KeyError: if it is anything else, or missing.

    Example:
        >>> count_in({"failed": 3}, "failed")
        3
    """
    return whole_number(f"its {name}", values[name], least=0)


def check_format(path: Path, head: Mapping[str, Any], *, expected: str, newest: int) -> None:
    """Raise an error unless a file has the expected format, in a version that is not newer than ours.

    Args:
        path: the file.
        head: its `format` and `version`.
        expected: the expected format.
        newest: the newest version that can be read.

    Raises:
        ValueError: if it has another format.
        StorageError: if it has a newer version.

    Example:
        >>> check_format(Path("note.json"), {"format": "note", "version": 1}, expected="note", newest=1)
    """
    if head["format"] != expected:
        raise InvalidValueError(f"it has the format {head['format']!r}, not {expected!r}")
    version = whole_number("its format version", head["version"], least=1)
    if version > newest:
        raise StorageError(
            errno.EBADMSG,
            f"{str(path)!r} has format version {version}, and this taskelites reads up to {newest}; upgrade it",
        )


class ArrayFile:
    """An `.npz` file, of which only what is asked for is read, without pickle.

    Args:
        stream: the open file.

    Raises:
        ValueError, BadZipFile: if it is not such a file, or its arrays would take too much memory.

    Example:
        >>> import io
        >>> stream = io.BytesIO()
        >>> np.savez(stream, fitness=np.zeros(3), solutions=np.zeros((3, 2)))
        >>> layout = {"fitness": ("f", ("tasks",)), "solutions": ("f", ("tasks", "dim"))}
        >>> ArrayFile(stream).read(layout)["solutions"].shape
        (3, 2)
    """

    def __init__(self, stream: BinaryIO) -> None:
        size = stream.seek(0, os.SEEK_END)
        if not zipfile.is_zipfile(stream):
            raise InvalidValueError("it is not an .npz file")
        self._zip = zipfile.ZipFile(stream)
        self._stated: Any = None
        members = self._zip.infolist()
        self._members = {member.filename.removesuffix(".npy"): member for member in members}
        if len(self._members) < len(members) or not all(member.filename.endswith(".npy") for member in members):
            raise InvalidValueError("it has a member that is not an array, or two of one name")
        unpacked, most = sum(member.file_size for member in members), max(MOST_UNPACKED, size)
        if unpacked > most:
            raise InvalidValueError(
                f"its arrays would take {unpacked / 1e9:.3g} GB of memory, and at most {most / 1e9:.3g} GB are allowed "
                "for a file of this size"
            )

    def document(self, name: str = "about") -> dict[str, Any]:
        """Return the JSON object in a text member.

        Raises:
            ValueError: if it is malformed.
        """
        shape, dtype = self._header(name)
        if dtype.kind != "U" or shape != () or dtype.itemsize > 4 * MOST_TEXT:
            raise InvalidValueError(f"its member {name!r} must be a text of at most {MOST_TEXT:,} characters")
        document = parse_json(str(self._array(name)))
        self._stated = document.get("arrays")
        return document

    def read(self, layout: Layout, optional: Collection[str] = ()) -> dict[str, np.ndarray]:
        """Return the arrays of all members but documents. Shapes and dtypes are checked before memory is taken.

        Args:
            layout: the members that the file may have.
            optional: names of the layout that it need not have, beside those that end in `*`.

        Raises:
            ValueError: if a member is missing or unknown, or has the wrong dtype or shape.
        """
        missing = [name for name in layout if name not in {*self._members, *optional} and not name.endswith("*")]
        if missing:
            raise InvalidValueError(f"it has no {missing[0]!r}")
        lengths: dict[str, int] = {}
        names = [name for name in self._members if name != "about"]
        if self._stated is not None and sorted(names) != self._stated:
            raise InvalidValueError(f"it states other arrays than it has: {self._stated}")
        for name in names:
            self._check(name, layout, lengths)
        return {name: self._array(name) for name in names}

    def _check(self, name: str, layout: Layout, lengths: dict[str, int]) -> None:
        """Check the dtype and the shape of a member; `lengths` has the lengths of the axes so far."""
        entry = layout.get(name)
        for pattern in layout:
            if entry is None and pattern.endswith("*") and name.startswith(pattern[:-1]):
                entry = layout[pattern]
        if entry is None:
            raise InvalidValueError(f"its member {name!r} is unknown")
        kinds, axes = entry
        shape, dtype = self._header(name)
        if dtype.kind not in kinds or (axes is not None and len(shape) != len(axes)):
            dimensions = "" if axes is None else f" with {len(axes)} dimensions"
            raise InvalidValueError(
                f"its {name} must be an array of kind {kinds}{dimensions}, not {dtype} of shape {shape}"
            )
        for axis, length in zip(axes or (), shape, strict=axes is not None):
            if lengths.setdefault(axis, length) != length:
                raise InvalidValueError(
                    f"its arrays have different lengths: {name} has {length} {axis}, and others {lengths[axis]}"
                )

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and the dtype of a member, whose size must be the one that the zip directory states."""
        member = self._members[name]
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InvalidValueError(f"its member {name!r} is compressed in an unknown way")
        with self._zip.open(member) as file:
            return _read_header(file, member.file_size, f"its member {name!r}")

    def _array(self, name: str) -> np.ndarray:
        with self._zip.open(self._members[name]) as file:
            return _read_array(file)


def read_array(stream: BinaryIO) -> np.ndarray:
    """Return the array in an open `.npy` file.

    Raises:
        ValueError: if it is damaged, or has objects.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    _read_header(stream, size, "it")
    stream.seek(0)
    return _read_array(stream)


def _read_header(file: Any, size: int, what: str) -> tuple[tuple[int, ...], np.dtype]:
    """Return the shape and the dtype of an array of `size` bytes, header included."""
    with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 wrote
        if np.lib.format.read_magic(file) != (1, 0):
            raise InvalidValueError(f"{what} has an unknown version of the .npy format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.hasobject:
        raise InvalidValueError(f"{what} holds Python objects, which are never loaded (allow_pickle=False)")
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise InvalidValueError(f"{what} must be an array of numbers or text, not {dtype} of shape {shape}")
    if file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise InvalidValueError(f"{what} has another size than its header states")
    return shape, dtype


def _read_array(file: Any) -> np.ndarray:
    with warnings.catch_warnings(action="ignore"):
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        return array


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {}
    for name in ("taskelites", "jax", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # imported from source without being installed
            found[name] = "unknown"
    return found | {"python": platform.python_version()}
