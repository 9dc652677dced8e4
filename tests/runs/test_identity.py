"""Test what the hash of a fitness function depends on."""

import collections
import copy
import enum
import functools
import logging
import pathlib
import random
import subprocess
import sys
import threading
import types
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taskelites as te
from taskelites.runs.identity import code_of, same_code

TABLE = np.arange(6.0).reshape(2, 3)


def distance(solution, task, scale=1.0, *, power=2):
    return -scale * abs(solution - task) ** power


def holding(value):
    def fitness(solution, task):
        return value

    return fitness


def assert_differ(*things):
    hashes = [code_of(thing) for thing in things]
    assert len(set(hashes)) == len(hashes), hashes


def assert_same(*things):
    assert len({code_of(thing) for thing in things}) == 1


@dataclass
class Gains:
    low: float
    table: object = None


@dataclass(slots=True)
class Slots:
    low: float


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Simulator:
    def __init__(self, gain, table=None):
        self.gain = gain
        self.table = table

    def __call__(self, solution, task):
        return self.gain * solution

    def walk(self, solution, task):
        return self.gain

    def run(self, solution, task):
        return -self.gain

    @functools.cached_property
    def slow(self):
        return object()


# Functions.


def test_hash_depends_on_source():
    def written(body):
        names = {}
        exec(f"def fitness(solution, task):\n    return {body}\n", names)
        return names["fitness"]

    def one(x, t):
        return x

    def other(x, t):
        return t

    assert_differ(one, other, written("solution"), written("task"), written("solution, {1, 2, 3}"))
    assert_same(written("solution, {'a', 'b'}"), written("solution, {'a', 'b'}"))
    assert code_of(one).startswith("source-")
    assert code_of(written("solution")).startswith(f"{sys.version_info.major}.{sys.version_info.minor}-")


def test_lambdas_on_one_line_have_different_hashes():
    one, other = (lambda x, t: x), (lambda x, t: t)
    assert_differ(one, other, lambda x, t: lambda: x, lambda x, t: lambda: t)
    assert_same(one, lambda x, t: x)


def test_hash_ignores_statement_around_lambda():
    def passed(fitness, evaluations):
        return fitness

    assert_same(
        passed(lambda x, t: x - t, evaluations=100),
        passed(lambda x, t: x - t, evaluations=200),
    )


def test_source_is_not_used_if_file_was_edited_after_import(tmp_path):
    path = tmp_path / "edited.py"
    text = "def other():\n    pass\n\n\ndef fitness(x, t):\n    return x\n"
    path.write_text(text)
    names = {}
    exec(compile(text, path, "exec"), names)
    assert code_of(names["fitness"]).startswith("source-")
    path.write_text("import os\n\n\n" + text)
    assert not code_of(names["fitness"]).startswith("source-")


def test_hash_depends_on_default_arguments():
    def made(scale, power):
        def fitness(x, t, scale=scale, *, power=power):
            return x

        return fitness

    assert_same(made(1.0, TABLE), made(1.0, TABLE.copy()))
    assert_differ(made(1.0, TABLE), made(2.0, TABLE), made(1.0, TABLE + 1))


def test_hash_depends_on_decorators_and_wrapped_function():
    def scaled(by):
        def decorated(fitness):
            @functools.wraps(fitness)
            def wrapper(*arguments):
                return by * fitness(*arguments)

            return wrapper

        return decorated

    assert_same(scaled(2)(distance), scaled(2)(distance))
    assert_differ(scaled(2)(distance), scaled(3)(distance), scaled(2)(holding(1)), distance)
    cached = functools.lru_cache(holding(1)), functools.lru_cache(holding(2))
    assert_differ(*cached, jax.jit(holding(1)), jax.jit(holding(2)), jax.vmap(holding(1)), jax.vmap(holding(2)))


def test_hash_depends_on_arguments_of_partial():
    made = functools.partial
    assert_same(made(distance, scale=2, power=TABLE), made(distance, power=TABLE.copy(), scale=2))
    assert_differ(
        made(distance, scale=2),
        made(distance, scale=3),
        made(distance, scale=TABLE),
        made(distance, scale=TABLE + 1),
        made(distance, TABLE),
        made(made(distance, scale=2), power=3),
        made(holding(1), scale=2),
        distance,
    )


