"""Export to tables and pyribs archives, and the HTML representation in notebooks."""

import builtins
import csv
import io
import json
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import taskelites as te
from taskelites.cli import main
from taskelites.results.export import check_target, one_table, write_table


def make_result(fitness, descriptors=None, **kwargs):
    """Return a result with the given fitness; the solution of task i is (i, i + 0.5)."""
    fitness = np.array(fitness, dtype=float)
    numbers = np.arange(len(fitness), dtype=float)
    tasks = te.Tasks(
        descriptors=numbers[:, None] / 3 if descriptors is None else descriptors, names=kwargs.pop("names", None)
    )
    return te.Result(
        solutions=np.where(np.isfinite(fitness)[:, None], numbers[:, None] + [0, 0.5], np.nan),
        fitness=fitness,
        **({"tasks": tasks} | kwargs),
        evaluations=9,
        task_evaluations=np.full(len(fitness), 3),
        last_improved=np.arange(len(fitness)),
    )


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    make_result([0.1, np.nan, 1 / 3], names=["load"], optimum=np.ones(3)).save(folder / "result.npz")
    return folder


COLUMNS = ["task_id", "load", "fitness", "optimum", "evaluations", "last_improved", "solution_0", "solution_1"]


def test_known_optimum_has_a_column():
    frame = make_result([0.1, np.nan], names=["load"], optimum=np.array([1.0, 2.0])).to_dataframe()
    assert list(frame.columns) == COLUMNS
    assert frame["optimum"].tolist() == [1, 2]
    assert frame["solution_1"].isna().tolist() == [False, True]
    assert "optimum" not in make_result([0.1]).to_dataframe()


def test_csv_is_exact(run, capsys):
    assert main(["export", str(run)]) == 0
    assert capsys.readouterr().out == f"saved        {run}/tasks.csv (3 rows, 8 columns)\n"
    with (run / "tasks.csv").open(newline="") as file:  # read with Python's float, which is exact
        header, *rows = csv.reader(file)
    assert header == COLUMNS
    numbers = np.array([[float(cell or "nan") for cell in row] for row in rows])
    np.testing.assert_array_equal(numbers, te.load(run).to_dataframe().to_numpy())
    assert (run / "tasks.csv").read_text().splitlines()[2] == f"1,{1 / 3!r},,1.0,3,1,,"


def test_csv_of_32_bit_numbers_is_exact(tmp_path):
    result = make_result([0.1, 1 / 3, 1e-30])
    result = replace(result, fitness=result.fitness.astype(np.float32))
    write_table(tmp_path / "x.csv", one_table([({}, result)]), result.tasks.names)
    read = [float(line.split(",")[2]) for line in (tmp_path / "x.csv").read_text().splitlines()[1:]]
    assert np.array_equal(np.array(read, np.float32), result.fitness)


def test_parquet_is_exact(run):
    assert main(["export", str(run / "result.npz"), "--format", "parquet"]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(run / "tasks.parquet"), te.load(run).to_dataframe(), check_exact=True)


