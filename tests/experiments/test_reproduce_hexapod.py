"""The hexapod experiment of the paper: full runs with a cheap fitness, both outcomes of each claim, and transfer."""

import math
import os
import shutil
import signal
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from spheres import result

import taskelites as te
from taskelites.analysis import Transfer
from taskelites.analysis import evaluate as rows
from taskelites.analysis.elites import best_elites
from taskelites.analysis.transferring import evaluate_transfer
from taskelites.cli import main
from taskelites.domains.hexapod.body import LOWER, UPPER
from taskelites.experiments.comparison import comparison
from taskelites.experiments.paper.hexapod import reproduce as hexapod
from taskelites.experiments.paper.hexapod.claims import BANDIT, CLAIMS, FOUR, HexapodMeasurements
from taskelites.experiments.paper.hexapod.map import asymmetry, body_table, gene_table, leg_shifts, shortest_half
from taskelites.experiments.paper.hexapod.runs import RunMaker
from taskelites.problem.tasks import uniform


def walk(solutions, tasks):
    """A cheap function of 36 genes and 12 lengths that has one best gait per body."""
    wanted = (np.repeat(tasks, 3, axis=-1) - 0.045) / 0.135
    return 1.0 - np.abs(solutions - wanted).mean(axis=-1)


@pytest.fixture
def without_figures(monkeypatch):
    """Close figures instead of writing them, which would take most of the time."""
    for module in (comparison, hexapod):
        monkeypatch.setattr(module, "save_figure", lambda figure, path: plt.close(figure))


OFF = 0.01


@dataclass(frozen=True)
class Robot:
    """Makes domains that evaluate `walk`, and counts their evaluations."""

    counts: list
    stop_at: list

    def __call__(self, name, tasks=2000, engine="mujoco", yaw=False, threads=None, device="cuda"):
        assert name == "hexapod"
        if isinstance(tasks, int):
            tasks = uniform(tasks, LOWER, UPPER, seed=0)
        options = {"engine": engine, "simulator": f"{engine} 0", "yaw": yaw, "damage": {}}
        single = engine == "warp"
        return te.Domain(
            name="hexapod",
            fitness=self.in_single_precision if single else self.fitness,
            tasks=tasks,
            bounds=(0.0, 1.0),
            dim=36,
            call="batch",
            rows_per_call=2048 if single else None,
            options=options,
        )

    def __getstate__(self):
        return {}  # the counts are not part of the problem

    def in_single_precision(self, solutions, tasks):
        """Return distances with an error of a centimetre, which must not appear in the tables."""
        return self.fitness(solutions, tasks) + OFF

    def fitness(self, solutions, tasks):
        self.counts.append(len(solutions))
        if self.stop_at and sum(self.counts) >= self.stop_at[0]:
            self.stop_at.clear()
            os.kill(os.getpid(), signal.SIGINT)
        return walk(solutions, tasks)


@pytest.fixture(scope="module")
def robot():
    with pytest.MonkeyPatch.context() as patch:
        made = Robot([], [])
        patch.setattr(hexapod, "domain", made)
        yield made


SIZES = ["--tasks", "200", "--evaluations", "700", "--replicates", "2"]
SETS = ["--set", "single_replicates=3", "--set", "single_evaluations=300", "--set", "beside=random"]
SEARCHED = 5 * 2 * 700 + 3 * 300


@pytest.fixture(scope="module")
def small(robot, tmp_path_factory):
    """The folder of the experiment, run by the command."""
    folder = tmp_path_factory.mktemp("reproduce") / "hexapod"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "save_figure", lambda figure, path: plt.close(figure))
        assert main(["reproduce", "hexapod", *SIZES, *SETS, "--quiet", "--out", str(folder)]) == 0
    return folder


