"""Records as JAX pytrees."""

import dataclasses

import jax

from taskelites.core.pytree import record, static


@record
class One:
    value: float
    size: int = static(default=1)


@record
class Another:
    value: float
    size: int = static(default=1)


@record
class Derived(One):
    pass


def test_records_of_different_classes_have_different_tree_structures():
    """JAX looks up compiled programs by tree structure: with equal structures, one would run the other's program."""
    structures = [jax.tree.structure(kind(value=1.0)) for kind in (One, Another, Derived)]
    assert structures[0] == jax.tree.structure(One(value=2.0))
    assert structures[0] != jax.tree.structure(One(value=1.0, size=2))
    assert structures[0] != structures[1]
    assert structures[0] != structures[2]


def test_jit_and_replace_keep_the_record_class():
    derived = jax.jit(lambda each: each)(Derived(value=1.0, size=3))
    assert type(derived) is Derived
    assert derived.size == 3
    assert repr(dataclasses.replace(derived, value=2.0)) == "Derived(value=2.0, size=3)"
