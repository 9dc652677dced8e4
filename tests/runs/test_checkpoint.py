import errno
import hashlib
import io
import json
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import taskelites as te
from taskelites.runs.checkpoint import Checkpoints


def arrays_of(position):
    return {"state.archive.fitness": np.full(50, float(position)), "state.key": np.array([0, position], np.uint32)}


@pytest.fixture
def warned():
    return []


@pytest.fixture
def checkpoints(tmp_path, warned):
    """Valid checkpoints at positions 100 and 200."""
    made = Checkpoints(tmp_path / "checkpoints", warned.append)
    for position in (100, 200):
        made.save(position, arrays_of(position), {"seed": 7})
    return made


def path_of(checkpoints, position):
    (path,) = checkpoints._folder.glob(f"checkpoint-{position:012d}-*.npz")
    return path


def place(checkpoints, position, data):
    """Write the bytes to a file whose name has their checksum."""
    checkpoints._folder.mkdir(exist_ok=True)
    path = checkpoints._folder / f"checkpoint-{position:012d}-{hashlib.sha256(data).hexdigest()[:16]}.npz"
    path.write_bytes(data)
    return path


def npz(**members):
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    return buffer.getvalue()


def npz_with_head(arrays=(), **changes):
    head = {"format": "taskelites-checkpoint", "version": 1, "position": 200, "about": {}} | changes
    return npz(about=np.array(json.dumps(head)), **dict(arrays))


def assert_good(checkpoint, position):
    assert checkpoint.position == position
    assert checkpoint.about == {"seed": 7}
    expected = arrays_of(position)
    assert list(checkpoint.arrays) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(checkpoint.arrays[name], array, strict=True)


def test_saved_arrays_and_metadata_load_unchanged(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "state.archive.solutions": rng.normal(size=(5, 3)),
        "float32": rng.normal(size=4).astype(np.float32),
        "int32": np.array([-1, 2**31 - 1], np.int32),
        "uint32": np.array([0, 2**32 - 1], np.uint32),
        "bool": np.array([True, False]),
        "zero-d": np.array(2.5),
        "empty": np.empty((0, 36), np.float32),
        "odd numbers": np.array([np.nan, -np.inf, -0.0, 5e-324]),
        "turned": np.asfortranarray(rng.normal(size=(3, 2))),
        "every other": np.arange(10)[::2],
        "big-endian": np.arange(3, dtype=">i8"),
        "text": np.array(["añ", "b"]),
    }
    about = {"text": "é\0\n", "number": 0.1, "nan": float("inf"), "list": [1, [2]], "none": None, "format": "mine"}
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(12, arrays, about)
    loaded = checkpoints.load()
    assert loaded.position == 12
    assert loaded.about == about
    assert list(loaded.arrays) == list(arrays)
    for name, array in arrays.items():
        assert loaded.arrays[name].tobytes() == array.tobytes()
        np.testing.assert_array_equal(loaded.arrays[name], array, strict=True)
        assert loaded.arrays[name].flags.writeable
    with np.load(path, allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["arrays/bool"], arrays["bool"])


def test_any_array_name_can_be_saved(tmp_path):
    names = [
        "about",
        "file",
        "args",
        "arr_0",
        "x",
        "x.npy",
        "x.npy.npy",
        "a/b",
        "/a",
        "../a",
        "a\\b",
        "a\0b",
        "é %41",
        "",
    ]
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(0, {name: np.array(number) for number, name in enumerate(names)}, {})
    assert {name: int(array) for name, array in checkpoints.load().arrays.items()} == {
        name: number for number, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("position", "arrays", "about", "error", "message"),
    [
        (1, {"x": np.array([{}])}, {}, TypeError, r"arrays\['x'\] must contain numbers, booleans or text, not object"),
        (
            1,
            {"x": np.zeros(2, ml_dtypes.bfloat16)},
            {},
            TypeError,
            "must contain numbers, booleans or text, not bfloat16",
        ),
        (1, {}, {"x": np.zeros(2)}, TypeError, "about must contain only values that JSON can represent: .*ndarray"),
        (-1, {}, {}, ValueError, "position must be a whole number of at least 0"),
        (10**12, {}, {}, ValueError, "position must be .* at most 999,999,999,999"),
    ],
)
def test_unsupported_input_is_rejected_before_writing(tmp_path, position, arrays, about, error, message):
    checkpoints = Checkpoints(tmp_path / "new")
    with pytest.raises(error, match=message):
        checkpoints.save(position, arrays, about)
    assert not (tmp_path / "new").exists()


