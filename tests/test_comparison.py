"""Comparisons: measures by hand, files, going on, adding, mistakes."""

import json
import math
import shutil

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from conftest import sphere

import taskelites as te
from taskelites import show
from taskelites.experiments.running import label_algorithms

TASKS = te.tasks.grid((40,), [0], [1])
TWO = ["mt-map-elites", "random"]


def domain(**options):
    given = {"name": "line", "fitness": sphere, "tasks": TASKS, "bounds": (0, 1), "dim": 2, "call": "batch"}
    return te.Domain(**given | options)


def compare(out=None, problem=None, algorithms=TWO, **options):
    given = {"replicates": 3, "evaluations": 640, "batch_size": 16}
    return te.compare(problem or domain(), algorithms=algorithms, out=out, **given | options)


def result(fitness, history, name="mine", seed=0, **more):
    """A result as a run would have left it."""
    fitness = np.array(fitness, float)
    columns = ("evaluations", "coverage", "mean", "lowest", "seconds")
    return te.Result(
        solutions=np.zeros((len(fitness), 1)),
        fitness=fitness,
        tasks=te.Tasks(descriptors=np.arange(len(fitness))[:, None]),
        evaluations=int(history[-1][0]),
        task_evaluations=np.ones(len(fitness), int),
        last_improved=np.ones(len(fitness), int),
        history={name: np.array(column) for name, column in zip(columns, zip(*history, strict=True), strict=True)},
        settings={"algorithm": {"name": name}, "seed": seed},
        **more,
    )


def by_hand(**more):
    """Two tasks. Random ends at 0; mine has one task at 2 after 10 evaluations, both at 4 after 20 of 40."""
    mine = result([4.0, 4.0], [(10, 0.5, 2.0, 2.0, 0.1), (20, 1.0, 4.0, 4.0, 0.2), (40, 1.0, 4.0, 4.0, 0.5)], **more)
    late = result([4.0, np.nan], [(10, 0.0, np.nan, np.nan, 0.1), (40, 0.5, 4.0, 4.0, 0.6)], seed=1, **more)
    rest = result([0.0, 0.0], [(10, 1.0, -1.0, -3.0, 0.1), (40, 1.0, 0.0, 0.0, 0.7)], name="random", **more)
    return te.Comparison(results={"mine": [mine, late], "random": [rest]})


def test_measures_by_hand_where_the_worst_is_what_was_seen():
    found = by_hand()
    assert found.worst.tolist() == [-3.0, -3.0]  # the lowest fitness in any history
    first, second, random = found.replicates().to_dict("records")
    assert first["mean_all"] == 4.0
    assert second["mean_all"] == 0.5  # (4 - 3) / 2
    assert (first["coverage"], second["coverage"]) == (1.0, 0.5)
    # Steps: -3 until 10, (2 - 3) / 2 until 20, then 4.
    assert first["area"] == pytest.approx((10 * -3 + 10 * -0.5 + 20 * 4) / 40)
    assert second["area"] == -3.0
    # 99 % of the way from 0, where random ends, to 4, the best that is known.
    assert first["evaluations_to_99"] == 20
    assert second["evaluations_to_99"] == math.inf
    assert math.isnan(first["gap"])
    assert first["seconds"] == 0.5
    assert random["mean_all"] == 0.0
    points, curves = found.curves("mine")
    assert points.tolist() == [10, 20, 40]
    assert curves.tolist() == [[-0.5, 4.0, 4.0], [-3.0, -3.0, 0.5]]
    table = found.table()
    assert table.loc["mine", "mean_all_median"] == 2.25
    assert table.loc["mine", "evaluations_to_99_q3"] == math.inf
    assert "never" in found.summary() or "some never" in found.summary()


def test_measures_by_hand_where_the_domain_knows_worst_and_optimum():
    found = by_hand(worst=np.array([-10.0, -20.0]), optimum=np.array([4.0, 12.0]))
    first, second, _ = found.replicates().to_dict("records")
    assert second["mean_all"] == (4 - 20) / 2
    assert first["gap"] == 4.0
    assert math.isnan(second["gap"])  # unsolved tasks have none
    assert first["evaluations_to_99"] == math.inf  # the way ends at the optimum, 8
    assert found.curves("mine")[1][1].tolist() == [-15.0, -15.0, 0.5 * 4 + 0.5 * -15]


