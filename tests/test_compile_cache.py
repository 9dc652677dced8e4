"""Programs that JAX compiled, on disk between commands; test_search has those in memory."""

import os
import subprocess
import sys

import jax
import pytest

from taskelites import compile_cache


def test_the_oldest_programs_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_cache, "_MOST_BYTES", 25)
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    compile_cache._shrink(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["middle", "new"]


def test_a_folder_that_the_user_chose_stays(monkeypatch):
    before = jax.config.jax_compilation_cache_dir
    assert before  # of the tests themselves
    compile_cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == before


def test_without_a_home_nothing_is_kept(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    updated = []
    monkeypatch.setattr(compile_cache.Path, "home", nowhere)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compile_cache, "jax", type("JAX", (), {"config": Unset(updated)}))
    compile_cache.keep_compiled_programs()
    assert not updated


class Unset:
    """JAX's configuration of a user who has set nothing."""

    jax_compilation_cache_dir = None
    jax_enable_compilation_cache = True

    def __init__(self, updated):
        self.update = lambda *_: updated.append(1)


@pytest.mark.thorough
@pytest.mark.parametrize("enabled", ["1", "0"])
def test_a_command_keeps_its_programs(enabled, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAX_ENABLE_COMPILATION_CACHE": enabled}
    command = ["run", "arm", "--tasks", "200", "--evaluations", "640", "--quiet", "--no-report", "--out", "run"]
    subprocess.run([sys.executable, "-m", "taskelites", *command], cwd=tmp_path, env=environment, check=True)
    programs = list((tmp_path / "cache").glob("taskelites/compiled-*/*-cache"))
    assert bool(programs) == (enabled == "1")
    assert any("advance" in path.name for path in programs) == (enabled == "1")
