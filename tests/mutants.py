"""Check that the tests catch mistakes: each mutant is a copy of the library with one mistake planted in it.

    make mutants
    python tests/mutants.py [-j 1] [NAME ...]

The tests listed with a mutant must pass without it and fail with it. If a mutant survives, no fast test checks this
behaviour, so write one. After a change of the source, update the text of the mutants here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("src", "tests", "conftest.py", "pyproject.toml")
FAST = "not slow and not thorough and not browser"
# Seconds per run of pytest, many times the duration of the slowest one. A mutant that never ends counts as broken.
TIMEOUT = 600


@dataclass(frozen=True)
class Mutant:
    """A planted mistake.

    Attributes:
        name: the mistake in a few words.
        file: the module to change, below src/taskelites.
        text: the source to replace, which must occur exactly once.
        replacement: the source with the mistake.
        tests: files or ids of fast tests, one of which must fail; a file may be in any folder below tests.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]


ARCHIVE = ("test_archive.py",)
SELECTION = (
    "test_selection.py::test_rank_limits_equal_closed_form",
    "test_selection.py::test_parents_are_uniform_among_solved_tasks",
    "test_selection.py::test_simulation_and_table_break_ties_alike",
    "test_selection.py::test_distribution_without_neighbour_table_equals_simulated_tournament",
)
BANDIT = ("test_bandit.py",)
VARIATION = (
    "test_variation.py::test_children_stay_in_box_of_any_scale",
    "test_variation.py::test_iso_line_without_isotropic_noise_stays_on_line",
    "test_variation.py::test_sbx_spread_has_published_distribution",
)
PAPER = ("test_mt_map_elites.py::test_archive_equals_loop_of_paper",)
CMA_ES = (
    "test_cma_es.py::test_constants_equal_cma_package",
    "test_cma_es.py::test_each_update_equals_cma_package[settings0-5-beyond]",
    "test_cma_es.py::test_failures_rank_last_and_failed_generation_updates_nothing",
)
MONET = (
    "test_monet.py::test_neighbour_is_best_or_random_solved_one",
    "test_monet.py::test_archive_equals_plain_loop[0.3-best-False]",
)
AUTO = (
    "test_auto.py::test_ancestors_share_of_gain_falls_with_age_of_parent",
    "test_auto.py::test_rule_is_credited_for_candidates_whose_task_it_chose",
    "test_auto.py::test_gain_of_first_solution_is_relative_to_worst_elite",
    "test_auto.py::test_failed_attempts_divide_promise_of_task",
    "test_auto.py::test_failed_attempts_do_not_make_worse_mate_promising",
)
PREDICTION = (
    "test_prediction.py::test_regression_weights_are_tricube_of_distance",
    "test_prediction.py::test_linear_method_trusts_neighbours_of_same_posture",
    "test_prediction.py::test_regressor_trusts_neighbours_of_same_posture",
    "test_prediction.py::test_error_is_leave_one_out_error",
)
HISTORY = (
    "test_algorithms.py::test_history_row_equals_shorter_run[mt-map-elites-batch]",
    "test_algorithms.py::test_history_row_equals_shorter_run[cma-es-batch]",
)
ROUNDS = ("test_in_step.py::test_run_interrupted_inside_round_resumes_bit_for_bit[408]",)
FAILURES = ("test_resume.py::test_failures_are_counted_once_in_run_that_is_interrupted_repeatedly",)
DISPATCHER = ("test_search.py::test_each_and_batch_agree_bit_for_bit", "test_workers.py::test_retries_are_limited")
CHECKPOINT = (
    "test_checkpoint.py::test_flipped_bit_is_detected_as_damage",
    "test_checkpoint.py::test_old_checkpoints_are_removed_after_new_one_is_synced",
)