def test_npz_contains_plain_arrays(run, tmp_path):
    assert main(["export", str(run), "--out", str(tmp_path / "x.npz")]) == 0
    result = te.load(run)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {
            *("task_id", "fitness", "optimum", "evaluations", "last_improved"),
            *("solutions", "descriptors", "descriptor_names"),
        }
        np.testing.assert_array_equal(arrays["solutions"], result.solutions)
        np.testing.assert_array_equal(arrays["descriptors"], result.tasks.descriptors)
        np.testing.assert_array_equal(arrays["fitness"], result.fitness)
        assert arrays["descriptor_names"].tolist() == ["load"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_task_objects_are_exported_as_text(kind, tmp_path):
    texts = ['a,"b"\n=1+1', "é", "x"]
    result = make_result([1, 2, 3], tasks=te.Tasks(texts))
    path = tmp_path / f"x.{kind}"
    write_table(path, one_table([({}, result)]), ())
    if kind == "npz":
        assert np.load(path, allow_pickle=False)["task"].tolist() == texts
    else:
        frame = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
        assert frame["task"].tolist() == texts


@pytest.mark.filterwarnings("default:.*the others are ignored")
def test_replicates_have_a_column(tmp_path, capsys):
    for number in (0, 2, 10):
        (tmp_path / f"replicate-{number}").mkdir()
        make_result([number, 5]).save(tmp_path / f"replicate-{number}/result.npz")
    (tmp_path / "replicate-11").mkdir()  # not finished
    assert main(["export", str(tmp_path), "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "(6 rows, 8 columns, 3 runs)" in out
    assert "warning: 3 of 4 runs have a result; the others are ignored" in err
    frame = pd.read_csv(tmp_path / "tasks.csv")
    assert frame[["replicate", "task_id", "fitness"]].to_numpy().tolist() == [
        *([0, 0, 0], [0, 1, 5], [2, 0, 2], [2, 1, 5]),
        *([10, 0, 10], [10, 1, 5]),
    ]
    assert main(["export", str(tmp_path / "replicate-2")]) == 0
    assert "replicate" not in pd.read_csv(tmp_path / "replicate-2/tasks.csv")


@pytest.mark.filterwarnings("default:.*the others are ignored")
def test_comparison_has_columns_for_algorithm_and_replicate(tmp_path, capsys):
    settings = {"algorithms": {"a b": {}, "random": {}}, "replicates": 2}
    document = {"format": "taskelites-comparison", "version": 1, "settings": settings}
    (tmp_path / "comparison.json").write_text(json.dumps(document))
    assert main(["export", str(tmp_path)]) == 2
    assert "has no finished run" in capsys.readouterr().err
    for folder, number in (("a-b", 0), ("a-b", 1), ("random", 1)):
        (tmp_path / f"runs/{folder}/replicate-{number}").mkdir(parents=True)
        make_result([len(folder), number]).save(tmp_path / f"runs/{folder}/replicate-{number}/result.npz")
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "all.parquet"), "--quiet"]) == 0
    frame = pd.read_parquet(tmp_path / "all.parquet")
    assert frame.iloc[:, [0, 1, 2, 4]].to_numpy().tolist() == [
        *(["a b", 0, 0, 3], ["a b", 0, 1, 0]),
        *(["a b", 1, 0, 3], ["a b", 1, 1, 1]),
        *(["random", 1, 0, 6], ["random", 1, 1, 1]),
    ]
    assert list(frame.columns[:5]) == ["algorithm", "replicate", "task_id", "descriptor_0", "fitness"]
    assert "warning: random: 1 of 2 runs have a result; the others are ignored" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_export_overwrites_earlier_exports_only(run, kind, capsys):
    line = ["export", str(run), "--out", str(run / f"x.{kind}")]
    assert main(line) == 0
    first = (run / f"x.{kind}").read_bytes()
    assert main(line) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("replaced     ")
    assert (run / f"x.{kind}").read_bytes() == first
    (run / f"x.{kind}").write_bytes(b"mine")
    assert main(line) == 2
    assert "is not an earlier export, so it is not overwritten; choose another file" in capsys.readouterr().err
    assert (run / f"x.{kind}").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_earlier_export_is_recognised_for_any_descriptor_names(tmp_path, kind, monkeypatch):
    opened = []

    class Watched(zipfile.ZipFile):
        def __init__(self, *args, **kwargs):
            opened.append(self)
            super().__init__(*args, **kwargs)

    result = make_result([0.1], [[1.0, 2.0, 3.0]], names=["a\nb", 'c,"d"\r', "e"])
    path = tmp_path / f"x.{kind}"
    write_table(path, one_table([({}, result)]), result.tasks.names)
    monkeypatch.setattr(zipfile, "ZipFile", Watched)
    assert check_target(path, kind)
    assert len(opened) == (kind == "npz")
    assert all(file.fp is None for file in opened)  # closed
    for other in (b"", b'"' + b"x" * 200_000, b"PK\x05\x06" + bytes(18), b"task_id,fitness\n1,last_improved\n"):
        path.write_bytes(other)
        with pytest.raises(FileExistsError, match="not an earlier export, so it is not overwritten"):
            check_target(path, kind)


