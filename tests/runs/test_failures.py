"""Failed evaluations: the warning during a run, its line in the user's file, and the reasons in the result."""

import signal
import warnings
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest

import taskelites as te
from taskelites.evaluation import Failure
from taskelites.results.failure_reasons import FailureReason, reason_table
from taskelites.runs import FailureLog
from taskelites.runs.failure_log import raised_at

TASKS = np.linspace(0, 1, 200)[:, None]
SOLUTION = np.zeros(2)


def solve(fitness, **options):
    options = {"bounds": (0, 1), "dim": 2, "evaluations": 1200} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = te.solve(fitness, TASKS, **options)
    return result, [each for each in caught if each.category is te.errors.FitnessWarning]


class Fails:
    """A fitness that fails at the calls, counted from 0, for which `fails` is true."""

    def __init__(self, fails, how):
        self.calls, self.fails, self.how = 0, fails, how

    def __call__(self, solution, task):
        self.calls += 1
        return self.how() if self.fails(self.calls - 1) else -abs(solution - task[0]).sum()

    def __getstate__(self):
        return {}  # otherwise a resumed run warns that the fitness has changed


def singular():
    return np.linalg.inv(np.zeros((2, 2)))  # raised inside NumPy


def line_of(function, offset=1):
    return function.__code__.co_firstlineno + offset


def test_mostly_failing_run_warns_early_with_line_of_user_code():
    fitness = Fails(lambda call: call % 20, singular)
    found = []

    def note(row):
        found.append((row["evaluations"], len(warned)))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = te.solve(fitness, TASKS, bounds=(0, 1), dim=2, evaluations=1200, callback=note)
    texts = [str(each.message) for each in warned]
    assert len(texts) == 1  # the end of the run does not repeat the warning
    assert texts[0].startswith("more than half of the last ")
    place = f"{__file__}:{line_of(singular)}"
    assert f"raised: LinAlgError: Singular matrix ({relative(place)})" in texts[0]
    assert warned[0].filename == __file__
    assert dict(found)[128] == 1  # the warning came during the run
    assert result.failed == 1140
    assert [(each.kind, each.where, each.count) for each in result.failure_reasons] == [("raised", place, 1140)]


def relative(where):
    return FailureReason(kind="raised", message="", where=where).place


def test_half_of_evaluations_failing_gives_no_early_warning():
    result, warned = solve(Fails(lambda call: call % 2, singular))
    assert result.failed == 600
    assert [str(each.message).split(" (")[0] for each in warned] == ["600 of 1,200 evaluations failed"]


@pytest.mark.parametrize("where", [0, 500, 1100])
def test_burst_of_60_failures_gives_warning(where):
    _, warned = solve(Fails(lambda call: where <= call < where + 60, lambda: np.nan))
    assert str(warned[0].message).startswith("more than half of the last ")
    assert str(warned[0].message).endswith("nan: fitness returned nan")
    assert str(warned[1].message).startswith("60 of 1,200 evaluations failed (nan 60)")


def test_infeasible_solutions_are_not_counted_as_failures():
    result, warned = solve(Fails(lambda call: call % 10, lambda: -np.inf))
    assert (result.failed, result.infeasible) == (0, 1080)
    assert warned == []
    assert result.failure_reasons == ()


def test_short_mostly_failing_run_warns_at_its_end():
    _, warned = solve(Fails(lambda call: call % 4, singular), evaluations=40)
    assert len(warned) == 1
    assert str(warned[0].message).startswith("30 of 40 evaluations failed (raised 30) and were not stored; the most")
    assert "LinAlgError: Singular matrix (" in str(warned[0].message)