def test_page_has_number_and_outcome_per_claim(small):
    page = (small / "hexapod.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.rstrip().endswith("** |")]
    assert len(rows) == len(CLAIMS)
    for claim, row in zip(CLAIMS, rows, strict=True):
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[:2] == [claim.text, claim.criterion]
        assert any(letter.isdigit() for letter in cells[2])
        assert "nan" not in cells[2]
    for text in (
        "200 bodies",
        "700 evaluations",
        "2 replicates",
        "3 runs of 300 evaluations",
        "taskelites reproduce hexapod --tasks 200",
        "optimised walking backwards",
        "the paper has 2,000 bodies",
        "elites of the map walk exactly as far as",
        "too few evaluations",
        "| random (not in the paper) |",
    ):
        assert text in page, text
    assert "nan" not in page.replace("dominant", "")


def test_figures_data_and_runs_are_saved(small):
    files = ["hexapod.png", "hexapod.pdf", "hexapod-map.png", "hexapod-map.pdf", "replicates.csv", "curves.csv"]
    files += ["tests.csv", "summary.csv", "comparison.json", "claims.csv", "single.csv", "genes.csv", "bodies.csv"]
    files += [f"finished/{name}-0-1.npz" for name in (*FOUR, "random")]
    for name in [*files, "transfer.csv", "transfer.npz", "single/summary.csv"]:
        assert (small / name).stat().st_size > 100, name
        assert (small / name).stat().st_size < 3_000_000, name
    assert len(list(small.glob("runs/*/runs/*/*/result.npz"))) == 2 * 5 + 3
    for name in ("hexapod.png", "hexapod-map.png"):
        assert min(plt.imread(small / name).shape[:2]) > 1000
    copied = pd.read_csv(small / "transfer.csv")
    assert len(copied) == 10
    assert (np.diff(copied["fitness"]) <= 0).all()
    assert len(pd.read_csv(small / "genes.csv")) == 36
    assert len(pd.read_csv(small / "bodies.csv")) == 12


def test_command_reuses_runs_and_prints_outcomes(small, robot, without_figures, capsys):
    robot.counts.clear()
    assert main(["reproduce", "hexapod", *SIZES, *SETS, "--out", str(small)]) == 0
    assert robot.counts == []
    output = capsys.readouterr()
    assert "cma-es" not in output.err
    lines = output.out.splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[: len(CLAIMS)]] == [claim.text for claim in CLAIMS]
    assert lines[-1].endswith("hexapod.png")


