"""Damaged, swapped and forged files either raise StorageError or give the right numbers."""

import hashlib
import io
import json
import shutil
import warnings

import numpy as np
import pytest
from spheres import sphere

import taskelites as te
from taskelites.errors import InvalidValueError
from taskelites.experiments.benchmark.benchmark import read_bench_plan, write_bench_plan
from taskelites.experiments.comparison.comparison import read_settings, write_settings
from taskelites.experiments.comparison.finished import FinishedRuns, load_runs, save_runs
from taskelites.runs import Checkpoints, failures, read_plan

TASKS = te.tasks.grid((60,), [0], [1], names=["load"])
JUNK = [None, True, -1, -(10**30), 10**400, 1.5, float("nan"), float("inf"), "x", "=1\ud800", [], {}, [[]], {"a": {}}]


def fitness(solutions, tasks):
    values = sphere(solutions, tasks)
    return np.where(solutions[:, 0] < 0.03, np.nan, values)


def solve(**options):
    settings = {"bounds": (0, 1), "dim": 2, "call": "batch", "algorithm": "random", "batch_size": 16, "seed": 3}
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return te.solve(fitness, TASKS, **settings | options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs that ended in the middle of a batch, whose folders contain every kind of file."""
    made = []
    for seed in (3, 4):
        folder = tmp_path_factory.mktemp(f"seed-{seed}") / "run"
        result = solve(out=folder, seed=seed, evaluations=200)
        write_settings(folder, {"algorithms": {"random": {"name": "random"}}, "replicates": 2, "evaluations": 200})
        write_bench_plan(folder, {"arm": {"cma-es": "too large"}}, {"hexapod": "no simulator"}, ["today"])
        save_runs(folder / "finished.npz", FinishedRuns([result, result], read_settings(folder)), whole=1)
        made.append(folder)
    return made


@pytest.fixture(scope="module")
def straight():
    return solve(evaluations=300)


def checkpoint_in(folder):
    return max((folder / "checkpoints").iterdir())


def contents(result):
    """Return everything that a user can read from a result, which must not raise an error either."""
    result.summary(), repr(result), result.bounds, result.solutions_of(0)
    frame = result.to_dataframe()
    return frame.to_csv() + json.dumps(result.settings) + str([result.evaluations, result.failures, *result.history])


READERS = {
    "result.npz": lambda folder: contents(te.load(folder)),
    "run.json": read_plan,
    "failures.jsonl": lambda folder: len(failures(folder)),
    "comparison.json": read_settings,
    "bench.json": read_bench_plan,
    "finished.npz": lambda folder: [
        (result.solutions.tobytes(), result.fitness.tobytes(), result.evaluations, result.failed, result.settings)
        for result in load_runs(folder / "finished.npz", TASKS).results
    ],
}


# Accidental damage to bytes.


def flip(data, rng, _):
    changed = bytearray(data)
    for index in rng.integers(len(data), size=rng.integers(1, 4)):
        changed[index] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(data, rng, _):
    return data[: rng.integers(len(data))]


def swap(data, rng, others):
    return others[rng.integers(len(others))]


# Valid syntax with wrong contents.


def reshape(value, rng):
    """Replace or remove a random part of a JSON value."""
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        if rng.random() < 0.2:
            del value[key]
        else:
            value[key] = reshape(value[key], rng)
        return value
    return JUNK[rng.integers(len(JUNK))]


def reshape_array(array, rng):
    ways = [
        lambda: array[:-1] if array.ndim else array[None],
        lambda: array[None],
        lambda: np.zeros(0),
        lambda: np.zeros((len(array) if array.ndim else 1, 0)),
        lambda: array.astype("U20"),
        lambda: array.astype(complex) if array.dtype.kind in "iuf" else array.astype("S20"),
        lambda: array.astype(np.float16) if array.dtype.kind in "iuf" else np.array(3),
        lambda: -1 - array if array.dtype.kind in "if" else np.array(["x"]),
        lambda: np.array([{}], dtype=object),
        lambda: np.zeros(3, [("a", int)]),
    ]
    return ways[rng.integers(len(ways))]()


def forge(data, rng, _):
    """Change the contents, but keep all checksums valid."""
    if not data.startswith(b"PK"):
        document = reshape(json.loads(data), rng)
        if isinstance(document, dict):
            document["checksum"] = None  # a checksum of None is not compared
        return json.dumps(document).encode()
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = list(arrays)[rng.integers(len(arrays))]
    if name == "about" or rng.random() < 0.5:
        arrays["about"] = np.array(json.dumps(reshape(json.loads(str(arrays["about"])), rng)))
    elif rng.random() < 0.2:
        arrays[f"{name}x"] = arrays.pop(name)
    else:
        arrays[name] = reshape_array(arrays[name], rng)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", [flip, cut, swap, forge])
def test_damaged_file_raises_storage_error_or_is_read_correctly(folders, name, damage, tmp_path):
    rng = np.random.default_rng(7)
    folder = tmp_path / "run"
    shutil.copytree(folders[0], folder)
    read, right = READERS[name], READERS[name](folder)
    data = (folder / name).read_bytes()
    others = [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file() and path.name != name]
    # Finished runs of other tasks are a mistake of the user rather than damage.
    errors = (te.StorageError, InvalidValueError) if name == "finished.npz" else (te.StorageError,)
    refused = []
    for _ in range(65):
        if name == "failures.jsonl" and damage is forge:
            lines = data.split(b"\n")
            lines[0] = json.dumps(reshape(json.loads(lines[0]), rng)).encode()
            changed = b"\n".join(lines)
        else:
            changed = damage(data, rng, others)
        (folder / name).write_bytes(changed)
        try:
            found = read(folder)
        except errors as error:
            refused.append(str(error))
        else:
            assert damage is forge or name == "failures.jsonl" or found == right, "a wrong number"
    assert all(f"{name}'" in message for message in refused)
    assert len(refused) > 5 or name == "failures.jsonl"


def put_checkpoint(folder, data, digest=None):
    """Replace all checkpoints with one that contains `data` and is named after its digest or the given one."""
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").mkdir()
    digest = digest or hashlib.sha256(data).hexdigest()[:16]
    (folder / "checkpoints" / f"checkpoint-000000000200-{digest}.npz").write_bytes(data)


@pytest.mark.parametrize("damage", [flip, cut, swap, forge])
def test_damaged_checkpoint_is_skipped_or_read_correctly(folders, damage, tmp_path):
    rng = np.random.default_rng(5)
    folder = tmp_path / "run"
    shutil.copytree(folders[0], folder)
    path = checkpoint_in(folder)
    data, right = path.read_bytes(), Checkpoints(folder / "checkpoints").load()
    others = [each.read_bytes() for each in sorted(folder.iterdir()) if each.is_file()]
    for i in range(110):
        changed = damage(data, rng, others)
        put_checkpoint(folder, changed, path.name[-20:-4] if i % 2 else None)
        found = Checkpoints(folder / "checkpoints", lambda text: None).load()
        if found is not None and damage is not forge:
            assert found.about == right.about
            for name, array in right.arrays.items():
                np.testing.assert_array_equal(found.arrays[name], array)


def test_run_with_forged_file_is_refused_or_resumed_correctly(folders, straight, tmp_path):
    rng = np.random.default_rng(6)
    data = checkpoint_in(folders[0]).read_bytes()
    outcomes = {"refused": 0, "the same": 0}
    for i in range(60):
        folder = tmp_path / f"run-{i}"
        shutil.copytree(folders[0], folder)
        (folder / "result.npz").unlink()
        if i % 2:
            put_checkpoint(folder, forge(data, rng, None))
        else:
            (folder / "run.json").write_bytes(forge((folder / "run.json").read_bytes(), rng, None))
        try:
            found = solve(out=folder, evaluations=300, resume=True)
        except (te.StorageError, InvalidValueError):  # the latter if `run.json` contains other arguments
            outcomes["refused"] += 1
            continue
        for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
            assert np.array_equal(getattr(found, name), getattr(straight, name), equal_nan=True), name
        assert found.evaluations == straight.evaluations
        outcomes["the same"] += 1
    assert min(outcomes.values()) > 5, outcomes
