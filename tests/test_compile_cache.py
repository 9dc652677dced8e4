"""The cache of compiled programs on disk. tests/search/test_search.py tests the cache in memory."""

import jax
import pytest

from taskelites import compile_cache


class Unset:
    """JAX configuration without settings of the user."""

    jax_compilation_cache_dir = None
    jax_enable_compilation_cache = True

    def __init__(self):
        self.updated = {}

    def update(self, name, value):
        self.updated[name] = value


def test_cache_folder_chosen_by_user_is_kept():
    before = jax.config.jax_compilation_cache_dir
    assert before  # set for the tests themselves
    compile_cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("enabled", [True, False])
def test_programs_are_cached_unless_disabled_in_jax(enabled, tmp_path, monkeypatch):
    config = Unset()
    config.jax_enable_compilation_cache = enabled
    monkeypatch.setenv("TASKELITES_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_cache, "jax", type("JAX", (), {"config": config}))
    compile_cache.keep_compiled_programs()
    assert ("jax_compilation_cache_dir" in config.updated) == enabled
