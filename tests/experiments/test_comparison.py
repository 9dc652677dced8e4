"""Comparisons: hand-calculated measures, files, resuming, added algorithms and invalid arguments."""

import json
import math
import os
import shutil
import signal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from spheres import result, sphere

import taskelites as te
from taskelites import show
from taskelites.experiments.comparison.run import label_algorithms
from taskelites.runs import Checkpointer

TASKS = te.tasks.grid((40,), [0], [1])
TWO = ["mt-map-elites", "random"]

# For fitness functions that count their calls in a closure, which changes.
COUNTS = pytest.mark.filterwarnings("ignore:.*A counter or a cache of the fitness does no harm:UserWarning")


def domain(**options):
    given = {"name": "line", "fitness": sphere, "tasks": TASKS, "bounds": (0, 1), "dim": 2, "call": "batch"}
    return te.Domain(**given | options)


def compare(out=None, problem=None, algorithms=TWO, **options):
    given = {"replicates": 3, "evaluations": 640, "batch_size": 16}
    return te.compare(problem or domain(), algorithms=algorithms, out=out, **given | options)


def synthetic_comparison(**more):
    """Return a comparison on two tasks, with 40 evaluations per run.

    `random` ends at 0. The first run of `mine` reaches 2 on one task after 10 evaluations, and 4 on both after 20.
    """
    mine = result([4.0, 4.0], [(10, 0.5, 2.0, 2.0, 0.1), (20, 1.0, 4.0, 4.0, 0.2), (40, 1.0, 4.0, 4.0, 0.5)], **more)
    late = result([4.0, np.nan], [(10, 0.0, np.nan, np.nan, 0.1), (40, 0.5, 4.0, 4.0, 0.6)], seed=1, **more)
    rest = result([0.0, 0.0], [(10, 1.0, -1.0, -3.0, 0.1), (40, 1.0, 0.0, 0.0, 0.7)], name="random", **more)
    return te.Comparison(results={"mine": [mine, late], "random": [rest]})


def test_hand_calculated_measures_with_lowest_observed_fitness_as_worst():
    found = synthetic_comparison()
    assert found.worst.tolist() == [-3.0, -3.0]  # the lowest fitness in any history
    first, second, random = found.replicates().to_dict("records")
    assert first["mean_all"] == 4.0
    assert second["mean_all"] == 0.5  # (4 - 3) / 2
    assert (first["coverage"], second["coverage"]) == (1.0, 0.5)
    # Steps: -3 until 10, (2 - 3) / 2 until 20, then 4.
    assert first["area"] == pytest.approx((10 * -3 + 10 * -0.5 + 20 * 4) / 40)
    assert second["area"] == -3.0
    # 99 % of the way from 0, the final value of random, to 4, the best known value.
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
    assert "20 (some never)" in found.summary()


def test_hand_calculated_measures_with_worst_and_optimum_of_domain():
    found = synthetic_comparison(worst=np.array([-10.0, -20.0]), optimum=np.array([4.0, 12.0]))
    first, second, _ = found.replicates().to_dict("records")
    assert second["mean_all"] == (4 - 20) / 2
    assert first["gap"] == 4.0
    assert second["gap"] == 8.0 - second["mean_all"]  # an unsolved task counts as its worst fitness
    assert first["evaluations_to_99"] == math.inf  # relative to the optimum, 8
    assert found.curves("mine")[1][1].tolist() == [-15.0, -15.0, 0.5 * 4 + 0.5 * -15]


def test_evaluations_to_99_percent_need_random():
    found = te.Comparison(results={"mine": synthetic_comparison().results["mine"]})
    assert math.isnan(found.replicates()["evaluations_to_99"][0])
    assert "they are counted from the final value of random, which took no part" in found.summary()
    assert "\nto 99 %:" not in found.summary()


def test_time_of_parallel_replicates_is_divided():
    run = synthetic_comparison().results["mine"][0]
    run.settings["side_by_side"] = 5
    assert te.Comparison(results={"mine": [run]}).replicates()["seconds"][0] == pytest.approx(0.1)