def test_recursive_function_can_be_hashed():
    def made(number):
        def fitness(depth):
            return fitness(depth - number)

        return fitness

    assert_same(made(1), made(1))
    assert_differ(made(1), made(2))


def test_function_with_empty_closure_cell_can_be_hashed():
    def fitness():
        return late

    assert code_of(fitness) is not None
    late = 1
    assert late


# Values.


@pytest.mark.parametrize(
    "values",
    [
        (1, 2, 1.0, True, "1", None, b"1", 1j),
        (TABLE, TABLE + 1, TABLE.astype(np.float32), TABLE.T, TABLE.reshape(3, 2), TABLE.tolist()),
        (np.float64(1), np.float64(2), np.float32(1)),
        (np.array(["a", "b"]), np.array(["a", "c"]), np.array([]), np.array(["", ""], dtype="U0")),
        (np.array([1, "a", TABLE], dtype=object), np.array([1, "a", TABLE + 1], dtype=object)),
        (np.array(["2020"], "M8[Y]"), np.array(["2021"], "M8[Y]")),
        (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0]), np.array([1, 2])),
        (jnp.arange(3), jnp.arange(4), jnp.float32(2)),
        (jax.random.key(0), jax.random.key(1)),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]}), pd.Series([1, 2]), pd.Series([1.5, 2])),
        ([1, TABLE], [1, TABLE + 1], (1, TABLE), [1, [2, 3]], [1, [2], 3], collections.deque([1, TABLE])),
        (["a", "b"], ["ab"], ["a", "b", ""]),
        ({"a": TABLE}, {"a": TABLE + 1}, {"b": TABLE}, types.MappingProxyType({"a": TABLE})),
        ({1, 2}, {1, 3}, frozenset([1, 2])),
        (Gains(1, TABLE), Gains(1, TABLE + 1), Gains(2, TABLE), Slots(1), Slots(2)),
        (Simulator(1, TABLE), Simulator(1, TABLE + 1), Simulator(2, TABLE)),
        (types.SimpleNamespace(a=TABLE), types.SimpleNamespace(a=TABLE + 1)),
        (holding(TABLE), holding(TABLE + 1), holding(holding(TABLE)), distance),
        (functools.partial(distance, TABLE), functools.partial(distance, TABLE + 1)),
        (pathlib.Path("a"), pathlib.Path("b")),
        (np.dtype("f4"), np.dtype("f8"), np.sin, np.cos, max, min),
        (Colour.RED, Colour.BLUE, Colour, Gains, int),
        (np.linalg, np.random),
        (range(3), range(4), slice(3), ...),
        (np.poly1d([1, 2]), np.poly1d([1, 3])),
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_hash_depends_on_values_in_closure(values):
    assert_differ(*map(holding, values))
    for value in values:
        try:
            other = copy.deepcopy(value)
        except TypeError:
            continue
        assert_same(holding(value), holding(other))


def test_hash_ignores_order_of_dicts_and_sets():
    assert_same(holding({"a": 1, "b": [2]}), holding({"b": [2], "a": 1}))
    names = [f"name {number}" for number in range(20)]
    assert_same(holding(set(names)), holding({*names[10:], *names[:10]}))


def test_array_view_and_its_copy_have_same_hash():
    assert_same(holding(TABLE.T), holding(TABLE.T.copy()))
    assert_same(holding(TABLE[:, ::2]), holding(TABLE[:, ::2].copy()))


def test_shared_and_equal_values_have_same_hash():
    shared = [1.5, TABLE]
    assert_same(holding([shared, shared]), holding([[1.5, TABLE], [1.5, TABLE.copy()]]))


