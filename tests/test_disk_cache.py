"""Commands cache arrays and compiled programs in the user's cache folder."""

import os
import subprocess
import sys

import numpy as np
import pytest

from taskelites import disk_cache
from taskelites.disk_cache import cache_folder, cached_array, keep_arrays

calls = []


def doubled(values, factor):
    calls.append(factor)
    return values * factor


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Cache every array, even if its computation is fast."""
    monkeypatch.setenv("TASKELITES_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_LEAST_SECONDS", -1)
    calls.clear()
    with keep_arrays():
        yield tmp_path


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_array_is_computed_once_per_input(kept):
    values = np.arange(3.0)
    assert cached_array(doubled, values, 2).tolist() == cached_array(doubled, values, 2).tolist() == [0.0, 2.0, 4.0]
    assert cached_array(doubled, values + 1, 2).tolist() == [2.0, 4.0, 6.0]
    assert cached_array(doubled, values.astype(np.float32), 2).dtype == np.float32
    assert cached_array(doubled, values, 3).tolist() == [0.0, 3.0, 6.0]
    assert calls == [2, 2, 2, 3]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99])
def test_damaged_file_is_not_used(kept, damage):
    cached_array(doubled, np.arange(3.0), 2)
    (path,) = files(kept)
    path.write_bytes(damage(path.read_bytes()))
    assert cached_array(doubled, np.arange(3.0), 2).tolist() == [0.0, 2.0, 4.0]
    assert calls == [2, 2]


def test_flipped_bit_is_detected(kept):
    values = np.random.default_rng(0).random(100)
    expected = cached_array(doubled, values, 2)
    (path,) = files(kept)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert np.array_equal(cached_array(doubled, values, 2), expected)
    assert calls == [2, 2]


def test_nothing_is_cached_outside_of_commands(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKELITES_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_LEAST_SECONDS", -1)
    cached_array(doubled, np.arange(3.0), 2)
    assert files(tmp_path) == []


def test_cache_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("TASKELITES_CACHE", "off")
    assert cache_folder("arrays") is None


def test_no_cache_folder_without_home_folder(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(disk_cache.Path, "home", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("TASKELITES_CACHE", raising=False)
    assert cache_folder("arrays") is None


def test_oldest_files_are_removed_when_cache_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKELITES_CACHE", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_MOST_BYTES", 25)
    folder = cache_folder("arrays")
    for age, name in enumerate(("new", "middle", "old")):
        (folder / name).write_bytes(b"0123456789")
        os.utime(folder / name, (1000 - age, 1000 - age))
    cache_folder("arrays")
    assert sorted(path.name for path in folder.iterdir()) == ["middle", "new"]


@pytest.mark.thorough
@pytest.mark.parametrize("chosen", ["here", "off"])
def test_command_caches_programs_and_arrays_unless_switched_off(chosen, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment["TASKELITES_CACHE"] = "off" if chosen == "off" else str(tmp_path / chosen)
    for out in ("first", "second"):
        command = ["run", "arm", "--tasks", "1500", "--evaluations", "640", "--quiet", "--no-report", "--out", out]
        subprocess.run([sys.executable, "-m", "taskelites", *command], cwd=tmp_path, env=environment, check=True)
    assert any("advance" in path.name for path in tmp_path.glob("here/compiled-*/*-cache")) == (chosen == "here")
    assert any("optimum" in path.name for path in tmp_path.glob("here/arrays-*/*.npz")) == (chosen == "here")
    results = [np.load(tmp_path / out / "result.npz") for out in ("first", "second")]
    assert np.array_equal(*(result["fitness"] for result in results), equal_nan=True)