def test_missing_folder_has_no_checkpoints_until_first_save(tmp_path):
    checkpoints = Checkpoints(tmp_path / "a" / "b")
    assert checkpoints.positions() == []
    assert checkpoints.load() is None
    assert not (tmp_path / "a").exists()
    checkpoints.save(1, {}, {})
    assert checkpoints.positions() == [1]


def test_save_keeps_last_two_checkpoints_and_foreign_files(checkpoints, warned):
    left_over = checkpoints._folder / ".checkpoint-000000000250-0123456789abcdef.npz.0a1b2c3d.part"
    foreign = [checkpoints._folder / name for name in ("note.txt", "checkpoint-1.npz", ".mine.part")]
    for path in (left_over, *foreign):
        path.write_text("x")
    for position in (300, 400):
        path = checkpoints.save(position, arrays_of(position), {"seed": 7})
        assert checkpoints.load().position == position
    assert checkpoints.positions() == [400, 300]
    assert path.name == f"checkpoint-000000000400-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.npz"
    assert not left_over.exists()
    assert all(path.exists() for path in foreign)
    assert_good(checkpoints.load(), 400)
    assert_good(checkpoints.load(300), 300)
    assert checkpoints.load(100) is None
    assert warned == []


def test_save_at_lower_position_removes_later_checkpoints(checkpoints):
    checkpoints.save(150, arrays_of(150), {"seed": 7})
    assert checkpoints.positions() == [150, 100]
    checkpoints.save(150, arrays_of(150), {"seed": 8})
    assert checkpoints.positions() == [150, 100]
    assert len(os.listdir(checkpoints._folder)) == 2
    assert checkpoints.load().about == {"seed": 8}
    checkpoints.save(50, arrays_of(50), {"seed": 7})
    assert checkpoints.positions() == [50]


def test_newer_file_wins_when_two_share_a_position(checkpoints):
    # A crash between writing the new file and removing the old one leaves both.
    old, stay = path_of(checkpoints, 200), checkpoints._folder / "stay"
    os.link(old, stay)
    new = checkpoints.save(200, arrays_of(200), {"seed": 8})
    os.replace(stay, old)
    for seconds, seed in ((1000, 8), (3000, 7)):
        os.utime(new, (2000, 2000))
        os.utime(old, (seconds, seconds))
        assert checkpoints.positions() == [200, 100]
        assert checkpoints.load().about == {"seed": seed}


def assert_set_aside(checkpoints, path, warned, reason):
    """Check that the newest checkpoint is renamed, with one warning, and that the one before it is loaded."""
    warned.clear()
    assert_good(checkpoints.load(), 100)
    (message,) = warned
    aside = path.with_name(f"{path.name}.damaged")
    assert message.startswith(f"the checkpoint {str(path)!r} is damaged ({reason}")
    assert message.endswith(f", and is now {aside.name!r}; the one at position 100 is used instead")
    assert checkpoints.positions() == [100]
    assert not path.exists()
    assert_good(checkpoints.load(), 100)
    assert len(warned) == 1
    aside.unlink()


def test_file_of_wrong_length_is_detected_as_damaged(checkpoints, warned):
    path = path_of(checkpoints, 200)
    whole = path.read_bytes()
    for length in (*range(1, 10), *np.linspace(10, len(whole) - 1, 15, dtype=int)):
        path.write_bytes(whole[:length])
        assert_set_aside(checkpoints, path, warned, "its bytes do not match the checksum in its name")
    path.write_bytes(whole + b"\0")
    assert_set_aside(checkpoints, path, warned, "its bytes do not match")
    path.write_bytes(b"")
    assert_set_aside(checkpoints, path, warned, "it is empty")


def test_flipped_bit_is_detected_as_damage(checkpoints, warned):
    path = path_of(checkpoints, 200)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for index in rng.integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[index] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        assert_set_aside(checkpoints, path, warned, "its bytes do not match")