def test_runs_equal_solve():
    found = compare(seed=4)
    alone = te.solve(domain(), evaluations=640, batch_size=16, seed=5, algorithm="mt-map-elites")
    assert np.array_equal(found.results["mt-map-elites"][1].solutions, alone.solutions)
    assert found.labels == TWO
    assert repr(found) == "<Comparison: 2 algorithms, 6 runs of 640 evaluations>"


def test_compare_with_jax_fitness(small_arm):
    found = te.compare(small_arm, algorithms=TWO, replicates=2, evaluations=3000)
    assert (found.table()["coverage_median"] == 1).all()
    assert found.tests()["a12"].tolist() == [1.0]


def test_comparison_is_saved_and_loaded(tmp_path):
    found = compare(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = {"summary.csv", "replicates.csv", "tests.csv", "curves.csv"}
    assert names == tables | {".lock", "comparison.json", "comparison.png", "comparison.pdf", "runs"}
    assert pd.read_csv(tmp_path / "out/replicates.csv")["mean_all"].tolist() == found.replicates()["mean_all"].tolist()
    assert len(pd.read_csv(tmp_path / "out/tests.csv")) == 1
    document = json.loads((tmp_path / "out/comparison.json").read_text())
    assert document["settings"]["evaluations"] == 640
    assert document["settings"]["algorithms"]["random"]["name"] == "random"
    again = te.Comparison.load(tmp_path / "out")
    assert again.replicates().equals(found.replicates())
    assert te.load(tmp_path / "out/runs/random/replicate-2").settings["seed"] == 2


def test_second_call_makes_missing_and_damaged_runs_only(tmp_path, capfd):
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
    with pytest.warns(UserWarning, match=r"result.npz' is damaged or not a taskelites result .* it is made again"):
        second = compare(tmp_path, problem, progress=True)
    assert sum(calls) == 2 * 640
    assert "mt-map-elites: 2 of 3 runs are there" in capfd.readouterr().err
    same = ["mean_all", "area", "coverage", "evaluations_to_99"]
    assert second.replicates()[same].equals(first.replicates()[same])


def test_replicates_can_be_added_later(tmp_path):
    compare(tmp_path)
    uneven = compare(tmp_path, algorithms=["random"], replicates=4)
    assert uneven.table()["runs"].tolist() == [3, 4]
    assert "missing: 1 run of mt-map-elites" in uneven.summary()
    assert uneven.summary().splitlines()[2].split()[:2] == ["algorithm", "runs"]
    assert compare(tmp_path).table()["runs"].tolist() == [4, 4]  # the same as the first call


def test_missing_and_damaged_runs_are_reported(tmp_path):
    compare(tmp_path)
    shutil.rmtree(tmp_path / "runs/random")
    (tmp_path / "runs/mt-map-elites/replicate-1/result.npz").write_bytes(b"cut")
    (tmp_path / "runs/mt-map-elites/replicate-old").mkdir()
    with pytest.warns(UserWarning, match="it is left out; run the comparison again to replace it"):
        loaded = te.Comparison.load(tmp_path)
    assert loaded.missing == {"mt-map-elites": 1, "random": 3}
    assert "missing: 1 run of mt-map-elites, 3 runs of random" in loaded.summary()


def test_changed_code_of_fitness_raises_error(tmp_path):
    def problem(factor):
        return domain(fitness=lambda x, t: factor * sphere(x, t))

    compare(tmp_path, problem(1.0))
    compare(tmp_path, problem(1.0))  # another function with the same code
    with pytest.raises(ValueError, match="holds a comparison whose fitness had other code; name a new folder"):
        compare(tmp_path, problem(2.0))


def test_changed_values_of_fitness_give_warning(tmp_path):
    def problem(table):
        return domain(fitness=lambda x, t: sphere(x, t) + table.sum())

    compare(tmp_path, problem(np.zeros(3)))
    compare(tmp_path, problem(np.zeros(3)))
    with pytest.warns(UserWarning, match="the fitness of the comparison in .* holds other values now"):
        compare(tmp_path, problem(np.ones(3)))


def own_algorithm(text):
    """Return an algorithm of a user's module, which is not a dataclass and has an address in its repr."""
    names = {}
    exec(compile(text, "own.py", "exec"), {"te": te, "__name__": "own"}, names)
    return names["Own"]()


OWN = """
class Own:
    name = "own"
    uses_distance = False

    def bind(self, problem, batch_size=64):
        return te.MultiTaskMapElites(tournament=SIZE).bind(problem, batch_size)
"""


def test_runs_of_users_algorithm_are_reused_unless_its_code_changed(tmp_path):
    compare(tmp_path, algorithms=[own_algorithm(OWN.replace("SIZE", "3"))])
    compare(tmp_path, algorithms=[own_algorithm(OWN.replace("SIZE", "3"))])
    changed = [own_algorithm(OWN.replace("SIZE", "5"))]
    with pytest.raises(
        ValueError, match=r"the runs of 'own' .* were made with other code than it has now; delete '.*own'"
    ):
        compare(tmp_path, algorithms=changed)
    shutil.rmtree(tmp_path / "runs/own")
    alone = te.solve(domain(), evaluations=640, batch_size=16, algorithm=te.MultiTaskMapElites(tournament=5))
    assert np.array_equal(compare(tmp_path, algorithms=changed).results["own"][0].fitness, alone.fitness)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("return te", "raise KeyError(1) or te"), r"'own': bind raised KeyError: 1 \(own.py, line 7\)"),
        (OWN.replace("return ", "return 1 or "), "algorithm 'own': init or ask raised AttributeError"),
        (OWN.replace('name = "own"', ""), "algorithm must have a name, but Own has none"),
    ],
)  # fmt: skip
def test_error_in_users_algorithm_is_raised_before_any_run(tmp_path, text, message):
    with pytest.raises((ValueError, TypeError), match=message):
        compare(tmp_path / "out", algorithms=["random", own_algorithm(text.replace("SIZE", "3"))])
    assert not (tmp_path / "out").exists()