def test_interrupted_experiment_resumes_at_any_stage(small, robot, without_figures, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(rows.BLOCK, "batch", 64)
    command = ["reproduce", "hexapod", *SIZES, *SETS, "--quiet", "--out", str(tmp_path)]
    robot.counts.clear()
    for where, message in (
        (1000, "after 1 of 2 runs of mt-map-elites"),
        (5 * 2 * 700 + 400, "after 1 of 3 runs of cma-es"),
        (SEARCHED + 500, "evaluations of the transfer"),
    ):
        robot.stop_at.append(where)
        assert main(command) == 130
        assert message in capsys.readouterr().err
    assert main(command) == 0
    wanted = pd.read_csv(small / "transfer.csv")
    total = SEARCHED + 11 * int(wanted["tried_on"].max() + 1)
    assert sum(robot.counts) == total  # no evaluation is repeated
    for name in ("claims.csv", "genes.csv", "transfer.csv", "single.csv"):
        assert (tmp_path / name).read_text() == (small / name).read_text(), name


def test_given_large_map_is_shown(robot, without_figures, tmp_path):
    large = te.solve(robot("hexapod", 300), evaluations=1200, algorithm="mt-map-elites", out=tmp_path / "map")
    sizes = {"tasks": 200, "replicates": 1, "evaluations": 200, "single_replicates": 1, "single_evaluations": 100}
    sizes |= {"beside": ""}
    page = hexapod.reproduce_hexapod(tmp_path / "out", large_map=tmp_path / "map", progress=False, **sizes)
    text = page.read_text()
    assert "The map: 300 bodies, 1,200 evaluations, seed 0, a run of its own (mujoco 0)." in text
    chosen = int(np.random.default_rng(0).integers(300))
    assert f"on body {chosen} of the map" in text
    body = te.load(next((tmp_path / "out/runs").glob("body-*/runs/cma-es/*"))).tasks.descriptors
    assert np.array_equal(body, large.tasks.descriptors[[chosen]])
    assert len(pd.read_csv(tmp_path / "out/transfer.csv")) == 15
    sizes |= {"large_map": tmp_path / "map", "beside": ["random"]}
    assert (
        "random (not in the paper)" in hexapod.reproduce_hexapod(tmp_path / "out", progress=False, **sizes).read_text()
    )


ON_GPU = {"tasks": 200, "evaluations": 2500, "replicates": 3, "in_step": 2, "engine": "warp", "beside": ""}
ON_GPU |= {"single_replicates": 2, "single_evaluations": 100, "followup_replicates": 2, "pilot_replicates": 2}


@pytest.fixture(scope="module")
def on_gpu(robot, tmp_path_factory):
    """Folder and counts of the experiment with a simulator for a GPU: single precision, many rows per call."""
    folder = tmp_path_factory.mktemp("gpu")
    with pytest.MonkeyPatch.context() as patch:
        for module in (comparison, hexapod):
            patch.setattr(module, "save_figure", lambda figure, path: plt.close(figure))
        patch.setattr(hexapod, "_PILOT_EVALUATIONS", 3000)
        robot.counts.clear()
        hexapod.reproduce_hexapod(folder, progress=False, **ON_GPU)
    return folder, list(robot.counts)


def test_final_maps_are_simulated_again_in_mujoco(on_gpu):
    folder, _ = on_gpu
    runs = pd.read_csv(folder / "replicates.csv")
    assert runs["seed"].tolist() == [0, 1, 2] * 4
    np.testing.assert_allclose(runs["believed"] - runs["mean_all"], OFF, atol=1e-9)
    np.testing.assert_allclose(runs["ranks"], 1.0)
    assert (runs[["tasks", "evaluations", "batch_size"]] == [200, 2500, 64]).all(axis=None)
    assert runs.groupby("algorithm")["ahead"].first().to_dict() == {
        "cma-es": 1,  # which needs complete generations
        "map-elites-all": 1,
        "map-elites-random": 16,
        "mt-map-elites": 16,
    }
    page = (folder / "hexapod.md").read_text()
    assert "16 of them asked from one state" in page
    assert "each final map is simulated again in native MuJoCo" in page
    assert "## Simulated again" in page
    single = pd.read_csv(folder / "single/replicates.csv")
    assert single["simulator"].unique().tolist() == ["mujoco 0"]  # a single body does not use a GPU well
    assert single["believed"].isna().all()
    assert "nan" not in page.replace("dominant", "")


def test_runs_of_a_group_share_calls(on_gpu):
    _, counts = on_gpu
    assert 2 * 16 * 64 in counts
    assert max(counts) == 2048


def test_page_has_followups_and_pilot(on_gpu):
    folder, _ = on_gpu
    page = (folder / "hexapod.md").read_text()
    for text in (
        "The published order, mt-map-elites < monet < pt-map-elites < monet, tuned, **",
        "| monet, tuned | 2 | ",
        "## What asking ahead changes",
        "| 16 asked at once | ",
        "200 bodies, 3,000 evaluations, 2 runs each",
    ):
        assert text in page, text
    assert pd.read_csv(folder / "followups.csv")["algorithm"].unique().tolist() == [
        "monet",
        "monet, tuned",
        "pt-map-elites",
    ]
    assert pd.read_csv(folder / "pilot.csv")["ahead"].tolist() == [1, 1, 16, 16]


def test_page_can_be_made_from_finished_files_only(on_gpu, robot, without_figures, tmp_path, monkeypatch):
    folder, _ = on_gpu
    monkeypatch.setattr(hexapod, "_PILOT_EVALUATIONS", 3000)
    names = sorted(path.name for path in (folder / "finished").iterdir())
    assert "mt-map-elites-0-1.npz" in names
    assert "mt-map-elites-2-2.npz" in names
    assert all(path.stat().st_size < 300_000 for path in (folder / "finished").iterdir())
    shutil.copytree(folder / "finished", tmp_path / "finished")
    shutil.copy(folder / "transfer.npz", tmp_path / "transfer.npz")
    robot.counts.clear()
    hexapod.reproduce_hexapod(tmp_path, progress=False, **ON_GPU)
    assert robot.counts == []
    for name in ("hexapod.md", "replicates.csv", "curves.csv", "single.csv", "genes.csv", "followups.csv", "pilot.csv"):
        assert (tmp_path / name).read_text() == (folder / name).read_text(), name
    maker = RunMaker(tmp_path, batch_size=32, in_step=2, seed=0, shown=False, native=None)
    sizes = {"replicates": 2, "evaluations": 2500, "ahead": 16}
    with pytest.raises(ValueError, match=r"cma-es-0-1.npz' holds runs with batch_size 64, and .* has 32; .* folder"):
        maker.compare("", robot("hexapod", 200, engine="warp"), {"cma-es": "cma-es"}, **sizes)
    maker = RunMaker(tmp_path, batch_size=64, in_step=2, seed=0, shown=False, native=None)
    with pytest.raises(
        ValueError, match=r"holds runs with cma-es {.*'population': None.*}, and .* {.*'population': 20"
    ):
        maker.compare("", robot("hexapod", 200, engine="warp"), {"cma-es": te.algorithms.CmaEs(population=20)}, **sizes)
    (tmp_path / "finished/cma-es-0-1.npz").write_bytes(b"nothing")
    with pytest.raises(te.StorageError, match=r"cma-es-0-1.npz' is damaged or holds no finished runs"):
        hexapod.reproduce_hexapod(tmp_path, progress=False, **ON_GPU)
    other = uniform(200, LOWER, UPPER, seed=5)
    with pytest.raises(ValueError, match="holds runs on other tasks"):
        hexapod.reproduce_hexapod(tmp_path, progress=False, **ON_GPU | {"tasks": other})


def test_invalid_arguments_raise_errors_before_any_run(robot, tmp_path, capsys):
    robot.counts.clear()
    te.solve(robot("hexapod", 200, yaw=True), evaluations=100, algorithm="mt-map-elites", out=tmp_path / "yaw")
    te.solve(robot("hexapod", 200), evaluations=100, algorithm="random", out=tmp_path / "random")
    te.solve(
        robot("hexapod", 200, engine="pybullet"), evaluations=100, algorithm="mt-map-elites", out=tmp_path / "bullet"
    )
    robot.counts.clear()
    for options, message in (
        (["--set", "single_replicates=0"], "single_replicates must be a whole number of at least 1"),
        (["--set", "ahead=0"], "ahead must be a whole number of at least 1"),
        (["--set", "in_step=0"], "in_step must be a whole number of at least 1"),
        (["--set", "beside=auto,ramdom"], "'ramdom'"),
        (["--set", f"large_map={tmp_path / 'bullet'}"], "large_map must be simulated by mujoco, but"),
        (["--dim", "12"], "--dim cannot be set for 'hexapod', where it is fixed; leave it out"),
        (["--set", "singles=3"], "did you mean 'single_"),
        (["--set", f"large_map={tmp_path / 'yaw'}"], "must have the rules of the experiment, yaw False and no damage"),
        (["--set", f"large_map={tmp_path / 'random'}"], "must be a run of mt-map-elites on the hexapod, but"),
        (["--set", f"large_map={tmp_path / 'none'}"], "none"),
    ):
        assert main(["reproduce", "hexapod", "--quiet", "--out", str(tmp_path / "out"), *options]) == 2
        assert message in capsys.readouterr().err
    assert robot.counts == []


def test_experiment_with_mujoco_in_few_evaluations(small, without_figures, tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(hexapod, "domain", te.domain)
    # The same number of bodies as above, so that nothing is compiled again.
    options = {"tasks": 200, "replicates": 1, "evaluations": 16, "single_replicates": 1, "single_evaluations": 14}
    options |= {"beside": ""}
    text = te.experiments.reproduce_hexapod(tmp_path / "few", progress=False, **options).read_text()
    assert "simulator mujoco" in text
    number = int(te.load(tmp_path / "few/runs/mt-map-elites-0-0/runs/mt-map-elites/replicate-0").solved.sum())
    assert f"Evaluated again, {number} of {number} elites" in text  # bit for bit


# Claims on synthetic data.


def runs_of(final, number, spread=0.01, tasks=2, budget=1000):
    rng = np.random.default_rng(0)
    found = []
    for seed in range(number):
        end = final * (1 + spread * rng.random())
        history = [(100, 1.0, end / 2, -1.0, 0.1), (budget, 1.0, end, -1.0, 0.2)]
        found.append(result(np.full(tasks, end), history, seed=seed))
    return found


def single_runs(finals, early=0.99, budget=100_000):
    """Return runs on one body that reach the share `early` of their final fitness before 10,000 evaluations."""
    return [
        result([end], [(5000, 1.0, end / 2, 0.0, 0.1), (9984, 1.0, early * end, 0.0, 0.1), (budget, 1.0, end, 0, 0.2)])
        for end in finals
    ]


def synthetic_map(rng, *, middle=1.0, others=-1.0, genes=0.05, tasks=400, per_task=500, mean=0.7):
    """Return a map in which the fitness depends on leg lengths, and genes have the standard deviation `genes`."""
    lengths = uniform(tasks, LOWER, UPPER, seed=1)
    scaled = (lengths.descriptors - LOWER) / (UPPER - LOWER) - 0.5
    weight = np.where(np.isin(np.tile(np.arange(6), 2), [1, 4]), middle, others)
    solutions = np.clip(0.9 + genes * rng.standard_normal((tasks, 36)), None, None) % 1.0
    return te.Result(
        solutions=solutions,
        fitness=mean + 0.02 * scaled @ weight,
        tasks=lengths,
        evaluations=tasks * per_task,
        task_evaluations=np.full(tasks, per_task),
        last_improved=np.ones(tasks, int),
        settings={"seed": 0},
    )


AS_IN_THE_PAPER = {BANDIT: 0.70, "map-elites-random": 0.6, "cma-es": 0.2, "map-elites-all": 0.4}
SINGLE = (0.75, 0.8, 0.5, 0.4, 0.3, 0.5)


def synthetic(finals=(), runs=10, single=SINGLE, early=0.99, single_budget=100_000, loss=0.4, budget=1000, **options):
    rng = np.random.default_rng(0)
    groups = {label: runs_of(final, runs, budget=budget) for label, final in (AS_IN_THE_PAPER | dict(finals)).items()}
    mapped = synthetic_map(rng, **options)
    elites = best_elites(mapped, 0.05)
    own = mapped.fitness
    copied = own - loss + 0.01 * rng.standard_normal((len(elites), len(own)))
    return HexapodMeasurements(
        te.Comparison(results=groups),
        te.Comparison(results={"cma-es": single_runs(single, early, single_budget)}),
        mapped,
        Transfer(elites=elites, tasks=np.arange(len(own)), own=own, fitness=copied),
        task=3,
    )


def outcomes(now):
    return [claim.check(now).outcome for claim in CLAIMS]


def test_claims_hold_on_data_that_agree_with_the_paper():
    assert outcomes(synthetic()) == ["holds"] * len(CLAIMS)


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"finals": {"cma-es": 0.8}}),
        (1, {"finals": {"cma-es": 0.4}}),
        (2, {"finals": {"map-elites-all": 0.65}}),
        (3, {"finals": {"cma-es": 0.5}}),
        (4, {"finals": {BANDIT: 1.2}, "mean": 1.2}),
        (4, {"finals": {BANDIT: 0.3}, "mean": 0.3}),
        (5, {"single": (0.8, 0.9, 0.9, 0.8, 0.3, 0.5)}),
        (6, {"early": 0.8}),
        (7, {"genes": 0.4}),
        (8, {"loss": 0.2}),
        (9, {"loss": 0.6}),
        (10, {"middle": -1.0}),
        (10, {"others": 1.0}),
    ],
)
def test_each_claim_can_fail(number, change):
    assert outcomes(synthetic(**change))[number] == "does not hold"


