"""Texts in tables are not read as formulas by spreadsheets, and any text can be written."""

import json

import numpy as np
import pandas as pd
import pytest
from spheres import result, sphere_each

import taskelites as te
from taskelites.cli import main
from taskelites.results.export import no_formulas, one_table, write_table
from taskelites.runs import RunFolder, failures

HOSTILE = ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\tx", "\rx", "plain", "", "a=b", "\udc80", "=\ud800"]
SAFE = ['\'=HYPERLINK("http://x")', "'+1", "'-1", "'@SUM(A1)", "'\tx", "'\rx", "plain", "", "a=b"]


def hostile_result():
    number = len(HOSTILE)
    return te.Result(
        solutions=np.full((number, 1), -1.5),
        fitness=np.linspace(-1, 1, number),
        tasks=te.Tasks(HOSTILE, descriptors=-np.arange(1.0, number + 1)[:, None], names=["=load"]),
        evaluations=99,
        task_evaluations=np.full(number, 9),
        last_improved=np.ones(number, int),
        settings={"problem": "=\ud800"},
    )


@pytest.mark.parametrize("formulas", [False, True])
def test_exported_texts_are_escaped_unless_formulas_are_requested(tmp_path, formulas):
    found = hostile_result()
    write_table(tmp_path / "tasks.csv", one_table([({}, found)]), found.tasks.names, formulas=formulas)
    table = pd.read_csv(tmp_path / "tasks.csv", keep_default_na=False)
    assert table["task"].tolist()[:9] == (HOSTILE[:9] if formulas else SAFE)
    assert table["task"].tolist()[9:] == ["\\udc80", "=\\ud800" if formulas else "'=\\ud800"]
    assert list(table.columns)[2] == ("=load" if formulas else "'=load")
    assert table.iloc[:, 2].tolist() == found.tasks.descriptors[:, 0].tolist(), "numbers stay as they are"
    assert table["solution_0"].tolist() == [-1.5] * len(HOSTILE)


@pytest.mark.parametrize("formulas", [False, True])
def test_command_exports_formulas_only_on_request(tmp_path, formulas, capsys):
    hostile_result().save(tmp_path / "result.npz")
    flags = ["--formulas"] if formulas else []
    assert main(["export", str(tmp_path / "result.npz"), "--out", str(tmp_path / "tasks.csv"), *flags]) == 0
    assert list(pd.read_csv(tmp_path / "tasks.csv").columns)[2] == ("=load" if formulas else "'=load")


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_other_formats_keep_all_texts_unchanged(tmp_path, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    found = hostile_result()
    path = tmp_path / f"tasks.{kind}"
    write_table(path, one_table([({}, found)]), found.tasks.names)
    if kind == "parquet":
        assert pd.read_parquet(path)["task"].tolist()[:9] == HOSTILE[:9]
    else:
        assert np.load(path)["task"].tolist()[:9] == HOSTILE[:9]


def test_export_does_not_modify_table():
    table = pd.DataFrame([["=1", 2, None, True], ["x", -3.5, "-", False]], columns=["=a", "b", "b", "c"])
    before = table.copy()
    safe = no_formulas(table)
    pd.testing.assert_frame_equal(table, before)
    assert safe.to_csv(index=False) == "'=a,b,b,c\n'=1,2.0,,True\nx,-3.5,'-,False\n"
    assert no_formulas(pd.DataFrame()).empty


@pytest.mark.thorough
def test_formulas_in_comparison_tables_are_escaped(tmp_path):
    history = [(100, 1.0, 0.0, 0.0, 1.0)]
    found = te.Comparison(results={"=cmd|x": [result([1.0, 2.0], history)], "-b": [result([2.0, 3.0], history)]})
    found.save(tmp_path / "safe")
    found.save(tmp_path / "raw", formulas=True)
    for name in ("summary", "replicates", "tests", "curves"):
        cells = set(pd.read_csv(tmp_path / "safe" / f"{name}.csv").iloc[:, 0])
        assert cells <= {"'=cmd|x", "'-b"}, name
        assert set(pd.read_csv(tmp_path / "raw" / f"{name}.csv").iloc[:, 0]) <= {"=cmd|x", "-b"}, name


def test_formulas_in_metric_names_are_escaped(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.add_metrics({"evaluations": 1, "=tried_\ud800": -2})
    assert (folder.path / "metrics.csv").read_text() == "evaluations,'=tried_\\ud800\n1,-2\n"
    folder.write_metrics({"evaluations": np.array([1]), "=tried_\ud800": np.array([-2])})
    assert (folder.path / "metrics.csv").read_text().splitlines() == ["evaluations,'=tried_\\ud800", "1,-2"]


class Odd:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        return f"=\ud800{self.number}"


def test_run_accepts_texts_with_lone_surrogates(tmp_path):
    def fitness(solution, task):
        if solution[0] < 0.2:
            raise ValueError(f"\udcff{task!r}")
        return sphere_each(solution, np.array([task.number / 30]))

    tasks = te.Tasks([Odd(number) for number in range(30)], descriptors=np.arange(30.0)[:, None], names=["\ud800"])
    out = tmp_path / "run"
    with pytest.warns(te.errors.FitnessWarning):
        found = te.solve(
            fitness, tasks, bounds=(0, 1), dim=1, evaluations=300, algorithm="random", out=out,
            request={"note": "\ud800"},
        )  # fmt: skip
    assert "\\udcff" in (out / "run.log").read_text()
    assert failures(out)[0].message.count("\udcff")
    assert json.loads((out / "run.json").read_text())["request"] == {"note": "\ud800"}
    loaded = te.load(out)
    assert loaded.tasks.objects[3] == "=\ud8003"
    assert loaded.tasks.names == ("\ud800",)
    assert np.array_equal(loaded.fitness, found.fitness, equal_nan=True)
    te.show.report(loaded, tmp_path / "report.html", failures=failures(out), drawing_time=0)
    assert (tmp_path / "report.html").stat().st_size > 10_000