def test_error_in_jax_fitness_is_raised_before_any_run(tmp_path):
    with pytest.raises(te.FitnessError, match="fitness must return a scalar"):
        compare(tmp_path / "out", domain(fitness=lambda solution, task: solution, call="jax"))
    assert not (tmp_path / "out").exists()


def test_other_task_objects_raise_error(tmp_path):
    def solve_objects(objects):
        tasks = te.Tasks(objects)
        problem = domain(tasks=tasks, fitness=lambda x, t: float(len(t) - x.sum()), call="each")
        return compare(tmp_path, problem, algorithms=["random"], replicates=1)

    solve_objects(["a", "bb"])
    solve_objects(["a", "bb"])
    with pytest.raises(ValueError, match="holds a comparison with objects"):
        solve_objects(["a", "bbb"])


@pytest.mark.parametrize(
    "options", [{"a": (1, 2)}, {"a": np.arange(3)}, {"a": float("nan")}, {"a": sphere}, {1: {2: 3}}]
)
def test_options_of_any_type_are_saved_and_compared(tmp_path, options):
    for _ in range(2):
        compare(tmp_path, domain(options=options), algorithms=["random"], replicates=1)


def test_added_labels_must_have_distinct_folder_names(tmp_path):
    compare(tmp_path, algorithms={"my alg": "random"})
    with pytest.raises(ValueError, match="labels must give different folder names, but 'my alg' and 'my-alg' do not"):
        compare(tmp_path, algorithms={"my-alg": "mt-map-elites"}, add=True)
    long = "x" * 70
    both = compare(tmp_path, algorithms={long + "a": "random", long + "b": "cma-es"}, add=True)
    assert len({path.name for path in (tmp_path / "runs").iterdir()}) == 3
    assert not np.array_equal(both.results[long + "a"][0].fitness, both.results[long + "b"][0].fitness)


def test_comparison_without_solved_tasks(tmp_path):
    failing = domain(fitness=lambda x, t: np.full(len(x), np.nan), optimum=np.zeros(40))
    with pytest.warns(te.errors.FitnessWarning) as caught:
        found = compare(tmp_path, failing)
    assert {"3,840 of 3,8", "no task was "} <= {str(item.message)[:12] for item in caught}
    assert found.tests()["p"].isna().all()
    assert "0 %" in found.summary()
    assert (tmp_path / "comparison.png").exists()


