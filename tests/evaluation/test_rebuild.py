"""`setup` is called again after exceptions, since the object it returned may be broken."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import taskelites as te
from taskelites.evaluation.caller import Caller

TASKS = np.linspace(0, 1, 250)[:, None]
PROBLEM = {"bounds": (0, 1), "dim": 2, "evaluations": 200, "seed": 3, "algorithm": "random"}


def make_fragile():
    """Return a simulator that breaks at some solutions, and a fitness that uses it."""

    class Simulator:
        def __init__(self):
            self.works = True

        def simulate(self, solution, task):
            self.works = self.works and not 0.5 < solution[0] < 0.52
            if not self.works:
                raise BrokenPipeError("the simulator is gone")
            return -float(abs(solution - task).sum())

    def fitness(solution, task, simulator):
        return simulator.simulate(solution, task)

    return Simulator, fitness


@pytest.fixture(scope="module", params=["this process", "workers", "threads", "processes"])
def place(request):
    if request.param == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield {"executor": pool}
    elif request.param == "processes":
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield {"executor": pool}
    else:
        yield {"workers": 2} if request.param == "workers" else {}


@pytest.mark.filterwarnings("ignore:workers make this run slower:taskelites.errors.FitnessWarning")
def test_broken_simulator_is_rebuilt(place, tmp_path):
    setup, fitness = make_fragile()
    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(fitness, TASKS, setup=setup, **place, **PROBLEM, out=tmp_path / "run")
    broke = result.failed - result.rebuilt
    assert 1 <= result.rebuilt <= broke  # two failures per rebuild, except perhaps for the last ones
    assert result.failures == {"raised": result.failed}
    log = (tmp_path / "run" / "run.log").read_text()
    assert "setup was called again (rebuild 1), since fitness raised BrokenPipeError: the simulator is gone" in log
    assert te.load(tmp_path / "run").rebuilt == result.rebuilt
    assert dict(result.summary_rows())["rebuilt"].startswith(f"setup was called again {result.rebuilt} time")


@pytest.mark.filterwarnings("ignore:workers make this run slower:taskelites.errors.FitnessWarning")
def test_each_retry_uses_new_simulator(place):
    setup, fitness = make_fragile()
    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(fitness, TASKS, setup=setup, on_error="retry", retries=1, **place, **PROBLEM)
    # Only a candidate that breaks every simulator fails. Each failure, retried or not, needs one rebuild.
    assert result.failed == result.retried
    assert result.rebuilt in range(2 * result.failed - 2, 2 * result.failed + 1)


def test_exception_in_batch_rebuilds_simulator():
    setup, fitness = make_fragile()

    def batch(solutions, tasks, simulator):
        return np.array([fitness(*row, simulator) for row in zip(solutions, tasks, strict=True)])

    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(batch, TASKS, setup=setup, call="batch", on_error="retry", **PROBLEM)
    assert 0 < result.failed < 20
    assert result.rebuilt > result.failed


def test_exception_in_repeated_setup_fails_evaluation():
    licences = iter(range(1))
    caller = Caller(lambda x, t, licence: 1 / 0, "each", setup=lambda: next(licences))
    assert caller.set_up() is None
    _, _, failures, _, rebuilt = caller(np.zeros((4, 1)), np.zeros((4, 1)))
    assert [message.split(" (")[0] for _, _, message, _ in failures] == [
        *["fitness raised ZeroDivisionError: division by zero"] * 2,
        *["setup raised StopIteration: "] * 2,
    ]
    assert len(rebuilt) == 2


def test_timeout_excludes_repeated_setup(tmp_path):
    def setup():
        import time

        if list(tmp_path.iterdir()):
            time.sleep(1.5)
        (tmp_path / f"{time.time_ns()}").touch()

    def fitness(solution, task, nothing):
        if not 0.1 < solution[0] < 0.9:
            raise ValueError("broken")
        return 0.0

    with pytest.warns(te.errors.FitnessWarning, match="raised"):
        result = te.solve(fitness, TASKS, setup=setup, timeout=1.0, workers=1, **PROBLEM | {"evaluations": 60})
    assert result.rebuilt > 0
    assert result.failures.keys() == {"raised"}