def test_mostly_failing_jax_fitness_warns_during_the_run():
    rows = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = te.solve(
            lambda solution, task: jnp.where(solution[0] > 1.1 * task[0], jnp.nan, -solution[1]),
            np.full((200, 1), 0.2),
            bounds=(0, 1),
            dim=2,
            evaluations=6400,
            call="jax",
            algorithm="random",
            callback=lambda row: rows.append(len(warned)),
        )
    texts = [str(each.message) for each in warned if each.category is te.errors.FitnessWarning]
    assert len(texts) == 1
    assert texts[0].startswith("more than half of the last ")
    assert texts[0].endswith(": fitness returned NaN or +inf")
    assert rows[-1] > rows[0]  # the warning came during the run
    assert result.failure_reasons[0].count == result.failed > 3200


def test_replicates_give_one_warning():
    _, warned = solve(Fails(lambda call: call % 10, singular), replicates=3, evaluations=300)
    assert len(warned) == 1


def test_mostly_failing_asynchronous_run_warns():
    _, warned = solve(Fails(lambda call: call % 10, singular), executor=ThreadPoolExecutor(1), mode="async")
    assert str(warned[0].message).startswith("more than half of the last ")
    assert f"test_failures.py:{line_of(singular)}" in str(warned[0].message)


def test_resumed_run_has_same_failure_reasons_as_uninterrupted_run(tmp_path):
    def fitness(solution, task):
        if solution[0] > 0.9:
            raise ValueError(f"out of reach at {solution[0]}")
        if solution[1] > 0.9:
            return np.nan
        return singular()[0, 0] if solution[1] < 0.1 else -abs(solution - task[0]).sum()

    def stops(row):
        if row["evaluations"] > 500:
            signal.raise_signal(signal.SIGINT)

    options = {"bounds": (0, 1), "dim": 2, "evaluations": 1200, "out": tmp_path / "run"}
    with pytest.raises(te.Interrupted):
        te.solve(fitness, TASKS, callback=stops, **options)
    resumed, _ = solve(fitness, out=tmp_path / "run", resume=True)
    straight, _ = solve(fitness)
    assert resumed.failure_reasons == straight.failure_reasons
    assert len(straight.failure_reasons) == 3
    assert te.load(tmp_path / "run").failure_reasons == straight.failure_reasons
    assert sum(each.count for each in straight.failure_reasons) == straight.failed


def test_mostly_failing_considers_the_last_100_evaluations():
    def noticed(numbers):
        log = FailureLog(None, lambda text: None)
        for number in numbers:
            log.add(Failure("nan", "fitness returned nan"), number, 0, 0.0, SOLUTION)
        return log.mostly_failing

    assert noticed(range(1000, 1051))
    assert noticed([*range(1000, 1050), 1099])
    assert not noticed([*range(1000, 1050), 1100])
    assert not noticed(range(0, 1000, 2))


def test_location_of_failure_is_deepest_line_of_user_code():
    def trace(*files):
        return "".join(f'  File "{file}", line {line}, in f\n' for line, file in enumerate(files, 1))

    own = te.__file__.replace("__init__", "evaluation/caller")
    assert raised_at(trace(own, "/home/me/sim.py", "/x/lib/python3.12/site-packages/numpy/core.py")) == (
        "/home/me/sim.py:2"
    )
    assert raised_at(trace("/home/me/sim.py", "/home/me/solver.py", "/usr/lib/python3.12/json/decoder.py")) == (
        "/home/me/solver.py:2"
    )
    assert raised_at(trace(own, "/x/site-packages/robot/arm.py")) == "/x/site-packages/robot/arm.py:2"
    assert raised_at(trace(own, "<string>")) == "<string>:2"
    assert raised_at("") == ""


def test_long_reason_table_is_shortened():
    reasons = [
        FailureReason(kind="raised", message="E: " + "x" * 200, where=f"a.py:{i}", count=50 - i) for i in range(14)
    ]
    lines = reason_table(reasons, 60).splitlines()
    assert len(lines) == 12
    assert max(map(len, lines)) == 60
    assert lines[1].endswith("...")
    assert lines[-1].split() == ["154", "for", "4", "other", "reasons"]
    far = FailureReason(kind="raised", message="OSError: no display", where="/very/long" * 9 + "/simulator.py:7")
    assert reason_table([far], 80).endswith("simulator.py:7  OSError: no display")
