import json
import os
import zipfile

import numpy as np
import pytest

import taskelites as te
from taskelites import storage


@pytest.fixture(scope="module")
def result():
    tasks = te.tasks.grid((15, 15), [0, 0], [1, 10], names=["load", "speed"])
    return te.solve(lambda x, t: -np.abs(x - t[:, :1]).sum(axis=1), tasks, bounds=(0, 1), dim=2, call="batch",
                    evaluations=1000)  # fmt: skip


def assert_equal(a, b):
    for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        assert getattr(a, name).dtype == getattr(b, name).dtype
    assert list(a.history) == list(b.history)
    assert all(np.array_equal(a.history[name], b.history[name], equal_nan=True) for name in a.history)
    assert a.settings == b.settings
    assert (a.evaluations, a.failed, a.infeasible) == (b.evaluations, b.failed, b.infeasible)


def test_saved_result_is_loaded_exactly(result, tmp_path):
    loaded = te.load(result.save(tmp_path / "a.npz"))
    assert_equal(loaded, result)
    assert loaded.tasks.names == ("load", "speed")
    assert np.array_equal(loaded.tasks.descriptors, result.tasks.descriptors)
    assert loaded.optimum is None
    assert_equal(te.load(loaded.save(tmp_path / "b.npz")), result)


def test_optimum_is_saved_with_result(small_arm, tmp_path):
    result = te.solve(small_arm, evaluations=5000)
    loaded = te.load(result.save(tmp_path / "arm.npz"))
    assert loaded.gap == result.gap > 0
    assert np.array_equal(loaded.worst, result.worst)


def test_task_objects_are_saved_as_text(tmp_path):
    tasks = te.Tasks([(i, "é<script>") for i in range(250)], descriptors=np.linspace(0, 1, 250)[:, None])
    result = te.solve(lambda x, t: -abs(x[0] - t[0] / 250), tasks, bounds=(0, 1), dim=1, evaluations=200)
    loaded = te.load(result.save(tmp_path / "objects.npz"))
    assert loaded.tasks.objects[3] == "(3, 'é<script>')"


def test_files_contain_no_pickle(result, tmp_path):
    path = result.save(tmp_path / "a.npz")
    with np.load(path, allow_pickle=False) as contents:
        assert all(contents[name].dtype.kind in "fiuU" for name in contents.files)
    np.savez(tmp_path / "evil.npz", about=np.array({"format": "taskelites-result"}, dtype=object))
    with pytest.raises(te.StorageError, match=r"evil.npz' is damaged or not a taskelites result \(.* Python objects"):
        te.load(tmp_path / "evil.npz")


@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "foreign", "other npz"])
def test_damaged_file_raises_error(result, damage, tmp_path):
    path = result.save(tmp_path / "a.npz")
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        with zipfile.ZipFile(path) as members:  # not between the arrays, where some bytes mean nothing
            member = members.getinfo("fitness.npy")
        data[member.header_offset + 100 + member.compress_size // 2] ^= 0xFF
    path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "foreign": b"not a zip"}.get(damage, bytes(data)))
    if damage == "other npz":
        np.savez(path, x=np.zeros(3))
    with pytest.raises(te.StorageError, match=r"a.npz' is damaged"):
        te.load(path)


def test_newer_format_or_unequal_lengths_raise_error(result, tmp_path):
    arrays, about = result._contents()
    np.savez(tmp_path / "new.npz", about=np.array(json.dumps(about | {"version": 99})), **arrays)
    with pytest.raises(te.StorageError, match=r"has format version 99, and this taskelites reads up to 1; upgrade it"):
        te.load(tmp_path / "new.npz")
    np.savez(tmp_path / "short.npz", about=np.array(json.dumps(about)), **arrays | {"fitness": arrays["fitness"][:5]})
    with pytest.raises(te.StorageError, match=r"short.npz' is damaged .*\(its arrays have different lengths"):
        te.load(tmp_path / "short.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"fitness": np.zeros((225, 2))},
        {"fitness": np.full(225, "x")},
        {"solutions": np.zeros(225)},
        {"optimum": np.zeros(3)},
        {"last_improved": np.zeros(225)},
    ],
)
def test_arrays_of_wrong_shape_or_type_raise_error(result, change, tmp_path):
    arrays, about = result._contents()
    np.savez(tmp_path / "odd.npz", about=np.array(json.dumps(about)), **arrays | change)
    with pytest.raises(te.StorageError, match=r"odd.npz' is damaged .*\(its "):
        te.load(tmp_path / "odd.npz")


