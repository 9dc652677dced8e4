"""mypy reports misspelled and mistyped arguments, and accepts correct ones."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskelites as te
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions
from taskelites.search.keywords import SolveKeywords

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
GIVEN = """
import concurrent.futures

import numpy as np

import taskelites as te

tasks = np.linspace(0, 1, 200)[:, None]
result: te.Result
results: list[te.Result]
pool: concurrent.futures.Executor
algorithms = ["random"]


def fitness(solution: np.ndarray, task: np.ndarray) -> float:
    return 0.0


"""
MISTAKES = """
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evalutions=10)
te.solve(fitness, tasks, bounds=(0, 1), dim=2)
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, wrokers=2)
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, workers="many")
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, on_error="retyr")
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, call="batches")
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, mode="asynchronous")
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, executor=4)
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, seed="zero")
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, callback=3)
te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, replicates=2).fitness
result = te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, replicates=2)
results = te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10)
te.compare(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, algorithms=algorithms, wrokers=2)
te.compare(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, algorithms=algorithms, mode="async")
te.compare(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, algorithms=algorithms, timeout="1s")
te.compare(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10)
te.bench(["arm"], replicate=2)
te.bench(["arm"], workers="all")
te.reevaluate(result, fitness, sample=20)
te.reevaluate(result, fitness, retries="2")
te.cover(result, fitness, k=4, on_errors="skip")
te.cover(result, fitness, k="4")
te.transfer(result, fitness, time_out=1.0)
te.transfer(result, fitness, setup=3)
te.Optimizer(tasks, bounds=(0, 1), dims=2)
te.Optimizer(tasks, bounds=(0, 1), dim=2, batch_size="64")
result.refine(tasks, fitness, evaluations=100, wrokers=2)
result.refine(tasks, fitness, evaluations=100, replicates=2)
result.refine(tasks, fitness, evaluations=100, resume="yes")
result.extend(tasks, fitness, evaluations=100, seeds=2)
result.extend(tasks, fitness, evaluations=100, warm_start=result)
"""
RIGHT = """
result = te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10)
result = te.solve(te.domain("arm"), evaluations=10, target=te.Target(0.5), callback=print, progress=False)
result = te.solve(fitness, tasks, bounds=[(0, 1)], evaluations=10, workers="auto", on_error="retry", retries=3)
result = te.solve(fitness, tasks, bounds=[(0, 1)], evaluations=10, executor=pool, mode="async", setup=dict)
result = te.solve(fitness, tasks, bounds=[(0, 1)], evaluations=10, workers=2, timeout=1, initial=[[0.5]])
result = te.solve(fitness, tasks, bounds=[(0, 1)], evaluations=10, out="run", checkpoint_every="30s", resume=True)
result = te.solve(fitness, tasks, bounds=[(0, 1)], evaluations=10, warm_start=result, callback=[print, print])
results = te.solve(fitness, tasks, bounds=(0, 1), dim=2, evaluations=10, replicates=2, seed=4, samples=3)
te.compare(te.domain("arm"), evaluations=10, algorithms=algorithms, workers=2, samples=3, out="folder").summary()
te.bench(["arm"], evaluations=10, replicates=2, workers="auto").table()
te.reevaluate(result, fitness, 20, workers=2, timeout=0.5).corrected
te.cover(result, fitness, 4, candidates="all", samples=3, executor=pool).loss()
te.transfer(result, fitness, "top 5", call="batch", on_error="raise").differences()
te.Optimizer(tasks, bounds=(0, 1), dim=2, algorithm=te.MultiTaskMapElites(), seed=1).result().summary()
result.refine(tasks, fitness, evaluations=100, seed=3, workers=2, method="nearest").predict(tasks)
result.extend(tasks, fitness, evaluations=100, call="batch", out="more", algorithm="mt-map-elites").plot()
"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    """Return the line numbers of the errors that mypy reports, per file."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "mistakes.py").write_text(GIVEN + MISTAKES)
    (folder / "right.py").write_text(GIVEN + RIGHT)
    command = [sys.executable, "-m", "mypy", "--config-file", PROJECT, "--follow-imports=silent"]
    finished = subprocess.run(
        [*command, "--cache-dir", folder / "cache", "mistakes.py", "right.py"],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(Path(te.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1, finished.stdout + finished.stderr
    errors = re.findall(r"^(\w+\.py):(\d+): error", finished.stdout, re.M)
    return {name: {int(line) for file, line in errors if file == name} for name in ("mistakes.py", "right.py")}


def test_mypy_reports_every_mistake(reported):
    lines = (GIVEN + MISTAKES).splitlines()
    first = GIVEN.count("\n") + 2
    missed = [lines[number - 1] for number in range(first, len(lines) + 1) if number not in reported["mistakes.py"]]
    assert missed == []
    assert min(reported["mistakes.py"]) == first


def test_mypy_accepts_correct_calls(reported):
    lines = (GIVEN + RIGHT).splitlines()
    assert [lines[number - 1] for number in sorted(reported["right.py"])] == []


def test_typed_keywords_equal_parameters_of_solve():
    typed = set(SolveKeywords.__annotations__) | {"fitness", "tasks", "evaluations", "replicates"}
    assert typed == set(inspect.signature(te.solve).parameters)


@pytest.mark.parametrize("name", ["solve", "compare", "reevaluate", "cover", "transfer"])
def test_signatures_contain_evaluation_keywords_with_their_defaults(name):
    parameters = inspect.signature(getattr(te, name)).parameters
    usual = EvaluationOptions()
    for keyword in EvaluationKeywords.__annotations__:
        assert parameters[keyword].default == getattr(usual, keyword)