def test_cyclic_and_deeply_nested_values_can_be_hashed():
    def cycle(number):
        found = {"number": number}
        found["self"] = [found]
        return found

    assert_same(holding(cycle(1)), holding(cycle(1)))
    assert_differ(holding(cycle(1)), holding(cycle(2)))

    def nested(depth):
        found = []
        for _ in range(depth):
            found = [found]
        return found

    assert_differ(holding(nested(20)), holding(nested(21)))
    assert_same(holding(nested(100_000)), holding(nested(100_001)))

    def doubled(depth):
        found = [1]
        for _ in range(depth):
            found = [found, found]
        return found

    assert_same(holding(doubled(60)), holding(doubled(60)))


@pytest.mark.parametrize(
    "make",
    [
        object,
        threading.Lock,
        lambda: threading.Thread(target=print),
        lambda: logging.getLogger(f"logger {random.random()}"),
        np.random.default_rng,
        random.Random,
        lambda: iter([random.random()]),
        lambda: te.Tasks(np.random.default_rng().random((300, 2))),
    ],
)
def test_hash_of_opaque_objects_depends_only_on_type(make):
    assert_same(holding(make()), holding(make()))
    assert_differ(holding(make()), holding(None))


def test_hash_of_objects_with_failing_attributes_depends_only_on_type():
    class Broken:
        @property
        def __wrapped__(self):
            raise ValueError("no")

        def __getattr__(self, name):
            raise RuntimeError(name)

        def __repr__(self):
            raise RuntimeError("no")

    assert_same(holding(Broken()), holding(Broken()))


# Callable objects.


def test_hash_of_callable_object_depends_on_class_and_state():
    def made(by):
        class Simulator:
            FACTOR = by

            def __init__(self, gain):
                self.gain = gain

            def __call__(self, x, t):
                return by * x

        return Simulator

    assert_same(made(1)(3), made(1)(3))
    assert_differ(made(1)(3), made(1)(4), made(2)(3))
    assert_same(Simulator(1, TABLE), Simulator(1, TABLE.copy()))
    assert_differ(Simulator(1, TABLE), Simulator(1, TABLE + 1))


def test_hash_of_object_is_unchanged_by_hashing_and_copying():
    class Fresh(Simulator):
        pass

    before = code_of(Fresh(1))
    copy.copy(Fresh(1))  # stores `__slotnames__` in the class
    assert code_of(Fresh(1)) == before


def test_hash_of_bound_method_depends_on_function_class_and_state():
    assert_same(Simulator(1, TABLE).walk, Simulator(1, TABLE.copy()).walk)
    assert_differ(Simulator(1).walk, Simulator(1).run, Simulator(2).walk, Simulator(1), Simulator.walk)


def test_hash_depends_on_inherited_code_and_properties():
    def made(by):
        class Base:
            @property
            def gain(self):
                return by

        class Derived(Base):
            @staticmethod
            def other():
                return super

            def __call__(self, x, t):
                return super().__hash__() * self.gain

        return Derived()

    assert_same(made(1), made(1))
    assert_differ(made(1), made(2))


def test_hash_ignores_caches_and_state_excluded_from_pickling():
    used = Simulator(1)
    assert used.slow
    assert_same(used, Simulator(1))

    class Counting:
        def __init__(self, gain):
            self.gain = gain
            self.calls = 0

        def __getstate__(self):
            return {"gain": self.gain}

        def __call__(self, x, t):
            self.calls += 1

    counted = Counting(1)
    counted(0, 0)
    assert_same(counted, Counting(1))
    assert_differ(Counting(1), Counting(2))

    class Reduced(Simulator):
        def __reduce__(self):
            return Reduced, (self.gain,)

    assert_same(Reduced(1, 2), Reduced(1, 3))
    assert_differ(Reduced(1), Reduced(2))


def test_hash_of_dataclass_depends_on_fields_and_methods():
    def made(by):
        @dataclass(frozen=True)
        class Fitness:
            gain: float
            table: object = field(default=None, repr=False)

            def __call__(self, x, t):
                return by * self.gain

        return Fitness

    assert_same(made(1)(3.0), made(1)(3.0))
    assert_differ(made(1)(3.0), made(2)(3.0), made(1)(4.0), made(1)(3.0, TABLE))
    assert code_of(made(1)(3.0)).startswith("source-")