@pytest.mark.parametrize("about", ['{"format": "taskelites-result", "version": Infinity}', "[" * 100_000, "[]", "3"])
def test_invalid_json_raises_error(about, tmp_path):
    np.savez(tmp_path / "odd.npz", about=np.array(about))
    with pytest.raises(te.StorageError, match=r"odd.npz' is damaged or not a taskelites result"):
        te.load(tmp_path / "odd.npz")


def test_full_disk_keeps_the_old_file(result, tmp_path, monkeypatch):
    path = result.save(tmp_path / "a.npz")
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match=r"could not write '.*a.npz': No space left on device"):
        result.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.npz"]
    assert zipfile.is_zipfile(path)


def test_invalid_paths_raise_errors(result, tmp_path):
    with pytest.raises(ValueError, match=r"path must end in .npz, not 'a.pkl'"):
        result.save(tmp_path / "a.pkl")
    with pytest.raises(FileNotFoundError, match=r"there is no folder '.*nowhere' to write 'a.npz' to"):
        result.save(tmp_path / "nowhere" / "a.npz")
    with pytest.raises(FileNotFoundError, match=r"there is no result '.*result.npz'"):
        te.load(tmp_path)


@pytest.mark.thorough
def test_dataframe_has_one_row_per_task(result):
    words = te.Tasks([f"w{i}" for i in range(200)], descriptors=np.arange(200.0)[:, None])
    named = te.solve(lambda x, t: x[0], words, bounds=(0, 1), dim=1, evaluations=10).to_dataframe()
    assert named["task"].tolist()[3] == "w3"
    frame = result.to_dataframe()
    assert list(frame.columns) == [
        "task_id", "load", "speed", "fitness", "evaluations", "last_improved", "solution_0", "solution_1",
    ]  # fmt: skip
    assert len(frame) == 225
    assert frame["fitness"].isna().sum() == (~result.solved).sum()


def test_names_of_other_columns_are_refused(result, tmp_path):
    with pytest.raises(ValueError, match=r"names must be unique and different from .* but 'optimum' is not"):
        te.Tasks(descriptors=[[0.0, 1.0]], names=["optimum", "solution_1"])
    arrays, about = result._contents()
    for names in (["optimum", "load"], ["a", "a"]):
        forged = json.dumps(about | {"task_names": names})
        np.savez(tmp_path / "forged.npz", about=np.array(forged), **arrays)
        with pytest.raises(te.StorageError, match=r"forged.npz' is damaged .*\(names must be unique"):
            te.load(tmp_path / "forged.npz")


def test_predict_copies_nearest_solved_task(result):
    points = result.tasks.descriptors
    unsolved, solved = np.flatnonzero(~result.solved), np.flatnonzero(result.solved)
    assert np.array_equal(result.predict(points[solved]), result.solutions[solved])
    assert not np.isnan(result.predict(points)).any()
    distance = np.linalg.norm(points[unsolved, None] - points[None, solved], axis=-1)
    copied = result.predict(points[unsolved], "nearest")
    assert np.array_equal(copied, result.solutions[solved[distance.argmin(axis=1)]])
    with pytest.raises(ValueError, match=r"new_tasks must have shape \(m, 2\), not \(1, 3\)"):
        result.predict([[1, 2, 3]])


def test_repr_and_summary(result):
    assert repr(result) == f"<Result: {result.solved.sum()} of 225 tasks solved, mean fitness " + (
        f"{np.nanmean(result.fitness):.6g}, 1,000 evaluations>"
    )
    assert "coverage" in result.summary()