def test_without_random_there_is_no_way_to_measure_from():
    found = te.Comparison(results={"mine": by_hand().results["mine"]})
    assert math.isnan(found.replicates()["evaluations_to_99"][0])
    assert "they are counted from the final value of random, which took no part" in found.summary()
    assert "to 99 %  " not in found.summary()


def test_time_of_replicates_that_ran_side_by_side_is_shared():
    run = by_hand().results["mine"][0]
    run.settings["side_by_side"] = 5
    assert te.Comparison(results={"mine": [run]}).replicates()["seconds"][0] == pytest.approx(0.1)


def test_runs_are_those_of_solve():
    found = compare(seed=4)
    alone = te.solve(domain(), evaluations=640, batch_size=16, seed=5)
    assert np.array_equal(found.results["mt-map-elites"][1].solutions, alone.solutions)
    assert found.labels == TWO
    assert repr(found) == "<Comparison: 2 algorithms, 6 runs of 640 evaluations>"


def test_a_jax_fitness_takes_part(small_arm):
    found = te.compare(small_arm, algorithms=TWO, replicates=2, evaluations=3000)
    assert (found.table()["coverage_median"] == 1).all()
    assert found.tests()["a12"].tolist() == [1.0]


def test_everything_is_saved_and_read_again(tmp_path):
    found = compare(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {"summary.csv", "replicates.csv", "tests.csv", "curves.csv"}
    assert names == tables | {"comparison.json", "comparison.png", "comparison.pdf", "runs"}
    assert pd.read_csv(tmp_path / "out/replicates.csv")["mean_all"].tolist() == found.replicates()["mean_all"].tolist()
    assert len(pd.read_csv(tmp_path / "out/tests.csv")) == 1
    document = json.loads((tmp_path / "out/comparison.json").read_text())
    assert document["settings"]["evaluations"] == 640
    assert document["settings"]["algorithms"]["random"]["name"] == "random"
    again = te.Comparison.load(tmp_path / "out")
    assert again.replicates().equals(found.replicates())
    assert te.load(tmp_path / "out/runs/random/replicate-2").settings["seed"] == 2


def test_it_goes_on_with_the_runs_that_are_missing(tmp_path, capfd):
    calls = []

    def counted(solutions, tasks):
        calls.append(len(solutions))
        return sphere(solutions, tasks)

    problem = domain(fitness=counted)
    first = compare(tmp_path, problem)
    assert sum(calls) == 6 * 640
    shutil.rmtree(tmp_path / "runs/random/replicate-1")
    (tmp_path / "runs/mt-map-elites/replicate-2/result.npz").write_bytes(b"cut")
    calls.clear()
    with pytest.warns(UserWarning, match=r"result.npz' is damaged or no taskelites result .* it is made again"):
        second = compare(tmp_path, problem, progress=True)
    assert sum(calls) == 2 * 640
    assert "mt-map-elites: 2 of 3 runs are there" in capfd.readouterr().err
    same = ["mean_all", "area", "coverage", "evaluations_to_99"]
    assert second.replicates()[same].equals(first.replicates()[same])


def test_more_replicates_can_be_asked_for_later_but_not_fewer(tmp_path):
    compare(tmp_path)
    more = compare(tmp_path, replicates=4)
    assert more.table()["runs"].tolist() == [4, 4]
    with pytest.raises(ValueError, match=r"replicates must be at least the 4 of the comparison in .*, not 3"):
        compare(tmp_path)


def test_an_interrupted_comparison_keeps_what_is_finished(tmp_path):
    calls = []

    def impatient(solutions, tasks):
        calls.append(len(solutions))
        if sum(calls) > 1000:
            raise KeyboardInterrupt
        return sphere(solutions, tasks)

    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path, domain(fitness=impatient))
    kept = sorted(path.parent.name for path in tmp_path.glob("runs/*/*/result.npz"))
    assert kept == ["replicate-0"]  # the half run is not taken for a whole one
    calls.clear()
    whole = compare(tmp_path)
    alone = compare()
    assert np.array_equal(whole.replicates()["mean_all"], alone.replicates()["mean_all"])


def test_another_algorithm_can_be_added_on_the_same_terms(tmp_path):
    compare(tmp_path)
    fixed = te.MultiTaskMapElites(tournament=5)
    added = te.compare(domain(), algorithms=[fixed], out=tmp_path, add=True)
    assert added.labels == [*TWO, "mt-map-elites(tournament=5)"]
    assert added.budget == 640
    assert len(added.tests()) == 3
    assert len(pd.read_csv(tmp_path / "summary.csv")) == 3
    alone = te.solve(domain(), evaluations=640, batch_size=16, seed=2, algorithm=fixed)
    assert np.array_equal(added.results["mt-map-elites(tournament=5)"][2].fitness, alone.fitness)


