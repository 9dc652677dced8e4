"""Where JAX keeps compiled programs between commands; tests/search/test_search.py tests those in memory."""

import jax
import pytest

from taskelites import compile_cache


class Unset:
    """JAX's configuration of a user who has set nothing."""

    jax_compilation_cache_dir = None
    jax_enable_compilation_cache = True

    def __init__(self):
        self.updated = {}

    def update(self, name, value):
        self.updated[name] = value


def test_a_folder_that_the_user_chose_stays():
    before = jax.config.jax_compilation_cache_dir
    assert before  # of the tests themselves
    compile_cache.keep_compiled_programs()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("enabled", [True, False])
def test_programs_are_kept_unless_jax_is_told_otherwise(enabled, tmp_path, monkeypatch):
    config = Unset()
    config.jax_enable_compilation_cache = enabled
    monkeypatch.setenv("TASKELITES_CACHE", str(tmp_path))
    monkeypatch.setattr(compile_cache, "jax", type("JAX", (), {"config": config}))
    compile_cache.keep_compiled_programs()
    assert ("jax_compilation_cache_dir" in config.updated) == enabled
