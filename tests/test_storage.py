"""Files are read with limits on their unpacked size, the shapes of arrays and the depth of JSON."""

import errno
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import taskelites as te
from taskelites import storage
from taskelites.storage import ArrayFile, appending, as_member, read_array, read_json, write_json, write_text

LAYOUT = {"fitness": ("f", ("tasks",)), "solutions": ("f", ("tasks", "dim")), "history_*": ("if", ("points",))}
ARRAYS = {"fitness": np.zeros(3), "solutions": np.zeros((3, 2))}


def npz(compressed=False, **arrays):
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream


def zipped(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return stream


def header(shape, dtype="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": dtype})
    return stream.getvalue()


@pytest.fixture
def unread(monkeypatch):
    """Fail if an array is read, which takes memory."""

    def fail(*_, **__):
        raise AssertionError("memory was taken")

    monkeypatch.setattr(np.lib.format, "read_array", fail)


@pytest.mark.usefixtures("unread")
def test_small_file_that_unpacks_to_large_array_is_rejected(tmp_path):
    size = 2**27 + 1  # values of 8 bytes: slightly more than 1 GiB
    path = tmp_path / "result.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("fitness.npy", "w", force_zip64=True) as member,
    ):
        member.write(header((size,)))
        for _ in range(size // 2**20):
            member.write(bytes(2**23))
        member.write(bytes(8 * (size % 2**20)))
    assert path.stat().st_size < 6_000_000
    with pytest.raises(te.StorageError, match=r"result\.npz' is damaged .* would take 1\.07 GB of memory, and at most"):
        te.load(path)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (ARRAYS | {"fitness": np.zeros(4)}, "different lengths: solutions has 3 tasks, and others 4"),
        (ARRAYS | {"fitness": np.zeros((3, 1))}, "fitness must be an array of kind f with 1 dimensions"),
        (ARRAYS | {"fitness": np.zeros(3, int)}, "fitness must be an array of kind f with 1 dimensions, not int64"),
        (ARRAYS | {"fitness": np.zeros(3, [("a", float)])}, "fitness must be an array of kind f"),
        (ARRAYS | {"fitness": np.array([{}] * 3)}, "holds Python objects, which are never loaded"),
        (ARRAYS | {"fitness": np.array(["", "", ""])[:0].astype("U0")}, "fitness"),
        (ARRAYS | {"x": np.zeros(3)}, "its member 'x' is unknown"),
        ({"fitness": np.zeros(3)}, "it has no 'solutions'"),
    ],
)
def test_array_headers_are_checked_before_arrays_are_read(arrays, reason):
    with pytest.raises(ValueError, match=reason):
        ArrayFile(npz(**arrays)).read(LAYOUT)


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize(
    "data",
    [
        header((10**12,)) + bytes(80),
        header((3, -1)) + bytes(24),
        header((3,)) + bytes(23),
        header((3,)) + bytes(25),
        header((10**30,), "<U0"),
        header((3,)).replace(b"\x01\x00", b"\x07\x00", 1) + bytes(24),
        header((3,)).replace(b"}", b" ") + bytes(24),
        header((3,)).replace(b"(", b"{") + bytes(24),
        b"hello",
        b"",
    ],
)
def test_invalid_array_header_is_rejected(data):
    with pytest.raises(storage.MALFORMED):
        ArrayFile(zipped(fitness=data, solutions=header((3, 2)) + bytes(48))).read(LAYOUT)
    with pytest.raises(storage.MALFORMED):
        read_array(io.BytesIO(data))


def test_valid_arrays_are_read():
    arrays = ARRAYS | {"history_a": np.arange(5), "history_b": np.ones(5)}
    for compressed in (True, False):
        found = ArrayFile(npz(compressed, **arrays)).read(LAYOUT)
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    assert ArrayFile(npz(fitness=np.zeros(0))).read(LAYOUT, optional=["solutions"])["fitness"].shape == (0,)


def test_duplicate_member_names_are_rejected():
    stream = npz(**ARRAYS)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(stream, "a") as file:
        file.writestr("fitness.npy", header((3,)) + bytes(24))
    with pytest.raises(ValueError, match="two of one name"):
        ArrayFile(stream)


def test_missing_member_is_detected(tmp_path):
    path = tmp_path / "arrays.npz"
    storage.write_arrays(path, {"fitness": np.zeros(3), "solutions": np.zeros((3, 2))}, {"format": "note"})
    with np.load(path) as file:
        members = {name: file[name] for name in file.files}
    for lost in (None, "solutions"):
        file = ArrayFile(npz(**{name: array for name, array in members.items() if name != lost}))
        assert file.document()["format"] == "note"
        if lost is None:
            assert file.read(LAYOUT).keys() == {"fitness", "solutions"}
            continue
        with pytest.raises(ValueError, match="it states other arrays than it has"):
            file.read(LAYOUT, optional=["solutions"])


