"""Tracker callbacks: TensorBoard with the real tensorboardX, the others with stand-ins that record calls."""

import math
import struct
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from spheres import sphere
from tensorboardX.proto import event_pb2

import taskelites as te
from taskelites.runs.callbacks import MLflow, TensorBoard, WeightsAndBiases


def row(evaluations, replicate=0, **numbers):
    return {"replicate": replicate, "evaluations": evaluations} | (numbers or {"mean": -1 / evaluations})


def solve(tasks, **options):
    options = {"evaluations": 320, "batch_size": 40} | options
    return te.solve(sphere, tasks, bounds=(0, 1), dim=2, call="batch", **options)


def fail_within(callback):
    with callback:
        callback(row(64))
        raise RuntimeError("it broke")


def no_package(monkeypatch, *names):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed


# TensorBoard.


@pytest.fixture
def only_tensorboardx(monkeypatch):
    no_package(monkeypatch, "tensorboard")


def events(path):
    """Yield the events of a file, whose records consist of length, checksum, event and checksum."""
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = event_pb2.Event()
        event.ParseFromString(data[12 : 12 + length])
        yield event
        data = data[16 + length :]


def scalars(folder):
    """Read the files of a folder by name and return `{name: {step: value}}` as TensorBoard shows it."""
    shown = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for event in events(path):
            if event.HasField("session_log"):
                kept = {name: {s: v for s, v in found.items() if s < event.step} for name, found in shown.items()}
                shown = {name: found for name, found in kept.items() if found}
            for value in event.summary.value:
                shown.setdefault(value.tag, {})[event.step] = value.simple_value
    return shown


def whole_scalars(folder):
    """Return `scalars(folder)`, or an empty dict while a file ends in the middle of an event."""
    try:
        return scalars(folder)
    except (struct.error, DecodeError):
        return {}


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.usefixtures("only_tensorboardx")
class TestFolder:
    def test_contains_history(self, line_tasks, tmp_path):
        with TensorBoard(tmp_path / "logs") as board:
            history = solve(line_tasks, callback=board).history
        found = scalars(tmp_path / "logs")
        assert set(found) == set(history) - {"evaluations"}
        for name, by_step in found.items():
            assert list(by_step) == history["evaluations"].tolist()
            assert np.array_equal(np.float32(list(by_step.values())), np.float32(history[name]))

    def test_has_subfolders_for_replicates(self, line_tasks, tmp_path):
        with TensorBoard(str(tmp_path)) as board:
            results = solve(line_tasks, callback=board, replicates=3)
        for folder, result in zip([".", "replicate-1", "replicate-2"], results, strict=True):
            assert list(scalars(tmp_path / folder)["mean"].values()) == pytest.approx(result.history["mean"])
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["replicate-1", "replicate-2"]

    def test_omits_nan(self, tmp_path):
        with TensorBoard(tmp_path) as board:
            board(row(64, coverage=0.0, mean=math.nan))
            board(row(128, coverage=0.5, mean=-2.0))
        assert scalars(tmp_path) == {"coverage": {64: 0.0, 128: 0.5}, "mean": {128: -2.0}}

    def test_is_written_during_the_run(self, tmp_path):
        with TensorBoard(tmp_path) as board:
            for step in (64, 128):
                board(row(step))
                wait_until(lambda step=step: step in whole_scalars(tmp_path).get("mean", {}))

    def test_is_complete_when_the_process_ends_without_close(self, tmp_path):
        code = f"""if True:
            import importlib.util, os, sys
            spec = importlib.util.spec_from_file_location("callbacks", {sys.modules[TensorBoard.__module__].__file__!r})
            callbacks = importlib.util.module_from_spec(spec)  # without the package, as JAX would take seconds
            spec.loader.exec_module(callbacks)
            sys.modules["tensorboard"] = None
            board = callbacks.TensorBoard({str(tmp_path)!r})
            for step in range(1, 101):
                board({row(64)!r} | {{"evaluations": step}})
        """
        subprocess.run([sys.executable, "-c", code], check=True)
        assert list(scalars(tmp_path)["mean"]) == list(range(1, 101))

    def test_contains_rows_of_several_writers_in_the_same_second(self, tmp_path):
        for step in (64, 128, 192):
            with TensorBoard(tmp_path) as board:
                board(row(step, mean=1.0))
        assert scalars(tmp_path) == {"mean": {64: 1.0, 128: 1.0, 192: 1.0}}
        assert len(list(tmp_path.iterdir())) == 3

    @pytest.mark.parametrize("how", ["closed", "still open", "another object"])
    def test_rows_of_resumed_run_replace_older_rows(self, tmp_path, how):
        board = TensorBoard(tmp_path)
        for step in (64, 128, 256):
            board(row(step, mean=1.0))
        if how != "still open":
            board.close()
        resumed = TensorBoard(tmp_path) if how == "another object" else board
        with resumed:
            for step in (128, 512):
                resumed(row(step, mean=2.0))
        # From step 128, where the run was resumed, the new rows count. They are in a file of their own.
        assert scalars(tmp_path) == {"mean": {64: 1.0, 128: 2.0, 512: 2.0}}
        assert len(list(tmp_path.iterdir())) == 2

    def test_is_not_created_before_the_first_row(self, tmp_path):
        TensorBoard(tmp_path / "logs").close()
        assert not (tmp_path / "logs").exists()