def npy():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hello\n", "it is not an .npz file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(200), "it is not an .npz file"),
        (npy(), "it is not an .npz file"),
        (b"PK\x03\x04" + bytes(50), "it is not an .npz file"),
        (npz(fitness=np.zeros(3)), "it has no 'about'"),
        (npz(about=np.zeros(3)), ""),
        (npz(about=np.array("[1]")), ""),
        (npz(about=np.array("[" * 100_000)), ""),
        (
            npz_with_head(format="taskelites-result"),
            "it has the format 'taskelites-result', not 'taskelites-checkpoint'",
        ),
        (npz_with_head(version="2"), "its format version must be a whole number"),
        (npz_with_head(version=0), "its format version must be a whole number of at least 1"),
        (npz_with_head(position=250), "its position is 250, but 200 in its name"),
        (npz_with_head(about=[]), "its about is not a JSON object"),
        (npz_with_head({"arrays/x": np.zeros(9)})[:-30] + bytes(30), ""),
    ],
)
def test_invalid_file_with_matching_checksum_is_detected(checkpoints, warned, data, reason):
    path_of(checkpoints, 200).unlink()
    path = place(checkpoints, 200, data)
    assert_good(checkpoints.load(), 100)
    (message,) = warned
    assert "it can't be read as a checkpoint: " in message
    assert reason in message
    assert path.with_name(f"{path.name}.damaged").read_bytes() == data


def test_valid_header_is_read(checkpoints, warned):
    # Each invalid header above differs from this one in one field.
    path_of(checkpoints, 200).unlink()
    place(checkpoints, 200, npz_with_head())
    assert checkpoints.load().position == 200
    assert warned == []


class Payload:
    ran = False

    def __reduce__(self):
        return (setattr, (Payload, "ran", True))


@pytest.mark.parametrize("member", ["about", "arrays/x"])
def test_pickled_code_in_checkpoint_is_never_executed(checkpoints, warned, member):
    payload = np.array([Payload()], dtype=object)
    data = npz(about=payload) if member == "about" else npz_with_head({member: payload})
    with np.load(io.BytesIO(data), allow_pickle=True) as dangerous:
        _ = dangerous[member]
    assert Payload.ran, "the payload would not be noticed"
    Payload.ran = False
    path_of(checkpoints, 200).unlink()
    place(checkpoints, 200, data)
    assert_good(checkpoints.load(), 100)
    assert "allow_pickle=False" in warned[0]
    assert not Payload.ran


def test_load_returns_none_when_all_checkpoints_are_damaged(checkpoints, warned):
    for position in (100, 200):
        path_of(checkpoints, position).write_bytes(b"x")
    assert checkpoints.load() is None
    assert len(warned) == 2
    assert all(message.endswith("; there is no good one before it") for message in warned)
    assert checkpoints.positions() == []
    checkpoints.save(50, arrays_of(50), {"seed": 7})
    assert_good(checkpoints.load(), 50)
    assert len(list(checkpoints._folder.glob("*.damaged"))) == 2


def test_load_of_given_position_has_no_fallback(checkpoints, warned):
    path_of(checkpoints, 200).write_bytes(b"x")
    assert checkpoints.load(200) is None
    assert warned[0].endswith("; there is no good one at its position")
    assert_good(checkpoints.load(100), 100)


def test_damaged_checkpoint_is_not_counted_among_last_two(checkpoints):
    path_of(checkpoints, 200).write_bytes(b"x")
    assert_good(checkpoints.load(), 100)
    checkpoints.save(200, arrays_of(200), {"seed": 7})
    assert checkpoints.positions() == [200, 100]


def test_damage_raises_warning_without_callback(checkpoints):
    path = path_of(checkpoints, 200)
    path.write_bytes(b"x")
    with pytest.warns(UserWarning, match="is damaged") as caught:
        Checkpoints(path.parent).load()
    assert caught[0].filename == __file__


def test_load_falls_back_in_read_only_folder(checkpoints, warned, monkeypatch):
    path_of(checkpoints, 200).write_bytes(b"x")

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refuse)
    assert_good(checkpoints.load(), 100)
    assert "in its name); the one at position 100 is used instead" in warned[0]


