"""The arm experiment of the paper: a small complete run, and both outcomes of each claim."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from spheres import result

import taskelites as te
from taskelites.cli import main
from taskelites.experiments.paper.arm.claims import BANDIT, CLAIMS, FIVE, SIZES, ArmMeasurements, size_label


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of the experiment with 300 tasks, run by the command."""
    folder = tmp_path_factory.mktemp("reproduce") / "arm"
    options = ["--tasks", "300", "--evaluations", "3000", "--replicates", "2", "--out", str(folder), "--quiet"]
    assert main(["reproduce", "arm", *options]) == 0
    return folder


def test_page_has_number_and_outcome_per_claim(small):
    page = (small / "arm.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.rstrip().endswith("** |")]
    assert len(rows) == len(CLAIMS)
    for claim, row in zip(CLAIMS, rows, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[:2] == [claim.text, claim.criterion]
        assert any(letter.isdigit() for letter in cells[2])
        assert "nan" not in cells[2]
    assert "300 tasks" in page
    assert "target (1, 1)" in page
    assert "3,000 evaluations" in page
    assert "2 replicates" in page
    assert "taskelites reproduce arm --tasks 300" in page
    assert "too few replicates" in page  # a claim needs p < 1e-10
    assert "With (0.5, 0.5) the median gaps are: mt-map-elites" in page
    assert "of 2 runs of map-elites-random end with more than five times the median gap of their algorithm" in page
    assert "| size | share of the candidates | of them successes |" in page
    assert "| size 100 |" in page
    assert "| size 500 |" not in page  # there are only 300 tasks, so this tournament size is omitted


def test_figure_data_and_runs_are_saved(small):
    for name in ("arm.png", "arm.pdf", "replicates.csv", "curves.csv", "tests.csv", "summary.csv", "comparison.json"):
        assert (small / name).stat().st_size > 100, name
    assert len(list(small.glob("runs/*/*/result.npz"))) == 2 * (5 + 1 + 4)
    assert len(list(small.glob("other-target/runs/*/*/result.npz"))) == 2 * 5
    picture = plt.imread(small / "arm.png")
    assert picture.shape[0] > 1000
    assert picture.shape[1] > 1500


def test_command_reuses_runs_and_prints_outcomes(small, capsys):
    before = {path: path.stat().st_mtime_ns for path in small.glob("runs/*/*/result.npz")}
    options = ["--tasks", "300", "--evaluations", "3000", "--replicates", "2", "--out", str(small)]
    assert main(["reproduce", "arm", *options]) == 0
    output = capsys.readouterr()
    assert "cma-es: 2 of 2 runs are there" in output.err
    lines = output.out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[: len(CLAIMS)]] == [claim.text for claim in CLAIMS]
    assert lines[-2].startswith("time ")
    assert lines[-1].endswith("arm.png")
    assert {path: path.stat().st_mtime_ns for path in small.glob("runs/*/*/result.npz")} == before


@pytest.mark.slow
def test_other_target_and_invalid_options(tmp_path, capsys):
    common = ["--tasks", "300", "--evaluations", "640", "--replicates", "1", "--quiet", "--out"]
    assert main(["reproduce", "arm", "--set", "target=(0.5,0.5)", *common, str(tmp_path / "half")]) == 0
    assert "target (0.5, 0.5)" in (tmp_path / "half/arm.md").read_text()
    assert main(["reproduce", "leg", *common, str(tmp_path / "leg")]) == 2
    assert "EXPERIMENT must be one of 'arm', 'hexapod', not 'leg'" in capsys.readouterr().err
    assert main(["reproduce", "arm", "--set", "targte=1", *common, str(tmp_path / "leg")]) == 2
    assert "did you mean 'target'?" in capsys.readouterr().err


def synthetic(gaps, *, runs=30, solved=500, spread=0.01):
    """Return measurements with the given final gaps, in which all tasks are solved after `solved` evaluations."""
    rng = np.random.default_rng(0)
    results = {}
    for label in (*FIVE, *map(size_label, SIZES)):
        own = []
        for seed in range(runs):
            final = -gaps[label] * (1 + spread * rng.random())
            history = [
                (100, 0.5, -1.0, -2.0, 0.1),
                (solved, 1.0, (final - 1) / 2, -2.0, 0.1),
                (10_000, 1.0, final, -2.0, 0.2),
            ]
            fitness = np.full(2, final)
            name = "random" if label == "random" else "other"
            own.append(result(fitness, history, name=name, seed=seed, optimum=np.zeros(2), worst=np.full(2, -3.0)))
        results[label] = own
    return ArmMeasurements(te.Comparison(results=results))


AS_IN_THE_PAPER = {
    **{BANDIT: 0.010, "map-elites-random": 0.05, "cma-es": 0.06, "map-elites-all": 0.5, "random": 0.8},
    **{"size 1": 0.05, "size 10": 0.03, "size 50": 0.012, "size 100": 0.011, "size 500": 0.0105},
    **{"size 1000": 0.0107, "size 5000": 0.013},
}


def outcomes(now):
    return [claim.check(now).outcome for claim in CLAIMS]


def test_claims_hold_on_data_that_agree_with_the_paper():
    found = outcomes(synthetic(AS_IN_THE_PAPER))
    # In these data, random sampling differs from all tasks, which the third claim denies.
    assert found == [
        "holds", "holds", "does not hold", "holds", "holds", "holds", "holds", "holds", "holds", "holds",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"cma-es": 0.001}),
        (1, {"cma-es": 0.05}),
        (3, {"cma-es": 0.0001}),
        (5, {"cma-es": 0.5}),
        (6, {"random": 0.05}),
        (7, {"size 10": 0.0105}),
        (8, {"size 5000": 0.02}),
        (9, {"size 1000": 0.005}),
    ],
)
def test_each_claim_can_fail(number, change):
    assert outcomes(synthetic(AS_IN_THE_PAPER | change))[number] == "does not hold"


def test_claims_about_equal_gaps_and_early_solutions():
    same = synthetic(AS_IN_THE_PAPER | {"random": 0.5})
    assert outcomes(same)[2] == "holds"
    assert outcomes(synthetic(AS_IN_THE_PAPER, solved=5000))[4] == "does not hold"


def test_too_few_replicates_are_reported():
    found = outcomes(synthetic(AS_IN_THE_PAPER, runs=3))
    assert found[0] == found[1] == found[2] == found[7] == "too few replicates"


@pytest.mark.slow
def test_page_is_written_with_zero_gaps_and_few_solved_tasks(tmp_path):
    exact = synthetic(AS_IN_THE_PAPER | {"cma-es": 0.0, "size 1000": 0.0})
    assert all(math.isfinite(exact.median(label)) and exact.median(label) > 0 for label in exact.comparison.labels)
    assert len(outcomes(exact)) == len(CLAIMS)
    options = ["--evaluations", "50", "--replicates", "1", "--quiet", "--out", str(tmp_path / "few")]
    assert main(["reproduce", "arm", "--tasks", "200", *options]) == 0  # most tasks are not solved
    page = (tmp_path / "few/arm.md").read_text()
    assert "too few evaluations" in page
    assert "too few tasks" in page
    assert (tmp_path / "few/arm.png").exists()
