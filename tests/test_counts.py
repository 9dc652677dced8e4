"""Messages use the singular for one task, run or row."""

import re
import warnings

import numpy as np
import pytest

import taskelites as te
from taskelites.cli import main

# Matches "1 tasks", but not "11 tasks", "1 of 2 runs" or "0.1 samples".
WRONG = re.compile(r"(?<![\d.,])1 (?!(?:is|was|has|as)\b)[a-z]+s\b")


def one(**options):
    domain = te.Domain(name="one", fitness=lambda x, t: float(x[0]), tasks=[[0.5]], bounds=(0, 1), dim=1)
    return te.solve(domain, evaluations=1, algorithm="random", **options)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_texts_use_singular_for_one_task_and_one_run(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = one(out=tmp_path / "run")
    assert str(caught[0].message).startswith("1 task is few for many-task search")
    tasks = te.Tasks(descriptors=[[0.5]])
    comparison = te.Comparison(results={"random": [result]})
    bench = te.experiments.Bench(comparisons={"one": comparison})
    texts = [repr(each) for each in (tasks, te.Tasks(["a"]), result, comparison, bench)]
    texts += [result.summary(), comparison.summary(), bench.summary(), (tmp_path / "run" / "run.log").read_text()]
    for text in texts:
        assert not WRONG.search(text), text
    assert repr(tasks) == "<Tasks: 1 row of 1 descriptor, Euclidean distance>"


def test_error_uses_singular_for_one_failed_evaluation():
    failed = pytest.raises(te.FitnessError, match=r"^the only evaluation failed: ")
    with warnings.catch_warnings(action="ignore"), failed:
        te.solve(lambda x, t: 1 / 0, [[0.5]], bounds=(0, 1), dim=1, evaluations=1, algorithm="random")


def test_command_output_uses_singular(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(action="ignore"):
        arguments = ["--tasks", "1", "--evaluations", "1", "--algorithm", "random", "--quiet", "--out", "run"]
        assert main(["run", "arm", *arguments]) == 0
        assert main(["export", "run"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("arm: 1 task, 1 evaluation, random, seed 0")
    assert "(1 row, 17 columns)" in output.out
    assert not WRONG.search(output.out + output.err)


def test_run_of_lambda_is_named_fitness(tmp_path):
    with warnings.catch_warnings(action="ignore"):
        result = te.solve(lambda x, t: float(x[0]), [[0.5]], bounds=(0, 1), dim=1, evaluations=5, algorithm="random")
    assert result.settings["problem"] == "fitness"
    page = te.show.report(result, tmp_path / "report.html")
    assert "<title>fitness: random" in page.read_text()
    assert "lambda" not in page.read_text().split("<script")[0]


def test_run_is_named_after_its_fitness():
    def height(solution, task):
        return float(np.sum(solution))

    with warnings.catch_warnings(action="ignore"):
        result = te.solve(height, [[0.5]], bounds=(0, 1), dim=1, evaluations=5, algorithm="random")
    assert result.settings["problem"] == "height"