def test_too_small_experiments_are_reported():
    few = outcomes(synthetic(runs=3))
    assert few[:4] == ["too few replicates"] * 4
    assert outcomes(synthetic(runs=5))[:4] == ["holds", "too few replicates", "holds", "holds"]
    short = outcomes(synthetic(budget=80, per_task=40, finals={BANDIT: 0.3}, mean=0.3))
    assert [short[i] for i in (0, 1, 2, 3, 4, 7, 8, 9, 10)] == ["too few evaluations"] * 9
    assert outcomes(synthetic(single=(0.1, 0.2)))[5:7] == ["too few replicates"] * 2
    assert outcomes(synthetic(single_budget=9984))[5:7] == ["too few evaluations"] * 2
    assert outcomes(synthetic(tasks=100))[10] == "too few tasks"


def test_single_runs_are_compared_with_mean_of_longer_search():
    assert synthetic(mean=0.9, per_task=400).level == pytest.approx(0.70, rel=0.02)
    assert synthetic(mean=0.9, per_task=600).level == pytest.approx(0.90, rel=0.02)


# Genes and bodies of a map.


def test_gene_table_distinguishes_common_and_uniform_genes():
    rng = np.random.default_rng(0)
    mapped = synthetic_map(rng, genes=0.02)
    mapped.solutions[:, 3] = rng.random(len(mapped))
    mapped.solutions[:, 4] = (0.99 + 0.02 * rng.standard_normal(len(mapped))) % 1  # a phase around 1, which equals 0
    table = gene_table(mapped)
    assert table["gene"][3] == "rear left femur amplitude"
    assert table["half"][3] == pytest.approx(0.5, abs=0.08)  # the shortest half of a sample is slightly below 0.5
    assert table["gene"][4] == "rear left femur phase"
    assert table["half"][4] == pytest.approx(1.349 * 0.02, rel=0.2)
    apart = np.array([0.02, 0.3, 0.7, 0.98])
    assert shortest_half(apart, circular=True) == pytest.approx(0.04)
    assert shortest_half(apart) == pytest.approx(0.28)
    assert shortest_half(np.array([0.3])) == 0.0


