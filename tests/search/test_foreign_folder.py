"""Test that foreign, mixed-up or forged run folders are rejected without harm."""

import hashlib
import io
import json
import shutil

import numpy as np
import pytest
from spheres import Traced, sphere

import taskelites as te
from taskelites.cli import main
from taskelites.runs import read_plan

TASKS = np.linspace(0, 1, 60)[:, None]


FUNCTIONS = {"batch": sphere, "jax": Traced()}


def run(call="batch", evaluations=500, **options):
    settings = {"bounds": (0, 1), "dim": 2, "call": call, "seed": 3, "batch_size": 16, "algorithm": "random"} | options
    return te.solve(FUNCTIONS[call], TASKS, evaluations=evaluations, **settings)


def assert_same(one, other):
    for name in ("solutions", "fitness", "task_evaluations", "last_improved"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name


def checkpoints_in(folder):
    return sorted((folder / "checkpoints").iterdir())


def forged(folder, change):
    """Change the newest checkpoint and give it a name with the matching checksum."""
    path = checkpoints_in(folder)[-1]
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    head = json.loads(str(arrays["about"]))
    change(head["about"], arrays)
    stream = io.BytesIO()
    np.savez(stream, **arrays | {"about": np.array(json.dumps(head))})
    data = stream.getvalue()
    path.unlink()
    (folder / "result.npz").unlink(missing_ok=True)
    path = path.with_name(f"{path.name[:24]}{hashlib.sha256(data).hexdigest()[:16]}.npz")
    path.write_bytes(data)
    return path


# Inconsistent checkpoints.


def another(**values):
    return lambda about, arrays: about.update(values)


def shorter_history(about, arrays):
    for name in about["history"]:
        arrays[f"arrays/history.{name}"] = arrays[f"arrays/history.{name}"][:1]


def longer_history(about, arrays):
    arrays["arrays/history.evaluations"][-1] = 10_000


def negative_counts(about, arrays):
    name = next(name for name in arrays if name.endswith("archive%27%5D.evaluations") or "evaluations" in name)
    arrays[name] = arrays[name] - 100


@pytest.mark.parametrize(
    "change",
    [
        another(row=0),
        another(row=-1),
        another(row=10**6),
        another(row="0"),
        another(row=None),
        another(evaluations=0),
        another(evaluations=-5),
        another(evaluations=2**40),
        another(opening="yes"),
        another(opening=True),
        another(openings=-1),
        another(openings=1),
        another(history=3),
        another(history=["none"]),
        another(failures=[]),
        another(failures={}),
        longer_history,
        negative_counts,
        lambda about, arrays: about.clear(),
        lambda about, arrays: arrays.pop("arrays/fitness"),
        lambda about, arrays: arrays.update({"arrays/fitness": np.zeros(3)}),
        lambda about, arrays: arrays.update({"arrays/behaviour": np.zeros(3)}),
    ],
)
def test_inconsistent_checkpoint_is_rejected(tmp_path, change):
    out = tmp_path / "run"
    run(evaluations=500, out=out)  # 500 is not a multiple of the batch size, so the run ends within a step
    path = forged(out, change)
    with pytest.raises(te.StorageError, match=rf"{path.name}' is damaged or not of this run .*; remove it"):
        run(evaluations=900, out=out, resume=True)


def test_run_with_truncated_history_can_be_resumed(tmp_path):
    run(evaluations=500, out=tmp_path / "run")
    forged(tmp_path / "run", shorter_history)
    found = run(evaluations=900, out=tmp_path / "run", resume=True)
    assert np.array_equal(found.fitness, run(evaluations=900).fitness)


@pytest.mark.parametrize("values", [{"taken": 0}, {"taken": -1}, {"reached": -1}, {"reached": 10**6}, {"taken": "x"}])
def test_inconsistent_checkpoint_of_jax_run_is_rejected(tmp_path, values):
    run("jax", evaluations=500, out=tmp_path / "run")
    forged(tmp_path / "run", another(**values))
    with pytest.raises(te.StorageError, match=r"npz' is damaged or not of this run"):
        run("jax", evaluations=900, out=tmp_path / "run", resume=True)


# Files of another run.


@pytest.mark.parametrize("call", FUNCTIONS)
def test_checkpoint_of_another_run_is_rejected(tmp_path, call):
    one, other = tmp_path / "one", tmp_path / "other"
    for out in (one, other):
        run(call, evaluations=500, out=out)
    assert read_plan(one)["id"] != read_plan(other)["id"]
    shutil.rmtree(one / "checkpoints")
    shutil.copytree(other / "checkpoints", one / "checkpoints")
    (one / "result.npz").unlink()
    with pytest.raises(te.StorageError, match=r"one/checkpoints/.*npz' is of another run .*; move it back"):
        run(call, evaluations=900, out=one, resume=True)
    assert checkpoints_in(one), "it is another run's, so it is not set aside"
    assert_same(run(call, evaluations=900, out=other, resume=True), run(call, evaluations=900))


def test_checkpoint_of_another_replicate_is_rejected(tmp_path):
    run(evaluations=500, out=tmp_path / "run", replicates=2)
    first, second = (tmp_path / "run" / f"replicate-{i}" for i in range(2))
    shutil.rmtree(first / "checkpoints")
    shutil.copytree(second / "checkpoints", first / "checkpoints")
    with pytest.raises(te.StorageError, match=r"replicate-0/checkpoints/.*npz' is of another run"):
        run(evaluations=900, out=tmp_path / "run", replicates=2, resume=True)


def test_copied_run_folder_can_be_resumed(tmp_path):
    run(evaluations=500, out=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy", ignore=shutil.ignore_patterns(".lock"))
    for name in ("run", "copy"):
        assert_same(run(evaluations=900, out=tmp_path / name, resume=True), run(evaluations=900))


def test_result_of_another_run_is_rejected_and_kept(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    run(evaluations=500, out=one)
    run(evaluations=500, out=other, seed=4)
    before = (other / "result.npz").read_bytes()
    (one / "result.npz").write_bytes(before)
    for evaluations in (500, 900):
        with pytest.raises(te.StorageError, match=r"result\.npz' is the result of another run, with seed 4 and not 3"):
            run(evaluations=evaluations, out=one, resume=True)
    assert (one / "result.npz").read_bytes() == before


def test_edited_run_json_is_rejected_with_advice(tmp_path):
    out = tmp_path / "run"
    run(evaluations=500, out=out)
    text = (out / "run.json").read_text()
    (out / "run.json").write_text(text.replace('"evaluations": 500', '"evaluations": 400'))
    with pytest.raises(
        te.StorageError, match=r"run\.json' was changed after it was written.* te\.solve\(resume=True\)"
    ):
        run(evaluations=450, out=out, resume=True)
    (out / "run.json").write_text(text)
    assert_same(run(evaluations=900, out=out, resume=True), run(evaluations=900))


# Symbolic links.


@pytest.mark.parametrize(
    "name",
    ["run.log", "metrics.csv", "failures.jsonl", "settings.json", "run.json", "result.npz", "checkpoints", ".lock"],
)
def test_run_files_are_not_written_through_symbolic_links(tmp_path, name):
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run(evaluations=500, out=out)
    if (out / name).exists():
        shutil.move(out / name, elsewhere)
    else:
        elsewhere.write_text("precious\n")
    (out / name).symlink_to(elsewhere)
    paths = [elsewhere, *elsewhere.rglob("*")]
    before = [path.read_bytes() for path in paths if path.is_file()]
    with pytest.raises(te.StorageError, match=rf"run/{name}' is a symbolic link"):
        run(evaluations=900, out=out, resume=True)
    assert [elsewhere, *elsewhere.rglob("*")] == paths
    assert [path.read_bytes() for path in paths if path.is_file()] == before


def test_symbolic_link_as_replicate_folder_is_rejected(tmp_path):
    run(evaluations=500, out=tmp_path / "run", replicates=2)
    shutil.move(tmp_path / "run" / "replicate-1", tmp_path / "elsewhere")
    (tmp_path / "run" / "replicate-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(te.StorageError, match=r"run/replicate-1' is a symbolic link"):
        run(evaluations=900, out=tmp_path / "run", replicates=2, resume=True)


def test_symbolic_link_as_log_in_new_folder_is_rejected(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(te.StorageError, match=r"run/run\.log' is a symbolic link"):
        run(evaluations=500, out=tmp_path / "run")
    assert not (tmp_path / "elsewhere").exists()


def test_run_folder_can_be_reached_through_symbolic_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    run(evaluations=500, out=tmp_path / "link" / "run")
    (tmp_path / "again").symlink_to(tmp_path / "real" / "run")
    assert_same(run(evaluations=900, out=tmp_path / "again", resume=True), run(evaluations=900))
    assert te.load(tmp_path / "again").evaluations == 900


def test_command_reports_damaged_run_json_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"format": "taskelites-run", "version": []}')
    assert main(["resume", "run"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("taskelites: error: '")
    assert "run.json' is damaged or not of a taskelites run (its format version must be a whole number" in error
    assert error.count("\n") == 1