def test_worst_must_be_finite():
    with pytest.raises(ValueError, match=r"worst must be finite for a comparison, but worst\[0\] is not"):
        compare(problem=domain(worst=-np.inf))


def test_results_that_cannot_be_compared_raise_errors():
    run = te.solve(domain(), evaluations=64)
    other = te.solve(domain(tasks=te.tasks.grid((41,), [0], [1])), evaluations=64)
    with pytest.raises(ValueError, match="results must have the same tasks, but these have different ones"):
        te.Comparison(results={"a": [run], "b": [other]})
    with pytest.raises(TypeError, match="results must be of runs with a history"):
        te.Comparison(results={"a": [te.Optimizer(TASKS, bounds=(0, 1), dim=2).result()]})
    for results in ([run], {}, {"a": []}):
        with pytest.raises(ValueError, match="results must be a dict that maps labels to lists of results"):
            te.Comparison(results=results)
    found = te.Comparison(results={"a": [run]})
    with pytest.raises(ValueError, match="measure must be one of"):
        found.tests("gaap")
    with pytest.raises(ValueError, match="label must be one of 'a', not 'b'"):
        found.curves("b")


def test_summary_is_transposed_in_narrow_terminal():
    found = synthetic_comparison()
    assert max(map(len, found.summary(70).splitlines()[:12])) <= 70
    assert "\n  mean over all tasks  2.25" in found.summary(70)


def test_interruption_explains_how_to_resume(tmp_path):
    calls = []

    def interrupted(solutions, tasks):
        calls.append(len(solutions))
        if len(calls) == 60:
            os.kill(os.getpid(), signal.SIGINT)
        return sphere(solutions, tasks)

    with pytest.raises(
        te.Interrupted, match=r"interrupted after 1 of 3 runs of mt-map-elites; finished runs are in '.*': run the same"
    ):
        compare(tmp_path, domain(fitness=interrupted))
    assert len(list(tmp_path.glob("runs/*/*/result.npz"))) == 1


@COUNTS
@pytest.mark.parametrize("number", [0, 1])
def test_stopped_run_resumes_at_its_last_evaluation(tmp_path, number):
    calls = []

    def interrupted(solutions, tasks):
        calls.append(len(solutions))
        if sum(calls) == 640 * number + 400:
            os.kill(os.getpid(), signal.SIGINT)
        return sphere(solutions, tasks)

    with pytest.raises(te.Interrupted, match=f"after {number} of 3 runs"):
        compare(tmp_path, domain(fitness=interrupted))
    assert sum(calls) == 640 * number + 400
    halfway = tmp_path / f"runs/mt-map-elites/replicate-{number}"
    assert list(halfway.glob("checkpoints/*.npz"))
    assert not (halfway / "result.npz").exists()
    whole = compare(tmp_path, domain(fitness=interrupted))
    assert sum(calls) == 2 * 3 * 640  # no evaluation is repeated
    for label, runs in compare().results.items():
        for found, wanted in zip(whole.results[label], runs, strict=True):
            assert np.array_equal(found.solutions, wanted.solutions)
            assert np.array_equal(found.last_improved, wanted.last_improved)
            for name in wanted.history.keys() - {"seconds"}:
                assert np.array_equal(found.history[name], wanted.history[name], equal_nan=True), name
    assert not list(tmp_path.glob("runs/*/*/checkpoints"))  # checkpoints of finished runs are deleted


def test_killed_compiled_run_resumes_at_its_checkpoint(tmp_path, small_arm, monkeypatch, capfd):
    looks = []

    def saves_and_is_killed(self, position, snapshots):
        looks.append(position)
        if len(looks) == 5:
            patch.setattr(Checkpointer, "save", lambda *_: None)  # a killed process saves nothing
            raise KeyboardInterrupt
        self.save(position, snapshots)

    options = {"replicates": 1, "evaluations": 3000, "algorithms": ["mt-map-elites"]}
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "look", saves_and_is_killed)
        with pytest.raises(KeyboardInterrupt):
            compare(tmp_path, small_arm, **options)
    whole = compare(tmp_path, small_arm, progress=True, **options).results["mt-map-elites"][0]
    assert f"continues after {looks[3]:,} evaluations" in capfd.readouterr().err
    wanted = compare(None, small_arm, **options).results["mt-map-elites"][0]
    assert np.array_equal(whole.solutions, wanted.solutions)
    assert np.array_equal(whole.history["mean"], wanted.history["mean"], equal_nan=True)