def test_hand_calculated_lengths_of_best_bodies():
    mapped = synthetic_map(np.random.default_rng(0), middle=1.0, others=0.0)
    table = body_table(mapped).set_index("length")
    assert table.loc["femur_4", ["segment", "place", "side"]].tolist() == ["femur", "middle", "right"]
    assert table.loc["tibia_0", ["segment", "place", "side"]].tolist() == ["tibia", "rear", "left"]
    best = np.argsort(-mapped.fitness)[:20]
    assert table.loc["femur_4", "mean_best"] == pytest.approx(mapped.tasks.descriptors[best, 10].mean())
    assert (table["spearman"][["femur_1", "femur_4", "tibia_1", "tibia_4"]] > 0.3).all()
    assert (table["spearman"].drop(["femur_1", "femur_4", "tibia_1", "tibia_4"]).abs() < 0.2).all()
    shifts = leg_shifts(mapped)
    both = mapped.tasks.descriptors[:, [1, 4, 7, 10]].sum(axis=1) / 2
    assert shifts["middle"]["leg"].difference == pytest.approx(both[best].mean() - both.mean())
    assert shifts["middle"]["leg"].errors > 5
    assert abs(shifts["front"]["leg"].errors) < 3
    usual, _ = asymmetry(mapped)
    assert usual == pytest.approx(1 / 3, abs=0.02)