def test_newer_format_version_raises_and_is_not_set_aside(checkpoints, warned):
    path = place(checkpoints, 300, npz_with_head(version=2, position=300, about="of another kind"))
    with pytest.raises(te.StorageError, match=r"has format version 2, and this taskelites reads up to 1; upgrade it"):
        checkpoints.load()
    assert path.exists()
    assert warned == []
    assert_good(checkpoints.load(200), 200)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_read_error_is_raised_and_not_treated_as_damage(checkpoints, warned, monkeypatch, code):
    def fail(self):
        raise OSError(code, os.strerror(code))

    path = path_of(checkpoints, 200)
    with monkeypatch.context() as patch:
        patch.setattr(type(path), "read_bytes", fail)
        with pytest.raises(
            OSError, match=f"could not read the checkpoint '.*000200-.*': {os.strerror(code)}"
        ) as caught:
            checkpoints.load()
    assert caught.value.errno == code
    assert warned == []
    assert_good(checkpoints.load(), 200)


def test_error_when_checkpoint_folder_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"could not read the checkpoint folder '.*file': Not a directory"):
        Checkpoints(tmp_path / "file").load()
    with pytest.raises(OSError, match=r"could not make the checkpoint folder '.*file': File exists"):
        Checkpoints(tmp_path / "file").save(1, {}, {})


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk_keeps_saved_checkpoints(checkpoints, warned, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path.name: path.read_bytes() for path in checkpoints._folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match=r"could not write '.*checkpoint-.*300-.*': No space left on device"):
            checkpoints.save(300, arrays_of(300), {"seed": 7})
    assert {path.name: path.read_bytes() for path in checkpoints._folder.iterdir()} == before
    assert_good(checkpoints.load(), 200)
    assert warned == []
    checkpoints.save(300, arrays_of(300), {"seed": 7})
    assert checkpoints.positions() == [300, 200]


def test_old_checkpoints_are_removed_after_new_one_is_synced(checkpoints, monkeypatch):
    events = []
    unlink, fsync = type(checkpoints._folder).unlink, os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (events.append("sync"), fsync(descriptor)))
    monkeypatch.setattr(
        type(checkpoints._folder),
        "unlink",
        lambda self, missing_ok=False: (
            events.append("unlink") if self.suffix == ".npz" else None,
            unlink(self, missing_ok),
        ),
    )
    checkpoints.save(300, {}, {})
    assert events == ["sync", "sync", "unlink"]
    events.clear()
    checkpoints.save(250, {}, {})  # removing the later position must survive a power cut, too
    assert events == ["sync", "sync", "unlink", "sync"]


SAVE_UNTIL_KILLED = """
import os, random, signal, sys, time, pathlib
import numpy as np
import taskelites as te
from taskelites.runs.checkpoint import Checkpoints

def stop(message):
    raise SystemExit(message)

folder = pathlib.Path(sys.argv[1])
chance = random.Random(0)
checkpoints = Checkpoints(folder, stop)
checkpoints.save(0, {"x": np.zeros((1000, 36))}, {"next": 1})
last, left_over = 0, 0
for _ in range(40):
    before = len(checkpoints.positions())
    child = os.fork()
    if not child:
        position = last
        while True:
            position += 1
            checkpoints.save(position, {"x": np.full((1000, 36), float(position))}, {"next": position + 1})
    time.sleep(chance.uniform(0.001, 0.05))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    left_over += any(name.endswith(".part") for name in os.listdir(folder))
    found = checkpoints.load()
    assert found.position >= last, (found.position, last)
    assert (found.arrays["x"] == found.position).all() and found.about == {"next": found.position + 1}
    # Two are kept; a kill between a write and the removal of the old ones leaves one more, several in a row as many.
    assert 1 <= len(checkpoints.positions()) <= max(before, 2) + 1, os.listdir(folder)
    last = found.position
checkpoints.save(last + 1, {}, {})
assert len(os.listdir(folder)) == 2, os.listdir(folder)
print(last, left_over)
"""


def test_kill_during_save_leaves_valid_checkpoint(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SAVE_UNTIL_KILLED, str(tmp_path)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    saved, left_over = map(int, done.stdout.split())
    assert saved >= 1
    assert left_over >= 1, "no kill fell into a write"