def test_library_objects_have_no_hash_of_their_own():
    domain = te.domain("arm", tasks=20)
    assert code_of(domain.fitness) is None
    assert code_of(te.MultiTaskMapElites()) is None
    # Within a user's fitness function, their fields are part of the hash.
    assert_same(holding(domain.fitness), holding(te.domain("arm", tasks=30).fitness))
    assert_differ(holding(domain.fitness), holding(te.domain("arm", tasks=20, form="exponential").fitness))


def test_hashing_a_domain_does_not_compute_its_optimum():
    def never():
        raise AssertionError

    domain = te.Domain(name="line", fitness=distance, tasks=np.zeros((3, 1)), bounds=(0, 1), dim=1, optimum=never)
    assert code_of(holding(domain)) is not None


def test_hash_can_exclude_mutable_values():
    def code(value):
        return code_of(holding(value), mutable=False)

    for one, other in [
        (TABLE, TABLE + 1),
        ([1], [2]),
        ({"a": 1}, {"a": 2}),
        ({1}, {2}),
        (Gains(1), Gains(2)),
        (Simulator(1), Simulator(2)),
        (([1], TABLE), ([2], TABLE + 1)),
    ]:
        assert code(one) == code(other)
    for one, other in [
        (1, 2),
        ("a", "b"),
        ((1, "a"), (1, "b")),
        (np.float32(1), np.float32(2)),
        (Colour.RED, Colour.BLUE),
        (holding(1), holding(2)),
        (functools.partial(distance, 1), functools.partial(distance, 2)),
        (functools.partial(distance, scale=1), functools.partial(distance, scale=2)),
        (Simulator(1), Gains(1)),
        (max, min),
    ]:
        assert code(one) != code(other)


def test_hashes_that_cannot_be_compared_are_treated_as_equal():
    assert same_code(None, code_of(distance))
    assert same_code("3.11-0123456789ab", code_of(distance))
    assert not same_code(code_of(distance), code_of(holding(1)))


PROGRAM = """
import enum, functools, importlib.util, sys
from dataclasses import dataclass
import numpy as np

spec = importlib.util.spec_from_file_location("identity", sys.argv[1])
identity = importlib.util.module_from_spec(spec)
spec.loader.exec_module(identity)

class Kind(enum.Enum):
    ONE = 1

@dataclass
class Table:
    names: set
    values: np.ndarray

class Simulator:
    '''With a state that has no order.'''
    LIMITS = frozenset(["upper", "lower", "middle"])

    def __init__(self):
        self.names = {"first", "second", "third"}
        self.table = Table({"a", "b", "c"}, np.arange(1000.0))
        self.other = object()
        self.kind = Kind.ONE
        self.by_name = {"b": print, "a": len}

    def walk(self, x, t):
        return x in {"near", "far", "away"}

simulator = Simulator()

def wrapped(x, t, names=frozenset("abc")):
    return simulator, [x in {"p", "q", "r"} for _ in range(3)]

def holding():
    held = Simulator()
    return lambda x, t: held.walk(x, t)

print(identity.code_of(simulator.walk))
print(identity.code_of(wrapped))
print(identity.code_of(functools.partial(wrapped, simulator)))
print(identity.code_of(lambda x, t: x in {"u", "v", "w"}))
print(identity.code_of(holding()))
print("jax" in sys.modules)
"""


@pytest.mark.parametrize("kind", ["file", "text"])
def test_hash_is_equal_across_processes_without_importing_jax(tmp_path, kind):
    (tmp_path / "program.py").write_text(PROGRAM)
    program = [str(tmp_path / "program.py")] if kind == "file" else ["-c", PROGRAM]
    found = [
        subprocess.run(
            [sys.executable, *program, sys.modules[code_of.__module__].__file__],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    *hashes, uses_jax = found[0]
    assert uses_jax == "False"
    assert len(set(hashes)) == 5
    sourced = [code.startswith("source-") for code in hashes]
    assert sourced == ([True, True, True, False, False] if kind == "file" else [False] * 5)