@pytest.mark.filterwarnings("ignore:more than half of the last:taskelites.errors.FitnessWarning")
def test_error_of_failing_fitness_names_algorithm_and_folder(tmp_path):
    def fails(solutions, tasks, calls=[]):  # noqa: B006 - counts its calls
        calls.append(1)
        return sphere(solutions, tasks) if len(calls) < 60 else 1 / 0

    with pytest.raises(
        te.FitnessError, match=r"mt-map-elites: all 20 .* fitness raised ZeroDivisionError.*finished runs are in"
    ):
        compare(tmp_path, domain(fitness=fails))


@COUNTS
def test_interrupted_comparison_keeps_finished_runs(tmp_path):
    calls, patience = [], [1000]

    def impatient(solutions, tasks):
        calls.append(len(solutions))
        if sum(calls) > patience[0]:
            raise KeyboardInterrupt
        return sphere(solutions, tasks)

    with pytest.raises(KeyboardInterrupt):
        compare(tmp_path, domain(fitness=impatient))
    kept = sorted(path.parent.name for path in tmp_path.glob("runs/*/*/result.npz"))
    assert kept == ["replicate-0"]  # the interrupted run does not count as finished
    patience[0] = 10**9
    whole = compare(tmp_path, domain(fitness=impatient))
    alone = compare()
    assert np.array_equal(whole.replicates()["mean_all"], alone.replicates()["mean_all"])


def test_added_algorithm_has_the_same_budget_and_seeds(tmp_path):
    compare(tmp_path)
    fixed = te.MultiTaskMapElites(tournament=5)
    added = te.compare(domain(), algorithms=[fixed], out=tmp_path, add=True)
    assert added.labels == [*TWO, "mt-map-elites(tournament=5)"]
    assert added.budget == 640
    assert len(added.tests()) == 3
    assert len(pd.read_csv(tmp_path / "summary.csv")) == 3
    alone = te.solve(domain(), evaluations=640, batch_size=16, seed=2, algorithm=fixed)
    assert np.array_equal(added.results["mt-map-elites(tournament=5)"][2].fitness, alone.fitness)


def test_folder_of_another_comparison_is_not_changed(tmp_path):
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
    with pytest.raises(ValueError, match="compares 'random' with other settings"):
        compare(tmp_path / "a", algorithms={"random": "cma-es"}, add=True)
    assert (tmp_path / "a/comparison.json").read_bytes() == before
    (tmp_path / "b").mkdir()
    (tmp_path / "b/note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and holds no comparison: name a new folder"):
        compare(tmp_path / "b")
    with pytest.raises(FileExistsError, match="which is a file; name a folder"):
        compare(tmp_path / "b/note.txt")
    with pytest.raises(FileNotFoundError, match="add needs a comparison in out, but there is none in"):
        compare(tmp_path / "c", add=True)
    (tmp_path / "a/comparison.json").write_text("{")
    with pytest.raises(te.StorageError, match="is damaged or no comparison"):
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
            "must not name 'random' twice; use a dict to give each a label",
        ),
        ({"algorithms": {1: "random", "1": "cma-es"}}, ValueError, "algorithms must have different labels"),
        (
            {"algorithms": {"a b": "random", "a-b": "cma-es"}},
            ValueError,
            "different folder names, but 'a b' and 'a-b' do not",
        ),
        ({"algorithms": ["randon"]}, ValueError, "did you mean 'random'"),
        ({"evaluations": None}, TypeError, "evaluations must be given: the budget of each run"),
        ({"replicates": 0}, ValueError, "replicates must be a whole number of at least 1"),
    ],
)
def test_invalid_arguments_raise_errors(options, error, message):
    with pytest.raises(error, match=message):
        compare(**options)


