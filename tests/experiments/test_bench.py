"""The benchmark: runs, resuming, refusals of algorithms, omitted domains, tables and the page."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from spheres import result, sphere

import taskelites as te
from taskelites.cli import main
from taskelites.experiments.benchmark import benchmark
from taskelites.experiments.benchmark import run as benching
from taskelites.experiments.benchmark.page import page_text
from taskelites.experiments.comparison import comparison
from taskelites.experiments.comparison.run import label_algorithms

LINE = te.tasks.grid((40,), [0], [1])


def domain(name="line", **options):
    given = {"name": name, "fitness": sphere, "tasks": LINE, "bounds": (0, 1), "dim": 2, "call": "batch"}
    return te.Domain(**given | options)


def bench(out=None, domains=None, **options):
    given = {"algorithms": ["mt-map-elites"], "replicates": 2, "evaluations": 160, "batch_size": 16}
    return te.bench(domains or [domain(), domain("best", optimum=np.zeros(40))], out=out, **given | options)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "small"
    bench(folder, command="taskelites bench --small")
    return folder


@pytest.fixture
def without_figures(monkeypatch):
    """Skip figures, which take most of the time of small runs; `test_tables_and_page` tests them."""
    monkeypatch.setattr(te.Comparison, "plot", lambda self: [SimpleNamespace(figure=None)])
    for module in (benchmark, comparison):
        monkeypatch.setattr(module, "save_figure", lambda *_, **__: None)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/runs/*/*/result.npz")}


def test_each_domain_has_a_comparison_with_random(small):
    found = te.experiments.Bench.load(small)
    assert list(found.comparisons) == ["line", "best"]
    for label in found.comparisons:
        alone = te.Comparison.load(small / label)
        assert alone.labels == ["mt-map-elites", "random"]
        assert alone.replicates().equals(found.comparisons[label].replicates())
    assert len(times(small)) == 2 * 2 * 2
    same = te.solve(domain(), evaluations=160, batch_size=16, seed=1, algorithm="mt-map-elites")
    assert np.array_equal(
        found.comparisons["line"].results["mt-map-elites"][1].solutions, same.solutions, equal_nan=True
    )


def test_tables_and_page(small):
    every = pd.read_csv(small / "bench.csv")
    assert len(every) == 8
    assert {"domain", "algorithm", "seed", "mean_all", "area", "evaluations_to_99", "seconds"} <= set(every.columns)
    own = te.experiments.Bench.load(small).comparisons["best"].replicates()
    assert np.allclose(every[every["domain"] == "best"]["area"], own["area"], rtol=1e-6)
    assert len(pd.read_csv(small / "tests.csv")) == 2
    assert set(pd.read_csv(small / "curves.csv")["domain"]) == {"line", "best"}
    page = (small / "bench.md").read_text()
    assert "with `taskelites bench --small` on" in page
    assert "## line\n\n40 tasks, 2 x 160 evaluations, batches of 16; digest of the tasks `" in page
    assert f"`{LINE.digest}`" in page
    assert page.count("| algorithm | mean |") == 2
    assert page.count("| gap |") == 1  # where the optimum is known
    assert "Published" not in page
    assert not (small / "line.pdf").exists()
    for name in ("line.png", "best.png"):
        assert (small / name).stat().st_size > 1000


@pytest.mark.usefixtures("without_figures")
def test_second_call_reuses_runs_and_adds_algorithms(small):
    before = times(small)
    again = bench(small, domains=[domain()], algorithms=["random", "map-elites-random"], command="more")
    assert list(again.comparisons) == ["best", "line"]  # the comparisons of the first call are kept
    assert again.comparisons["line"].labels == ["mt-map-elites", "random", "map-elites-random"]
    after = times(small)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 2
    assert [line.partition("with ")[2].partition(" on")[0] for line in again.made] == [
        "`taskelites bench --small`",
        "`more`",
    ]
    page = (small / "bench.md").read_text()
    assert "| map-elites-random | - |" in page  # on the domain without its runs
    assert page.count("Not told apart (p, corrected): mt-map-elites and random (") == 1  # the only pair of this domain
    assert page.count("No two are told apart.") == 1  # of three pairs
    with pytest.raises(ValueError, match="holds a comparison with evaluations 160, and this one has 200"):
        bench(small, evaluations=200)


@pytest.mark.usefixtures("without_figures")
def test_page_is_written_from_a_folder_without_running(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["bench", "--from", str(small), "--out", str(tmp_path / "docs")]) == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines()[:-1])) <= 80
    assert (tmp_path / "docs/bench.md").read_text() == (
        te.experiments.Bench.load(small).save(tmp_path / "b") / "bench.md"
    ).read_text()
    assert not list((tmp_path / "docs").glob("*/"))
    assert main(["bench", "--from", str(small), "--replicates", "3"]) == 2
    assert "--replicates cannot be combined with --from, which runs nothing" in capsys.readouterr().err
    assert main(["bench", "--from", str(tmp_path / "nothing")]) == 2
    assert "there is no benchmark in" in capsys.readouterr().err


def synthetic_comparison(**more):
    """Return a comparison of eight runs each: `good` is always better than `poor` and `random`, which are similar."""
    finals = {"good": 4.0 + np.arange(8) / 8, "poor": np.arange(8) / 8, "random": np.arange(8) / 8 + 0.01}
    results = {
        label: [
            result([value, value], [(10, 0.5, value, 0.0, 0.1), (20, 1.0, value, 0.0, 0.2)], name=label, seed=i, **more)
            for i, value in enumerate(values)
        ]
        for label, values in finals.items()
    }
    return te.Comparison(results={label: results[label] for label in ("poor", "random", "good")})


def test_hand_calculated_counts_of_better_and_worse():
    """Two of C(16, 8) = 12870 orders are as extreme, so p = 1.6e-4 exactly, and three times that after Holm."""
    found = te.experiments.Bench(
        comparisons={"hand": synthetic_comparison()}, refused={"hand": {"mine": "it can't"}}, left_out={"far": "no car"}
    )
    table = found.table().loc["hand"]
    assert table.index.tolist() == ["good", "random", "poor"]
    assert table["better"].tolist() == [2, 0, 0]
    assert table["worse"].tolist() == [0, 1, 1]
    text = found.summary(80)
    assert "hand: 2 tasks, 8 x 20 evaluations" in text
    # The area has no solved task until 10 evaluations, then one of two until 20. The target is the best of all runs,
    # 4.875, which only one run reaches.
    assert text.splitlines()[4].split() == ["good", "4.4375", "1.1094", "never", "0.2", "2/0"]
    assert "mine: - (it can't)" in text
    assert "left out: far (no car)" in text


def test_curves_are_thinned_but_keep_first_and_last_points():
    history = [(i, 1.0, float(i), 0.0, 0.1) for i in range(1, 1001)]
    run = result([1000.0], history)
    thin = te.experiments.Bench(comparisons={"line": te.Comparison(results={"mine": [run]})}).curve_table()
    assert len(thin) <= 60
    assert thin["evaluations"].iloc[[0, -1]].tolist() == [1, 1000]
    assert (thin["mean_all_median"] == thin["evaluations"]).all()


class Refuses(te.algorithms.RandomSampling):
    name = "refuses"

    def bind(self, problem, batch_size=64):
        if problem.dim == 2:
            raise ValueError("two dimensions are one too many")
        return super().bind(problem, batch_size)


@pytest.mark.usefixtures("without_figures")
def test_page_shows_why_an_algorithm_refuses_a_domain(tmp_path):
    found = bench(tmp_path / "b", algorithms=[Refuses(), "random"], domains=[domain()])
    assert list(found.refused["line"]) == ["refuses"]
    page = (tmp_path / "b/bench.md").read_text()
    assert "| refuses | - | - | - | - | - | - |" in page
    assert "refuses is not shown: " in page
    assert "two dimensions are one too many" in page
    assert te.experiments.Bench.load(tmp_path / "b").refused == found.refused


def test_unavailable_domains_are_omitted_unless_requested(monkeypatch):
    entries = {"arm": benching.Entry(options={"tasks": 200}, evaluations=64), "legs": benching.Entry()}
    monkeypatch.setattr(benching, "ENTRIES", entries)
    found = te.bench(algorithms=["random"], replicates=1)
    assert (list(found.comparisons), found.comparisons["arm"].budget) == (["arm"], 64)
    assert "must be one of" in found.left_out["legs"]
    with pytest.raises(ValueError, match="not 'legs'"):
        te.bench(["legs"], algorithms=["random"], replicates=1)


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"problem": "archery"}, True),
        ({"problem": "line"}, False),
        ({"problem": "arm", "options": {"form": "exponential", "target": [0.5, 0.5]}}, True),
        ({"problem": "arm", "options": {"form": "exponential", "target": [1.0, 1.0]}}, False),
        ({"problem": "arm", "options": {"target": [0.5, 0.5]}}, False),
        ({"problem": "cartpole", "options": {"starts": 10, "steps": 1000}}, True),
        ({"problem": "cartpole", "options": {"starts": 1, "steps": 1000}}, False),
    ],
)
def test_page_shows_published_means_for_matching_domains_only(settings, shown):
    tuned = next(iter(label_algorithms([te.algorithms.Monet(tuned=settings["problem"])]))) if shown else "other"
    hand = synthetic_comparison().results
    found = te.Comparison(results={"random": hand["random"], tuned: hand["good"]}, settings=settings)
    page = page_text(te.experiments.Bench(comparisons={"hand": found}))
    assert ("Their tasks are not these" in page) == shown
    if settings["problem"] == "archery":
        assert "| monet | 0.996 | 0.9763 | - | - |" in page
        assert "| monet, tuned | 0.9999 | 0.9792 | 4.4375 | 1.1094 |" in page


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"domains": "arm"}, TypeError, "domains must be a list of names or domains"),
        (
            {"domains": [domain(), domain()]},
            ValueError,
            "domains must have different labels and folder names, but 'line'",
        ),
        ({"domains": [3]}, TypeError, "domains must be names or domains, but 'domain' is of type int"),
        ({"tasks": 50}, ValueError, "tasks is for domains that are given by name, but 'line' has its own"),
        (
            {"algorithms": {"random": "mt-map-elites"}},
            ValueError,
            "must not use the label 'random' for another algorithm",
        ),
        ({"replicates": 0}, ValueError, "replicates must be a whole number of at least 1"),
        ({"evaluations": 0}, ValueError, "evaluations must be a whole number of at least 1"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1"),
        ({"algorithms": [Refuses()], "domains": [domain(tasks=te.Box([0], [1]))]}, ValueError, "no algorithm can be"),
    ],
)
def test_invalid_arguments_raise_errors_before_any_run(tmp_path, change, error, message):
    with pytest.raises(error, match=message):
        bench(tmp_path / "b", **change)
    assert not (tmp_path / "b").exists()


def test_other_folders_and_files_are_not_overwritten(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty and holds no benchmark"):
        bench(tmp_path)
    with pytest.raises(FileExistsError, match="is a file"):
        bench(tmp_path / "notes.txt")
    (tmp_path / "bench.json").write_text(json.dumps({"format": "other", "version": 1}))
    with pytest.raises(te.StorageError, match="is damaged or no benchmark"):
        te.experiments.Bench.load(tmp_path)


@pytest.mark.usefixtures("without_figures")
def test_interrupted_benchmark_keeps_finished_runs_and_resumes(tmp_path, monkeypatch, capsys):
    command = ["bench", "--domains", "one=archery,two=archery", "--tasks", "200", "--evaluations", "640"]
    command += ["--replicates", "1", "--algorithms", "random", "--out", str(tmp_path / "b"), "--quiet"]
    stop = compare = benching.compare

    def interrupted(problem, **options):
        if options["out"].name == "two":
            raise te.Interrupted("interrupted after 0 of 1 runs of random; the comparison goes on")
        return compare(problem, **options)

    monkeypatch.setattr(benching, "compare", interrupted)
    assert main(command) == 130
    error_output = capsys.readouterr().err
    assert (
        f"two: interrupted after 0 of 1 runs of random; finished runs are in '{tmp_path / 'b'}': run the"
        in error_output
    )
    before = times(tmp_path / "b")
    assert len(before) == 1
    stopped = te.experiments.Bench.load(tmp_path / "b")
    assert stopped.left_out == {"two": "no run is finished"}
    monkeypatch.setattr(benching, "compare", stop)
    assert main(command) == 0
    assert before.items() < times(tmp_path / "b").items()
    assert "two: 200 tasks, 1 x 640 evaluations" in capsys.readouterr().out


@pytest.mark.usefixtures("without_figures")
def test_command_parses_domains_with_options_and_labels(tmp_path, capsys):
    common = ["--evaluations", "64", "--replicates", "1", "--algorithms", "random", "--tasks", "200", "--quiet"]
    assert main(["bench", "--domains", "arm,plain=arm(target=(1,1))", *common, "--out", str(tmp_path / "b")]) == 0
    found = te.experiments.Bench.load(tmp_path / "b")
    assert list(found.comparisons) == ["arm", "plain"]
    bare, plain = (comparison.settings["options"] for comparison in found.comparisons.values())
    assert (bare["form"], bare["target"]) == ("exponential", [0.5, 0.5])  # the options of the benchmark
    assert (plain.get("form"), plain["target"]) == (None, [1.0, 1.0])
    assert len(found.comparisons["plain"].results["random"][0]) == 200
    for text, message in {
        "arm,arm": "--domains must have distinct labels, not 'arm' twice",
        "arm(targte=1)": "--domains must be one of .*'targte'; did you mean 'target'",
        "arm(tasks=300)": "--tasks cannot be combined with the tasks of .* in --domains",
        "arm(1)": "a domain must be NAME or NAME",
        "arn": "DOMAIN must be one of .* did you mean 'arm'",
        "": "--domains must name at least one domain",
    }.items():
        assert main(["bench", "--domains", text, *common, "--out", str(tmp_path / "c")]) == 2
        assert_matches(capsys.readouterr().err, message)


def assert_matches(text, message):
    with pytest.raises(ValueError, match=message):
        raise ValueError(text)