def test_export_does_not_overwrite_the_result(run, capsys):
    before = (run / "result.npz").read_bytes()
    assert main(["export", str(run), "--out", str(run / "result.npz")]) == 2
    assert "not an earlier export, so it is not overwritten" in capsys.readouterr().err
    assert (run / "result.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        (["{run}", "--out", "x.txt"], r"--out must end in \.csv, \.parquet or \.npz, not 'x\.txt'"),
        (["{run}", "--out", "x.csv", "--format", "npz"], r"--out ends in \.csv, but --format is npz; leave one"),
        (["{run}", "--out", "nowhere/x.csv"], "there is no folder 'nowhere' to write 'x.csv' to"),
        (["{run}/.."], "there is no result .*; there are some in its folders 'run' to 'run'"),
    ],
)
def test_invalid_arguments_of_export(run, words, message, capsys):
    assert main(["export", *(word.format(run=run) for word in words)]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_export_of_unfinished_run_raises_error(tmp_path, capsys):
    (tmp_path / "run.json").write_text('{"format": "taskelites-run", "version": 1}')
    assert main(["export", str(tmp_path)]) == 2
    assert "has no result yet, since it has neither ended nor been stopped" in capsys.readouterr().err


def hide_package(monkeypatch, missing):
    """Make imports of a package fail, as if it was not installed."""
    real = builtins.__import__

    def look(name, *args, **kwargs):
        if name.split(".")[0] == missing:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", look)


def test_missing_packages_raise_errors(run, monkeypatch, capsys):
    hide_package(monkeypatch, "pyarrow")
    assert main(["export", str(run), "--format", "parquet"]) == 2
    assert "Parquet needs the package pyarrow: pip install 'taskelites[parquet]'" in capsys.readouterr().err
    hide_package(monkeypatch, "ribs")
    with pytest.raises(ImportError, match=r"to_pyribs needs the package ribs, 0\.9 or newer: pip install"):
        make_result([1]).to_pyribs()


def test_pyribs_archive_has_each_elite_in_cell_of_its_task(small_arm):
    result = te.solve(small_arm, evaluations=300)
    assert 0 < result.coverage < 1
    archive = result.to_pyribs()
    assert np.array_equal(archive.centroids, result.tasks.descriptors)
    data = archive.data()
    order = np.argsort(data["index"])
    solved = np.flatnonzero(result.solved)
    assert data["index"][order].tolist() == solved.tolist()
    assert np.array_equal(data["solution"][order], result.solutions[solved])
    assert np.array_equal(data["objective"][order], result.fitness[solved])
    assert np.array_equal(data["measures"][order], result.tasks.descriptors[solved])
    assert data["objective"].dtype == np.float64
    assert archive.stats.coverage == result.coverage


def test_pyribs_plots_the_archive(small_arm):
    visualize = pytest.importorskip("ribs.visualize")
    archive = te.solve(small_arm, evaluations=300).to_pyribs()
    _, axes = plt.subplots()
    visualize.cvt_archive_heatmap(archive, axes)
    assert len(axes.collections[0].get_paths()) == 200
    # The bounds leave a margin around the outermost tasks, so that their cells are complete.
    low, high = archive.centroids.min(axis=0), archive.centroids.max(axis=0)
    assert (archive.lower_bounds < low).all()
    assert (archive.upper_bounds > high).all()
    visualize.cvt_archive_heatmap(make_result([1, 2, 3]).to_pyribs(), plt.subplots()[1])  # one descriptor
    plt.close("all")


def test_bounds_of_pyribs_archive():
    archive = make_result([1, 2, 3, 4], [[0, 7], [1, 7], [2, 7], [4, 7]]).to_pyribs()
    # With four tasks in two dimensions, a cell is half as wide as the range. A constant descriptor gets a width of one.
    assert archive.lower_bounds.tolist() == [-1, 6.5]
    assert archive.upper_bounds.tolist() == [5, 7.5]
    given = make_result([1, 2]).to_pyribs(ranges=[(0, 1)], qd_score_offset=-3.0)
    assert given.upper_bounds.tolist() == [1]
    assert given.stats.qd_score == 1 + 2 + 2 * 3


def test_equal_descriptors_keep_best_elite_with_warning():
    result = make_result([1, 5, 2, np.nan], [[0.0], [0.0], [1.0], [2.0]])
    with pytest.warns(te.errors.TaskWarning, match="1 of 4 tasks share their descriptors with another"):
        archive = result.to_pyribs()
    assert sorted(archive.data("objective").tolist()) == [2, 5]


def test_unsolved_result_gives_empty_archive():
    archive = make_result([np.nan, np.nan]).to_pyribs()
    assert archive.empty
    assert archive.cells == 2


def test_invalid_arguments_of_to_pyribs():
    with pytest.raises(ValueError, match="to_pyribs needs descriptors for the centroids"):
        make_result([1, 2], tasks=te.Tasks(["a", "b"])).to_pyribs()
    with pytest.raises(TypeError, match="to_pyribs takes centroids from the result; leave it out"):
        make_result([1]).to_pyribs(centroids=3)


HISTORY = {"evaluations": [10, 100, 1000], "mean": [0.0, 1.0, 2.0], "q05": [-1, 0, 1], "q95": [1, 2, 3]}


def test_notebook_shows_summary_and_curve():
    history = {name: np.array(column) for name, column in HISTORY.items()}
    page = make_result(
        [1, 2], history=history, settings={"algorithm": {"name": "mine"}, "problem": "p", "seed": 3}
    )._repr_html_()
    tree = ElementTree.parse(io.StringIO(page))  # must be well formed
    assert tree.find(".//strong").text == "Result of mine on p, seed 3"
    cells = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert cells[:3] == [["evaluations", "9"], ["coverage", "100 % (2 of 2 tasks)"], ["mean", "1.5"]]
    # The x-axis is logarithmic; the y-axis goes from -1 at the bottom to 3 at the top.
    assert tree.find(".//polyline").get("points") == "0.0,67.5 110.0,45.0 220.0,22.5"
    assert "<svg" not in make_result([1, 2])._repr_html_()


def test_notebook_escapes_html():
    hostile = "<script>alert('x')</script>\"&"
    page = make_result([1, np.nan], settings={"problem": hostile, "algorithm": "odd"}, failed=2, failures={hostile: 2})
    assert "<script" not in page._repr_html_()
    assert page._repr_html_().count("&lt;script&gt;") == 2
    ElementTree.parse(io.StringIO(page._repr_html_()))


def test_notebook_shows_comparison():
    row = {"evaluations": 9, "seconds": 0.5, "coverage": 1.0, "mean": 1.5, "lowest": 1.0}
    run = make_result([1, 2], history={name: np.array([value]) for name, value in row.items()})
    found = te.Comparison(results={"<b>": [run]})
    tree = ElementTree.parse(io.StringIO(found._repr_html_()))
    cells = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert [row[:3] for row in cells] == [["algorithm", "mean over all tasks", "coverage"], ["<b>", "1.5", "100 %"]]
    assert repr(found) == "<Comparison: 1 algorithm, 1 run of 9 evaluations>"


def test_singular_and_unsolved_results_in_repr_and_summary():
    assert repr(make_result([0.5])) == "<Result: 1 of 1 task solved, mean fitness 0.5, 9 evaluations>"
    nothing = replace(make_result([np.nan, np.nan]), evaluations=1)
    assert repr(nothing) == "<Result: 0 of 2 tasks solved, 1 evaluation>"
    assert nothing.summary() == "evaluations  1\ncoverage     0 % (0 of 2 tasks)"