# Transfer.


def small_map():
    tasks = te.tasks.grid((50,), [0], [1])
    fitness = np.linspace(0, 1, 50)
    fitness[7] = np.nan
    solutions = np.where(np.isnan(fitness), np.nan, np.arange(50) / 50)[:, None]
    return te.Result(
        solutions=solutions,
        fitness=fitness,
        tasks=tasks,
        evaluations=50,
        task_evaluations=np.ones(50, int),
        last_improved=np.ones(50, int),
    )


def differ(solutions, tasks):
    return np.where(np.abs(solutions[:, 0] - 0.5) < 1e-9, np.nan, 10 * solutions[:, 0] + tasks[:, 0])


def domain_of(fitness, call="batch"):
    return te.Domain(
        name="line", fitness=fitness, tasks=te.tasks.grid((50,), [0], [1]), bounds=(0, 1), dim=1, call=call
    )


def test_hand_calculated_transfer(tmp_path):
    mapped = small_map()
    elites = best_elites(mapped, 0.05)
    assert elites.tolist() == list(range(49, 39, -1))
    found = evaluate_transfer(mapped, domain_of(differ), elites, tmp_path / "kept.npz")
    assert found.tasks.tolist() == [i for i in range(50) if i != 7]
    tasks = mapped.tasks.descriptors[:, 0]
    assert found.own[0] == tasks[0]
    assert math.isnan(found.own[24])  # task 25, whose solution is 0.5, fails
    assert found.failed == 1
    differences = found.differences(2)
    assert differences.shape == (2, 49)
    assert differences[1, 3] == pytest.approx(10 * (48 - 3) / 50)
    assert math.isnan(differences[0, 48])  # on its own task
    assert np.isnan(differences).sum() == 2 + 2


def test_interrupted_transfer_resumes_unless_elites_changed(tmp_path, monkeypatch):
    monkeypatch.setitem(rows.BLOCK, "batch", 40)
    calls = []

    def counted(solutions, tasks):
        calls.append(len(solutions))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return differ(solutions, tasks)

    mapped, path = small_map(), tmp_path / "kept.npz"
    elites = best_elites(mapped, 0.05)
    with pytest.raises(te.Interrupted, match=r"after 120 of 539 evaluations of the transfer; the same call"):
        evaluate_transfer(mapped, domain_of(counted), elites, path)
    found = evaluate_transfer(mapped, domain_of(counted), elites, path)
    assert sum(calls) == 49 * 11
    wanted = evaluate_transfer(mapped, domain_of(differ), elites, tmp_path / "other.npz")
    assert np.array_equal(found.fitness, wanted.fitness, equal_nan=True)
    evaluate_transfer(mapped, domain_of(counted), elites[:5], path)  # other elites
    assert sum(calls) == 49 * 11 + 49 * 6
    path.write_bytes(path.read_bytes()[:100])
    evaluate_transfer(mapped, domain_of(counted), elites[:5], path)  # damaged
    assert sum(calls) == 49 * 11 + 2 * 49 * 6


def test_compared_algorithms_are_registered():
    assert set(FOUR) < set(te.algorithms.ALGORITHMS)