MUTANTS = [
    # The archive.
    Mutant(
        "equal fitness replaces an elite",
        "core/archive.py",
        "if ties else usable > best_until",
        "if ties else (usable >= best_until) & (usable > -jnp.inf)",
        ARCHIVE,
    ),
    Mutant(
        "later rows of a batch count as earlier ones",
        "core/archive.py",
        "earlier = rivals & (row[None, :] < row[:, None])",
        "earlier = rivals & (row[None, :] > row[:, None])",
        ARCHIVE,
    ),
    Mutant(
        "chunks ignore the results of earlier chunks",
        "core/archive.py",
        "_insert_chunk(carry, *chunk, ties), archive, batch)",
        "_insert_chunk(archive, *chunk, ties), archive, batch)",
        ARCHIVE,
    ),
    Mutant(
        "evaluations are numbered from zero",
        "core/archive.py",
        "set(archive.told + row + 1, mode",
        "set(archive.told + row, mode",
        ARCHIVE,
    ),
    Mutant(
        "infinite fitness does not count as failed",
        "core/archive.py",
        "(jnp.isnan(fitness) | (fitness == jnp.inf))",
        "jnp.isnan(fitness)",
        ARCHIVE,
    ),
    Mutant(
        "failures count as infeasible",
        "core/archive.py",
        "_count(real & (fitness == -jnp.inf))",
        "_count(real & ~jnp.isfinite(fitness))",
        ARCHIVE,
    ),
    # Selection.
    Mutant(
        "a tournament has one task fewer",
        "core/selection.py",
        "below = -np.expm1(size * np.log1p(-rank / tasks))",
        "below = -np.expm1((size - 1) * np.log1p(-rank / tasks))",
        SELECTION,
    ),
    Mutant(
        "the last solved task is never a parent",
        "core/selection.py",
        "uniform_integers(words, archive.solved_count)]",
        "uniform_integers(words, archive.solved_count - 1)]",
        SELECTION,
    ),
    Mutant(
        "without a table, ties do not prefer the own task",
        "core/selection.py",
        "jnp.where(drawn == parents[:, None], -1.0, distance)",
        "jnp.where(drawn == parents[:, None], 0.0, distance)",
        SELECTION,
    ),
    Mutant(
        "without a table, a tournament is rounded up to full rounds",
        "core/selection.py",
        "distance = jnp.where(counts, distance, jnp.inf)",
        "distance = jnp.where(counts, distance, distance)",
        SELECTION,
    ),
    # The bandit.
    Mutant(
        "an untried arm comes last",
        "core/bandit.py",
        "jnp.where(pulls > 0, bound, jnp.inf)",
        "jnp.where(pulls > 0, bound, -jnp.inf)",
        BANDIT,
    ),
    Mutant(
        "the bandit explores too little",
        "core/bandit.py",
        "jnp.sqrt(2.0 * jnp.log(generation) / safe)",
        "jnp.sqrt(jnp.log(generation) / safe)",
        PAPER,
    ),
    # Variation.
    Mutant(
        "children leave the box",
        "core/variation.py",
        "jnp.clip(first + self.sigma1 * isotropic + self.sigma2 * (second - first) * line, lower, upper)",
        "first + self.sigma1 * isotropic + self.sigma2 * (second - first) * line",
        VARIATION,
    ),
    Mutant(
        "the sigmas of the line operator are swapped",
        "core/variation.py",
        "first + self.sigma1 * isotropic + self.sigma2 * (second - first) * line",
        "first + self.sigma2 * isotropic + self.sigma1 * (second - first) * line",
        VARIATION,
    ),
    Mutant(
        "the crossover spreads twice as far",
        "core/variation.py",
        "half = 0.5 * base",
        "half = base",
        VARIATION,
    ),
    # Multi-task MAP-Elites.
    Mutant(
        "the wrong size is rewarded",
        "algorithms/mt_map_elites.py",
        "candidates.origin[:, None] == jnp.arange(len(self.sizes))",
        "candidates.origin[:, None] == jnp.arange(len(self.sizes))[::-1]",
        PAPER,
    ),
    Mutant(
        "a child is evaluated near its second parent's task",
        "algorithms/mt_map_elites.py",
        "self.tournament(key_tournament, first, arm)",
        "self.tournament(key_tournament, second, arm)",
        PAPER,
    ),
    # CMA-ES.
    Mutant(
        "a learning rate has a wrong constant",
        "algorithms/cma_es.py",
        "c_sigma = min(0.5, (mu_eff + 2) / (dim + mu_eff + 3))",
        "c_sigma = min(0.5, (mu_eff + 2) / (dim + mu_eff + 5))",
        CMA_ES,
    ),
    Mutant(
        "the mean moves away from the best",
        "algorithms/cma_es.py",
        "mean = now.mean + now.sigma * now.scaling * shift",
        "mean = now.mean - now.sigma * now.scaling * shift",
        CMA_ES,
    ),
    Mutant(
        "a failed generation updates the distribution",
        "algorithms/cma_es.py",
        "waits = ~jnp.any(jnp.isfinite(cost))",
        "waits = jnp.asarray(False)",
        CMA_ES,
    ),
    # MONET.
    Mutant(
        "of equal neighbours the furthest is chosen",
        "algorithms/monet.py",
        "jnp.min(jnp.where(fitness == greatest, place, self.links - 1), axis=1)",
        "jnp.max(jnp.where(fitness == greatest, place, 0), axis=1)",
        MONET,
    ),
    Mutant(
        "individual and social learning are swapped",
        "algorithms/monet.py",
        "self.lower.dtype) < self.individual",
        "self.lower.dtype) >= self.individual",
        MONET,
    ),
    # Auto.
    Mutant(
        "the credit of ancestors does not age",
        "algorithms/auto.py",
        'self.numbers["heritage"] * self.numbers["discount"] ** age',
        'self.numbers["heritage"] * 1.0**age',
        AUTO,
    ),
    Mutant(
        "failed attempts do not lower a promise",
        "algorithms/auto.py",
        "1.0 + state.vain[focal], 1.0)",
        "1.0, 1.0)",
        AUTO,
    ),
    Mutant(
        "failed attempts make worse mates promising",
        "algorithms/auto.py",
        "(rule == PROMISE) & (above > 0)",
        "(rule == PROMISE)",
        AUTO,
    ),
    Mutant(
        "each rule is credited for the other",
        "algorithms/auto.py",
        "ruled = (rule[:, None] == jnp.arange(len(RULES)))",
        "ruled = (rule[:, None] != jnp.arange(len(RULES)))",
        AUTO,
    ),
    Mutant(
        "rules never learn",
        "algorithms/auto.py",
        'rules=state.rules.learnt(ruled, ruled, gain, numbers["discount"])',
        "rules=state.rules",
        AUTO,
    ),
    Mutant(
        "rules are credited although a way chose the task",
        "algorithms/auto.py",
        "(way > SHARED)[:, None]",
        "(way >= 0)[:, None]",
        AUTO,
    ),
    Mutant(
        "the gain of a first solution is relative to zero",
        "algorithms/auto.py",
        "above = evaluation.fitness - jnp.maximum(old, state.worst)",
        "above = evaluation.fitness - jnp.where(old > -jnp.inf, old, 0.0)",
        AUTO,
    ),
    Mutant(
        "the gain of a first solution is infinite, so it does not count",
        "algorithms/auto.py",
        "above = evaluation.fitness - jnp.maximum(old, state.worst)",
        "above = evaluation.fitness - old",
        AUTO,
    ),
    # Prediction.
    Mutant(
        "the inner exponent of the tricube is 2",
        "core/fits.py",
        "(1 - (distances / reach) ** 3) ** 3",
        "(1 - (distances / reach) ** 2) ** 3",
        PREDICTION,
    ),
    Mutant(
        "the outer exponent of the tricube is 2",
        "core/fits.py",
        "(1 - (distances / reach) ** 3) ** 3",
        "(1 - (distances / reach) ** 3) ** 2",
        PREDICTION,
    ),
    Mutant(
        "the linear fit trusts any posture",
        "results/prediction.py",
        "places[:, None], distances, ",
        "places[:, None], distances, 1.0 or ",
        PREDICTION,
    ),
    Mutant(
        "the regressor trusts any posture",
        "results/prediction.py",
        "= noise / np.maximum(",
        "= noise / np.maximum(1.0 ** ",
        PREDICTION,
    ),
    Mutant(
        "the scale of trust is halved",
        "results/prediction.py",
        "scale = 2 * np.quantile",
        "scale = np.quantile",
        PREDICTION,
    ),
    Mutant(
        "an elite helps to predict itself",
        "results/prediction.py",
        "others = numbers != own[:, None]",
        "others = numbers != numbers[:, -1:]",
        PREDICTION,
    ),
    # A run: its history, its steps, its evaluations, its files.
    Mutant(
        "a short history has half its rows",
        "search/history.py",
        "every = max(1, batches // _LOGGED_POINTS)",
        "every = max(2, batches // _LOGGED_POINTS)",
        HISTORY,
    ),
    Mutant(
        "the history counts one row too many within a step",
        "search/history.py",
        "counted = jnp.arange(len(candidates)) < rows",
        "counted = jnp.arange(len(candidates)) <= rows",
        HISTORY,
    ),
    Mutant(
        "a snapshot lacks the results of an unfinished round",
        "search/stepper.py",
        'arrays["fitness"] = now.fitness.copy()',
        'arrays["fitness"] = np.full_like(now.fitness, np.nan)',
        ROUNDS,
    ),
    Mutant(
        "a budget that ends within a round tells one row too many",
        "search/stepper.py",
        "told = np.arange(len(self.candidates)) < self.row",
        "told = np.arange(len(self.candidates)) <= self.row",
        ROUNDS,
    ),
    Mutant(
        "a resumed run loses its failure counts",
        "runs/failure_log.py",
        'self.counts = Counter(kept["counts"])',
        "self.counts = Counter()",
        FAILURES,
    ),
    Mutant(
        "results of a chunk are assigned to wrong rows",
        "evaluation/dispatcher.py",
        "self.send(Work(np.arange(sent, sent + size), solutions[part], tasks[part]))",
        "self.send(Work(np.arange(sent, sent + size)[::-1], solutions[part], tasks[part]))",
        DISPATCHER,
    ),
    Mutant(
        "a failure is retried once too often",
        "evaluation/dispatcher.py",
        "work.retries < self._retries",
        "work.retries <= self._retries",
        DISPATCHER,
    ),
    Mutant(
        "the checksum of a checkpoint is not compared",
        "runs/checkpoint.py",
        "if hashlib.sha256(data).hexdigest()[:16] != file.checksum:",
        "if not hashlib.sha256(data).hexdigest():",
        CHECKPOINT,
    ),
    Mutant(
        "a file is renamed before it is written to disk",
        "storage.py",
        "            os.fsync(file.fileno())\n",
        "",
        CHECKPOINT,
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Check that the fast tests catch planted mistakes.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="mutants to run, by part of their name; all by default"
    )
    parser.add_argument("-j", type=int, choices=(1, 2), default=2, help="number of mutants to run at a time")
    given = parser.parse_args()
    chosen = [each for each in MUTANTS if not given.names or any(name in each.name for name in given.names)]
    if not chosen:
        parser.error(f"no mutant is called {', '.join(given.names)}; there are: {'; '.join(m.name for m in MUTANTS)}")
    stale = [problem for mutant in chosen if (problem := mistake_in(mutant))]
    if stale:
        print("\n".join(stale), file=sys.stderr)
        return 1
    with ThreadPoolExecutor(given.j) as pool:
        selections = list(dict.fromkeys(mutant.tests for mutant in chosen))
        passed = [report(found) for found in pool.map(run_unmutated, selections)]
        if not all(passed):
            print("The tests must pass without a mutant.", file=sys.stderr)
            return 1
        caught = [report(found) for found in pool.map(run_mutant, chosen)]
    print(f"{sum(caught)} of {len(caught)} mutants were caught.")
    return 0 if all(caught) else 1


def mistake_in(mutant: Mutant) -> str | None:
    """Return what is wrong with a mutant whose text does not occur exactly once, or None."""
    path = ROOT / "src" / "taskelites" / mutant.file
    times = path.read_text(encoding="utf-8").count(mutant.text) if path.is_file() else 0
    if times == 1:
        return None
    where = f"src/taskelites/{mutant.file}"
    return f"{mutant.name!r}: {mutant.text!r} must occur once in {where}, not {times} times; update tests/mutants.py"


@dataclass(frozen=True)
class Found:
    """The outcome of one run of pytest.

    Attributes:
        good: whether the tests passed without a mutant, or failed with one.
        text: the line to print.
        seconds: the duration of the run.
        output: the output of pytest, if it explains what is wrong.
    """

    good: bool
    text: str
    seconds: float
    output: str = ""


def report(found: Found) -> bool:
    """Print the outcome, and return whether it is good."""
    print(f"{found.seconds:6.1f} s  {found.text}", flush=True)
    if not found.good and found.output:
        print(found.output, flush=True)
    return found.good


def run_unmutated(tests: tuple[str, ...]) -> Found:
    """Run tests that must pass."""
    with copy() as folder:
        code, seconds, output = pytest_in(folder, tests)
    files = ", ".join(dict.fromkeys(test.split("::")[0] for test in tests))
    return Found(code == 0, f"{'passes' if code == 0 else 'FAILS'} without a mutant: {files}", seconds, output)


def run_mutant(mutant: Mutant) -> Found:
    """Run the tests of a mutant, one of which must fail; an error before the tests does not count."""
    with copy() as folder:
        path = folder / "src" / "taskelites" / mutant.file
        path.write_text(path.read_text(encoding="utf-8").replace(mutant.text, mutant.replacement), encoding="utf-8")
        code, seconds, output = pytest_in(folder, mutant.tests)
    failed = [line.split()[1].split("::")[-1] for line in output.splitlines() if line.startswith("FAILED ")]
    if code == 1 and failed:
        return Found(True, f"caught    {mutant.name}: {failed[0]}", seconds)
    if code == 0:
        return Found(False, f"SURVIVED  {mutant.name}", seconds)
    return Found(False, f"BROKEN    {mutant.name}", seconds, output)


@contextmanager
def copy() -> Iterator[Path]:
    """Make a temporary copy of the sources and the tests."""
    with TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / part, folder / part)
        yield folder


def placed(folder: Path, test: str) -> str:
    """Return the id of a test with the folder of its file."""
    name, *rest = test.split("::")
    found = [str(path.relative_to(folder)) for path in (folder / "tests").rglob(name)]
    return "::".join([*(found or [name]), *rest])


def pytest_in(folder: Path, tests: tuple[str, ...]) -> tuple[int | None, float, str]:
    """Run tests in a copy; return the exit status (None after a timeout), the seconds and the output."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", FAST]
    command += [placed(folder, test) for test in tests]
    # All copies share one compile cache, so only programs that a mutant changes are compiled again.
    cache = {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".pytest_cache" / "compiled")}
    path = os.pathsep.join([str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | cache | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return None, time.monotonic() - begin, f"The tests did not end within {TIMEOUT} seconds."
    return done.returncode, time.monotonic() - begin, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