def test_tensorboard_prefers_writer_of_torch(monkeypatch, tmp_path):
    calls = []

    class SummaryWriter:
        def __init__(self, folder, **options):
            calls.append(("open", folder.rstrip("/"), options["purge_step"]))

        def add_scalar(self, name, value, step):
            calls.append((name, value, step))

        def flush(self):
            calls.append("flush")

        def close(self):
            calls.append("close")

    for name in ("tensorboard", "torch", "torch.utils", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["torch.utils.tensorboard"].SummaryWriter = SummaryWriter
    with TensorBoard(tmp_path) as board:
        board(row(64, mean=-1.0))
    assert calls == [("open", str(tmp_path), 64), ("mean", -1.0, 64), "flush", "close"]


def test_tensorboard_accepts_writer():
    names, flushed = [], []
    writer = SimpleNamespace(
        add_scalar=lambda name, value, step: names.append((name, step)),
        flush=lambda: flushed.append(len(names)),
        close=lambda: pytest.fail("the writer is not ours to close"),
    )
    with TensorBoard(writer) as board:
        board(row(64, coverage=0.5, mean=math.nan))
        board(row(64, replicate=2, coverage=0.5))
    assert names == [("coverage", 64), ("replicate-2/coverage", 64)]
    assert flushed == [1, 2]


def test_tensorboard_rejects_invalid_argument():
    with pytest.raises(TypeError, match="folder_or_writer must be a path or have a method add_scalar, not 3"):
        TensorBoard(3)


# Weights & Biases.


class Run:
    """A stand-in for a W&B run that records its calls."""

    def __init__(self, name="given"):
        self.id = name
        self.axes, self.rows, self.ended = {}, [], None

    def define_metric(self, name, step_metric=None, hidden=None):
        assert name not in self.axes
        self.axes[name] = step_metric or ("hidden" if hidden else None)

    def log(self, numbers):
        assert self.ended is None
        self.rows.append(numbers)

    def finish(self, exit_code):
        self.ended = exit_code


@pytest.fixture
def wandb(monkeypatch):
    module = ModuleType("wandb")
    module.run, module.calls, module.runs = None, [], []

    def init(**options):
        module.calls.append(options)
        if module.run is None or module.run.ended is not None:
            module.run = Run(options.get("id", "new"))
            module.runs.append(module.run)
        return module.run

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_logs_history(wandb, line_tasks):
    with WeightsAndBiases(project="arms") as log:
        assert wandb.calls == []
        results = solve(line_tasks, callback=log, replicates=2)
    (run,) = wandb.runs
    assert wandb.calls == [{"project": "arms"}]
    assert run.ended == 0
    for prefix, result in zip(["", "replicate-1/"], results, strict=True):
        rows = [found for found in run.rows if f"{prefix}mean" in found]
        for name, column in result.history.items():
            assert [found[name if name == "evaluations" else prefix + name] for found in rows] == column.tolist()
    assert run.axes.pop("evaluations") == "hidden"
    assert run.axes.keys() | {"evaluations"} == {name for found in run.rows for name in found}
    assert set(run.axes.values()) == {"evaluations"}


def test_wandb_omits_nan(wandb):
    log = WeightsAndBiases()
    log(row(64, coverage=0.0, mean=math.nan))
    log(row(128, coverage=0.5, mean=-2.0))
    assert wandb.run.rows == [{"evaluations": 64, "coverage": 0.0}, {"evaluations": 128, "coverage": 0.5, "mean": -2.0}]
    assert wandb.run.axes["mean"] == "evaluations"


def test_wandb_resumes_run_after_close(wandb):
    log = WeightsAndBiases(project="arms", id="one")
    log(row(64))
    log.close()
    log.close()
    log(row(128))
    assert wandb.calls[1] == {"project": "arms", "id": "one", "resume": "allow"}
    assert [run.rows for run in wandb.runs] == [[{"evaluations": step, "mean": -1 / step}] for step in (64, 128)]
    assert wandb.runs[1].axes == {"evaluations": "hidden", "mean": "evaluations"}


def test_wandb_marks_failed_run(wandb):
    with pytest.raises(RuntimeError, match="it broke"):
        fail_within(WeightsAndBiases())
    assert wandb.run.ended == 1


def test_wandb_does_not_finish_run_that_was_already_active(wandb):
    wandb.run = Run("active")
    with WeightsAndBiases() as log:
        log(row(64))
    assert wandb.run.rows == [{"evaluations": 64, "mean": -1 / 64}]
    assert wandb.run.ended is None


def test_wandb_needs_no_package_when_run_is_given(monkeypatch):
    no_package(monkeypatch, "wandb")
    run = Run()
    log = WeightsAndBiases(run)
    for step in (64, 128):  # the second row follows `close`, which does not finish a given run
        log(row(step, replicate=1))
        log.close()
    assert run.rows == [{"evaluations": step, "replicate-1/mean": -1 / step} for step in (64, 128)]
    assert run.ended is None


# MLflow.


@pytest.fixture
def mlflow(monkeypatch):
    module = ModuleType("mlflow")
    module.starts, module.logged, module.ends, module.stack = [], [], [], []

    def start_run(**options):
        module.starts.append(options)
        module.stack.append(SimpleNamespace(info=SimpleNamespace(run_id=options.get("run_id", "new"))))
        return module.stack[-1]

    def log_metrics(numbers, step, run_id, synchronous):
        assert synchronous
        module.logged.append((run_id, step, numbers))

    module.start_run, module.log_metrics = start_run, log_metrics
    module.active_run = lambda: module.stack[-1] if module.stack else None
    module.end_run = lambda status: module.ends.append((module.stack.pop().info.run_id, status))
    monkeypatch.setitem(sys.modules, "mlflow", module)
    return module


def test_mlflow_logs_history(mlflow, line_tasks):
    with MLflow(run_name="arm") as log:
        assert mlflow.starts == []
        results = solve(line_tasks, callback=log, replicates=2)
    assert mlflow.starts == [{"run_name": "arm"}]
    assert mlflow.ends == [("new", "FINISHED")]
    for prefix, result in zip(["", "replicate-1/"], results, strict=True):
        rows = [(step, numbers) for _, step, numbers in mlflow.logged if f"{prefix}mean" in numbers]
        assert [step for step, _ in rows] == result.history["evaluations"].tolist()
        for name in set(result.history) - {"evaluations"}:
            assert [numbers[prefix + name] for _, numbers in rows] == result.history[name].tolist()


def test_mlflow_omits_nan(mlflow):
    MLflow()(row(64, coverage=0.0, mean=math.nan))
    assert mlflow.logged == [("new", 64, {"coverage": 0.0})]


def test_mlflow_resumes_run_after_close(mlflow):
    log = MLflow(run_name="arm")
    log(row(64))
    log.close()
    log.close()
    log(row(128))
    assert mlflow.starts[1] == {"run_name": "arm", "run_id": "new"}
    assert mlflow.logged == [("new", step, {"mean": -1 / step}) for step in (64, 128)]
    assert mlflow.ends == [("new", "FINISHED")]


def test_mlflow_marks_failed_run(mlflow):
    with pytest.raises(RuntimeError, match="it broke"):
        fail_within(MLflow())
    assert mlflow.ends == [("new", "FAILED")]


def test_mlflow_does_not_end_run_that_has_ended(mlflow):
    with MLflow() as log:
        log(row(64))
        mlflow.end_run("KILLED")
        mlflow.start_run(run_id="another")
    assert mlflow.ends == [("new", "KILLED")]


def test_mlflow_uses_active_run(mlflow):
    mlflow.start_run(run_id="active")
    with MLflow() as log:
        log(row(64))
    assert mlflow.logged == [("active", 64, {"mean": -1 / 64})]
    assert mlflow.ends == []


@pytest.mark.parametrize("run", ["given", SimpleNamespace(info=SimpleNamespace(run_id="given"))], ids=["id", "run"])
def test_mlflow_accepts_run_or_run_id(mlflow, run):
    log = MLflow(run)
    for step in (64, 128):
        log(row(step, replicate=1))
        log.close()
    assert mlflow.logged == [("given", step, {"replicate-1/mean": -1 / step}) for step in (64, 128)]
    assert mlflow.starts == mlflow.ends == []


# All callbacks.


@pytest.mark.parametrize(
    ("make", "packages", "message"),
    [
        (
            lambda: TensorBoard("logs"),
            ["tensorboard", "tensorboardX"],
            "TensorBoard needs the package tensorboardX: pip install tensorboardX",
        ),
        (WeightsAndBiases, ["wandb"], "WeightsAndBiases needs the package wandb: pip install wandb"),
        (MLflow, ["mlflow"], "MLflow needs the package mlflow: pip install mlflow"),
    ],
)
def test_missing_package_is_named_on_construction(monkeypatch, make, packages, message):
    no_package(monkeypatch, *packages)
    with pytest.raises(ImportError, match=f"^{message}$"):
        make()


def test_import_error_inside_package_is_passed_on(monkeypatch, tmp_path):
    (tmp_path / "wandb.py").write_text("import something_that_it_needs")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(ModuleNotFoundError, match="something_that_it_needs"):
        WeightsAndBiases()


@pytest.mark.parametrize(("make", "function"), [(WeightsAndBiases, "wandb.init"), (MLflow, "mlflow.start_run")])
def test_run_and_arguments_for_new_run_exclude_each_other(make, function):
    with pytest.raises(TypeError, match=rf"either run or arguments of {function}, not both; .* \['tags'\]"):
        make("run", tags=["a"])


def test_importing_callbacks_imports_no_tracker():
    code = f"""if True:
        import runpy, sys
        runpy.run_path({sys.modules[TensorBoard.__module__].__file__!r})
        print(sorted({{"torch", "tensorboard", "tensorboardX", "wandb", "mlflow"}} & set(sys.modules)))
    """
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