def test_the_wrong_folder_is_refused_and_nothing_is_lost(tmp_path):
    compare(tmp_path / "a")
    before = (tmp_path / "a/comparison.json").read_bytes()
    with pytest.raises(
        ValueError, match=r"holds a comparison with evaluations 640, and this one has 700; make them agree"
    ):
        compare(tmp_path / "a", evaluations=700)
    with pytest.raises(ValueError, match=r"holds a comparison with tasks \{'number': 40"):
        compare(tmp_path / "a", domain(tasks=te.tasks.grid((41,), [0], [1])))
    with pytest.raises(ValueError, match=r"compares mt-map-elites, random, not cma-es; add=True \(--add\)"):
        compare(tmp_path / "a", algorithms=["cma-es"])
    with pytest.raises(ValueError, match="compares another 'random'"):
        compare(tmp_path / "a", algorithms={"random": "cma-es"}, add=True)
    assert (tmp_path / "a/comparison.json").read_bytes() == before
    (tmp_path / "b").mkdir()
    (tmp_path / "b/note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and holds no comparison: name a new folder"):
        compare(tmp_path / "b")
    with pytest.raises(FileNotFoundError, match="add needs a comparison in out, and there is none"):
        compare(tmp_path / "c", add=True)
    (tmp_path / "a/comparison.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged or no comparison"):
        compare(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="there is no comparison in"):
        te.Comparison.load(tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"algorithms": "random"}, TypeError, "algorithms must be a list of names or settings"),
        ({"algorithms": []}, TypeError, "algorithms must be a list of names or settings"),
        (
            {"algorithms": ["random", "random"]},
            ValueError,
            "must not name 'random' twice; a dict can give each a label",
        ),
        ({"algorithms": {"a b": "random", "a-b": "cma-es"}}, ValueError, "'a b' and 'a-b' are too much alike"),
        ({"algorithms": ["randon"]}, ValueError, "did you mean 'random'"),
        ({"evaluations": None}, TypeError, "evaluations must be given: the budget of each run"),
        ({"replicates": 0}, ValueError, "replicates must be a whole number of at least 1"),
    ],
)
def test_mistakes_are_named(options, error, message):
    with pytest.raises(error, match=message):
        compare(**options)


def test_labels_name_what_is_not_the_default():
    made = label_algorithms(
        [te.MultiTaskMapElites(), te.MultiTaskMapElites(tournament=[1, 10]), te.CmaEs(population=20)]
    )
    assert list(made) == ["mt-map-elites", "mt-map-elites(tournament=(1, 10))", "cma-es(population=20)"]
    sbx = label_algorithms([te.MapElitesRandom(variation="sbx")])
    assert list(sbx) == ["map-elites-random(variation=SBX(eta=10.0))"]


def test_the_figure_shows_medians_bands_and_all_runs():
    found = by_hand(worst=np.array([-10.0, -20.0]), optimum=np.array([4.0, 12.0]))
    left, right = found.plot().axes
    assert left.get_ylabel() == "mean gap to the optimum"
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["mine", "random"]
    values = 8.0 - found.curves("mine")[1]
    assert np.allclose(left.lines[0].get_ydata(), np.median(values, axis=0))
    assert len(left.collections) == 2
    points = [line for line in right.lines if line.get_marker() == "o"]
    assert sorted(points[0].get_xdata().tolist()) == sorted(values[:, -1].tolist())
    assert right.get_xlabel() == "mean gap to the optimum\nafter 40 evaluations"
    plt.close("all")


def test_without_an_optimum_the_figure_shows_the_mean():
    found = by_hand()
    axes = show.curves(found, labels=["random"])
    assert axes.get_ylabel() == "mean fitness over all tasks"
    assert axes.get_yscale() == "linear"
    with pytest.raises(ValueError, match="measure 'gap' needs the optimum of each task"):
        show.finals(found, measure="gap")
    with pytest.raises(ValueError, match="measure must be 'gap' or 'mean_all', not 'mean'"):
        show.curves(found, measure="mean")
    with pytest.raises(ValueError, match="labels must be some of mine, random, not 'his'"):
        show.curves(found, labels=["his"])
    plt.close("all")