def test_labels_have_settings_that_are_not_defaults():
    made = label_algorithms(
        [te.MultiTaskMapElites(), te.MultiTaskMapElites(tournament=[1, 10]), te.algorithms.CmaEs(population=20)]
    )
    assert list(made) == ["mt-map-elites", "mt-map-elites(tournament=(1, 10))", "cma-es(population=20)"]
    sbx = label_algorithms([te.algorithms.MapElitesRandom(variation="sbx")])
    assert list(sbx) == ["map-elites-random(variation=SBX(eta=10.0))"]


def test_figure_shows_medians_quartiles_and_all_runs():
    found = synthetic_comparison(worst=np.array([-10.0, -20.0]), optimum=np.array([4.0, 12.0]))
    left, right = found.plot()
    assert left.get_ylabel() == "mean gap to the optimum"
    assert (left.get_xscale(), left.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["mine", "random"]
    assert left.get_title() == "median and quartiles of 1 to 2 runs"
    values = 8.0 - found.curves("mine")[1]
    assert np.allclose(left.lines[0].get_ydata(), np.median(values, axis=0))
    assert len(left.collections) == 2
    points = [line for line in right.lines if line.get_marker() == "o"]
    runs = found.replicates().query("algorithm == 'mine'")
    assert sorted(points[0].get_xdata().tolist()) == sorted((8.0 - runs["mean_all"]).tolist())
    assert right.get_xlabel() == "mean gap to the optimum\nafter 40 evaluations"
    plt.close("all")


def test_figure_uses_given_axes():
    found = synthetic_comparison(optimum=np.array([4.0, 12.0]))
    _, own = plt.subplots(1, 2)
    left, right = found.plot(own, measure="mean_all")
    assert (left, right) == tuple(own)
    assert left.get_ylabel() == "mean fitness over all tasks"
    assert right.get_xlabel() == "mean fitness over all tasks\nafter 40 evaluations"
    with pytest.raises(ValueError, match=r"ax must be a pair of matplotlib axes, such as plt\.subplots\(1, 2\)\[1\]"):
        show.comparison(found, ax=left)
    assert show.curves(found, ax=left, xscale="linear") is left
    assert left.get_xscale() == "linear"
    plt.close("all")


def test_special_characters_in_labels_are_escaped(tmp_path):
    labels = {
        "_hidden": "random",
        "$x^$": "cma-es",
        "a label that is longer than a line of the legend": "mt-map-elites",
    }
    found = compare(algorithms=labels)
    axes = found.plot()
    axes[0].figure.savefig(tmp_path / "figure.png")
    texts = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert texts == ["_hidden", r"\$x^\$", "a label that is longer than a\nline of the legend"]
    plt.close("all")


def test_narrow_logarithmic_axis_has_plain_numbers():
    runs = [result([-0.5 - 0.01 * i] * 2, [(10, 1.0, -0.6, -0.6, 0.1), (40, 1.0, -0.5 - 0.01 * i, -0.6, 0.2)],
                   optimum=np.zeros(2)) for i in range(4)]  # fmt: skip
    axes = show.finals(te.Comparison(results={"mine": runs}))
    axes.figure.canvas.draw()
    texts = [text.get_text() for text in axes.get_xticklabels() if text.get_text()]
    assert 2 <= len(texts) <= 6
    assert all(float(text) for text in texts)
    plt.close("all")


def test_figure_without_optimum_shows_mean_fitness():
    found = synthetic_comparison()
    axes = show.curves(found, labels=["random"])
    assert axes.get_ylabel() == "mean fitness over all tasks"
    assert axes.get_yscale() == "linear"
    with pytest.raises(ValueError, match="measure 'gap' needs the optimum of each task"):
        show.finals(found, measure="gap")
    with pytest.raises(ValueError, match="measure must be 'gap' or 'mean_all', not 'mean'"):
        show.curves(found, measure="mean")
    with pytest.raises(ValueError, match="labels must be among mine, random, not 'his'"):
        show.curves(found, labels=["his"])
    with pytest.raises(TypeError, match=r"comparison must be the result of te\.compare, not Result"):
        show.finals(found.results["random"][0])
    with pytest.raises(ValueError, match="coverage must be left out for a comparison"):
        show.curves(found, coverage=True)
    plt.close("all")