def test_arrays_above_size_limit_can_be_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MOST_UNPACKED", 10_000)
    storage.write_arrays(tmp_path / "large.npz", {"fitness": np.zeros(5000)})
    assert (tmp_path / "large.npz").stat().st_size > 40_000
    with (tmp_path / "large.npz").open("rb") as file:
        assert ArrayFile(file).read({"fitness": ("f", ("tasks",))})["fitness"].shape == (5000,)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 200 + "1" + "}" * 200, "3", "[]", "{", "", '{"a": 1' + "0" * 5000 + "}"]
)
def test_invalid_json_document_is_rejected(text, tmp_path):
    (tmp_path / "note.json").write_text(text)
    with pytest.raises(te.StorageError, match=r"note\.json' is damaged or not a note \(.*\); write it again"):
        read_json(tmp_path / "note.json", expected="note", newest=2, what="not a note", remedy="write it again")
    with pytest.raises((ValueError, RecursionError)):
        ArrayFile(npz(about=np.array(text))).document()


@pytest.mark.parametrize("version", ["1", None, True, -1, 1.5, float("nan"), float("inf"), [], 10**400])
def test_invalid_format_version_is_rejected(version, tmp_path):
    write_json(tmp_path / "note.json", {"format": "note", "version": version})
    with pytest.raises(te.StorageError, match=r"note\.json"):
        read_json(tmp_path / "note.json", expected="note", newest=2, what="not a note", remedy="write it again")


def test_too_long_json_is_neither_written_nor_read(tmp_path, monkeypatch):
    write_json(tmp_path / "note.json", {"format": "note", "version": 2, "text": "x" * 500})
    monkeypatch.setattr(storage, "MOST_TEXT", 400)
    with pytest.raises(ValueError, match="characters of JSON, and at most 400 can be read"):
        write_json(tmp_path / "other.json", {"text": "x" * 500})
    with pytest.raises(ValueError, match="characters of JSON, and at most 400 can be read"):
        as_member({"text": "x" * 500})
    with pytest.raises(te.StorageError, match="and at most 400 can be read"):
        read_json(tmp_path / "note.json", expected="note", newest=2, what="not a note", remedy="write it again")


def test_edited_document_is_rejected_until_checksum_is_null(tmp_path):
    path = tmp_path / "note.json"
    write_json(path, {"format": "note", "version": 2, "numbers": [0.1, float("inf")], "text": "é\udc80"})
    options = {"expected": "note", "newest": 2, "what": "not a note", "remedy": "write it again"}
    document = read_json(path, **options)
    assert document == {"format": "note", "version": 2, "numbers": [0.1, float("inf")], "text": "é\udc80"}
    path.write_text(json.dumps(json.loads(path.read_text())))  # only the layout changes
    assert read_json(path, **options) == document
    edited = json.loads(path.read_text()) | {"numbers": [0.2]}
    path.write_text(json.dumps(edited))
    with pytest.raises(te.StorageError, match=r'was changed after it was written.* setting "checksum" to null'):
        read_json(path, **options)
    path.write_text(json.dumps(edited | {"checksum": None}))
    assert read_json(path, **options)["numbers"] == [0.2]
    del edited["checksum"]
    path.write_text(json.dumps(edited))
    with pytest.raises(te.StorageError, match="it has no 'checksum'"):
        read_json(path, **options)


def test_writing_does_not_follow_symlinks(tmp_path):
    precious, link = tmp_path / "precious", tmp_path / "link.txt"
    precious.write_text("x")
    link.symlink_to(precious)
    with pytest.raises(te.StorageError, match=r"link\.txt' is a symbolic link") as caught:
        write_text(link, "y")
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(te.StorageError, match=r"link\.txt' is a symbolic link"), appending(link) as file:
        file.write("y")
    assert precious.read_text() == "x"
    assert sorted(os.listdir(tmp_path)) == ["link.txt", "precious"]


def test_symlink_created_after_check_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "link.txt").symlink_to(tmp_path / "precious")
    monkeypatch.setattr(Path, "is_symlink", lambda self: False)
    with pytest.raises(te.StorageError, match=r"could not write '.*link\.txt'"), appending(tmp_path / "link.txt"):
        pass
    assert not (tmp_path / "precious").exists()


def test_lone_surrogates_are_written_as_escapes(tmp_path):
    write_text(tmp_path / "note.txt", "a\udc80b")
    assert (tmp_path / "note.txt").read_text() == "a\\udc80b"
    with appending(tmp_path / "note.txt") as file:
        file.write("\ud800")
    assert (tmp_path / "note.txt").read_text() == "a\\udc80b\\ud800"
    assert storage.file_name("\ud800" * 100) == "unnamed"
    assert len(storage.file_name("a\ud800" * 50)) == 60


# Exceptions: the cache, which only this user writes; JSON from pandas; a file of which only member names are read.
OTHERS = {
    "np.load(": {"disk_cache.py"},
    "json.load": {"experiments/comparison/comparison.py"},
    "ZipFile(": {"results/export.py"},
}


@pytest.mark.parametrize("call", OTHERS)
def test_only_storage_module_reads_arrays_and_json(call):
    root = Path(storage.__file__).parent
    code = {path: [line for line in path.read_text().splitlines() if ">>>" not in line] for path in root.rglob("*.py")}
    found = {str(path.relative_to(root)) for path, lines in code.items() if any(call in line for line in lines)}
    assert found - {"storage.py"} == OTHERS[call]
