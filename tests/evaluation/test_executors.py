"""Executors give the same archive as this process. Exceptions, hangs and crashes are counted and do not end the run."""

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import uuid
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest

import taskelites as te
from taskelites.evaluation.engines.executor import forks, slots_of

pytestmark = [
    # Trivial functions run slower in workers, which causes a warning on a slow machine.
    pytest.mark.filterwarnings("ignore:workers make this run slower:taskelites.errors.FitnessWarning"),
    # Ray starts its nodes with fork and exec, and JAX warns about every fork.
    pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning"),
]

TASKS = np.linspace(0, 1, 300)[:, None]


# Each executor is started once per module. Fixtures import its library, so that a test of threads does not start Ray.


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


def spawned(number=2):
    return ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def processes():
    with spawned() as pool:
        yield pool


@pytest.fixture(scope="module")
def loky():
    from loky import get_reusable_executor

    # By default, loky warns when it ends a process that was idle for 10 s. As an error, this would break the pool.
    pool = get_reusable_executor(max_workers=2, timeout=3600)
    yield pool
    pool.shutdown(kill_workers=True)


@pytest.fixture(scope="module")
def dask():
    import dask
    from distributed import Client, LocalCluster

    settings = {
        # Give up on a task when its process dies, instead of after three more attempts.
        "distributed.scheduler.allowed-failures": 0,
        # Dask treats a process that takes longer than this to restart as lost.
        "distributed.deploy.lost-worker-timeout": "1h",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            processes=True,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor()


@pytest.fixture(scope="module")
def ray_cluster():
    import ray
    from ray.cluster_utils import Cluster

    # Detect a lost node after two seconds instead of fifteen. A slow node must not count as lost.
    config = {"health_check_period_ms": 400, "health_check_initial_delay_ms": 0}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": config}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        here = {"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}}  # so that Ray's processes can import this module
        ray.init(address=cluster.address, runtime_env=here, logging_level=logging.ERROR, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def ray(ray_cluster):
    with te.RayExecutor() as executor:
        yield executor


@pytest.fixture
def executor(request):
    return request.getfixturevalue(request.param)


ELSEWHERE = ["processes", "loky", "dask", "ray"]
everywhere = pytest.mark.parametrize("executor", ["threads", *ELSEWHERE], indirect=True)


def exact(solution, task):
    """Every operation is exactly rounded, so that single calls and batches give the same bits."""
    return -(abs(solution[0] - task[0]) + abs(solution[1] - task[0]))


def exact_batch(solutions, tasks):
    return -(np.abs(solutions[:, 0] - tasks[:, 0]) + np.abs(solutions[:, 1] - tasks[:, 0]))


FUNCTIONS = {"each": exact, "batch": exact_batch}


def enclosed(call):
    """Return the same functions as closures, which cannot be imported by name."""
    minus = -1.0
    if call == "each":
        return lambda solution, task: minus * (abs(solution[0] - task[0]) + abs(solution[1] - task[0]))
    return lambda solutions, tasks: minus * (abs(solutions[:, 0] - tasks[:, 0]) + abs(solutions[:, 1] - tasks[:, 0]))


def run(fitness=exact, **options):
    options = {"evaluations": 400, "seed": 4} | options
    return te.solve(fitness, TASKS, bounds=(0, 1), dim=2, **options)


@cache
def alone(call="each"):
    return run(FUNCTIONS[call], call=call)


def assert_same(a, b):
    assert np.array_equal(a.solutions, b.solutions, equal_nan=True)
    assert np.array_equal(a.fitness, b.fitness, equal_nan=True)
    assert np.array_equal(a.task_evaluations, b.task_evaluations)
    for name in set(a.history) - {"seconds"}:
        assert np.array_equal(a.history[name], b.history[name], equal_nan=True), name


# Imports. This test must run first: a function of this module is pickled by its name, which imports the library.


@pytest.mark.parametrize("executor", ELSEWHERE, indirect=True)
def test_workers_import_neither_taskelites_nor_jax(executor):
    def fitness(solution, task):
        import sys

        return float(any(name in sys.modules for name in ("jax", "taskelites")))

    result = run(fitness, executor=executor, evaluations=100)
    assert (result.fitness[result.solved] == 0).all()


# Identical results.


@everywhere
@pytest.mark.parametrize("call", FUNCTIONS)
@pytest.mark.parametrize("known", [True, False], ids=["of a module", "closure"])
def test_executor_result_equals_inline_result(executor, call, known):
    result = run(FUNCTIONS[call] if known else enclosed(call), call=call, executor=executor)
    assert_same(result, alone(call))
    assert result.evaluations == 400
    assert result.failures == {}
    assert result.settings["evaluation"]["executor"] == type(executor).__name__


def count_of_the_chunk(solutions, tasks):
    """Depend on the number of rows, to show how batches are split."""
    return exact_batch(solutions, tasks) + len(solutions)


@cache
def in_one_worker():
    return run(count_of_the_chunk, call="batch", workers=1, evaluations=300)


@everywhere
def test_batches_are_split_as_for_workers(executor):
    assert_same(run(count_of_the_chunk, call="batch", executor=executor, evaluations=300), in_one_worker())
    assert np.nanmax(in_one_worker().fitness) == pytest.approx(8, abs=0.5)  # an eighth of a batch of 64


@everywhere
def test_async_mode_records_each_evaluation_once(executor, tmp_path):
    calls = tmp_path / "calls"

    def counted(solution, task):
        with calls.open("ab", buffering=0) as file:
            file.write(b".")
        return -abs(solution[0] - task[0])

    result = run(counted, executor=executor, mode="async")
    assert calls.stat().st_size == result.evaluations == result.task_evaluations.sum() == 400
    assert np.allclose(result.fitness, -np.abs(result.solutions[:, 0] - TASKS[:, 0]), equal_nan=True)


# setup=


@everywhere
def test_setup_runs_once_per_worker(executor, tmp_path):
    def setup():
        worker = f"{os.getpid()}-{threading.get_ident()}"
        (tmp_path / f"{worker} {uuid.uuid4()}").touch()
        return worker

    def fitness(solution, task, worker):
        assert worker == f"{os.getpid()}-{threading.get_ident()}"
        return exact(solution, task)

    assert_same(run(fitness, executor=executor, setup=setup), alone())
    workers = [path.name.split()[0] for path in tmp_path.iterdir()]
    assert workers
    assert len(workers) == len(set(workers))


@everywhere
def test_exception_in_setup_raises_fitness_error(executor):
    def setup():
        raise OSError("no licence")

    with pytest.raises(
        te.FitnessError, match=r"^a worker could not be set up: setup raised OSError: no licence \(test_ex"
    ) as caught:
        run(lambda solution, task, licence: 0.0, executor=executor, setup=setup)
    assert caught.value.result.evaluations == 0
    assert "OSError: no licence" in caught.value.__notes__[0]


# Failed evaluations.


@everywhere
def test_failure_counts_equal_inline_counts(executor):
    def sometimes(solution, task):
        if solution[0] < 0.1:
            raise ValueError("too thin")
        return "nonsense" if solution[0] < 0.2 else float("nan") if solution[0] < 0.3 else exact(solution, task)

    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed"):
        here = run(sometimes)
    with pytest.warns(te.errors.FitnessWarning, match="evaluations failed"):
        there = run(sometimes, executor=executor)
    assert_same(there, here)
    assert there.failures == here.failures
    assert min(there.failures[kind] for kind in ("raised", "nonsense", "nan")) > 0


@everywhere
def test_retry_recovers_evaluations_that_fail_once(executor, tmp_path):
    def moody(solution, task):
        seen = tmp_path / solution.tobytes().hex()
        if solution[0] < 0.1 and not seen.exists():
            seen.touch()
            raise ConnectionError("try again")
        return exact(solution, task)

    result = run(moody, executor=executor, on_error="retry")
    assert_same(result, alone())
    assert result.failures == {}
    assert result.retried == len(list(tmp_path.iterdir())) > 0


@everywhere
def test_fitness_error_keeps_partial_result(executor):
    def late(solution, task):
        if abs(solution[0] - 0.5) < 0.005:
            raise ZeroDivisionError("the simulator fell over")
        return exact(solution, task)

    with pytest.raises(te.FitnessError, match=r"fitness raised ZeroDivisionError: the simulator fell over") as caught:
        run(late, executor=executor, on_error="raise")
    kept = caught.value.result
    assert 0 < kept.evaluations < 400
    assert_same(kept, run(evaluations=kept.evaluations))


# Processes that crash or hang.


@cache
def marked(**options):
    """Return a solution from the middle of a run, and the result if its fitness is NaN."""
    seen = []
    run(lambda solution, task: seen.append(solution.copy()) or exact(solution, task), **options)
    mark = seen[len(seen) // 2]
    with pytest.warns(te.errors.FitnessWarning, match=r"1 of \d+ evaluations failed \(nan 1\)"):
        result = run(lambda x, t: np.nan if np.array_equal(x, mark) else exact(x, t), **options)
    return mark, result


def deadly(mark):
    def fitness(solution, task):
        if np.array_equal(solution, mark):
            os.kill(os.getpid(), signal.SIGSEGV)
        return exact(solution, task)

    return fitness


@pytest.mark.parametrize("kind", ["processes", "loky"])
def test_broken_pool_ends_run_and_keeps_partial_result(kind):
    if kind == "processes":
        pool, cause = spawned(1), "BrokenProcessPool: A process in the process pool was terminated abruptly"
    else:
        from loky import ProcessPoolExecutor as Loky

        pool, cause = Loky(1), "TerminatedWorkerError: A worker process managed by the executor was unexpectedly"
    mark, _ = marked()
    with pool, pytest.raises(te.FitnessError, match=rf"^executor can't go on: {cause}.*\(workers=N and") as caught:
        run(deadly(mark), executor=pool)
    kept = caught.value.result
    assert 0 < kept.evaluations <= 200
    assert_same(kept, run(evaluations=kept.evaluations))


def test_ray_process_crash_fails_only_its_evaluation(ray_cluster):
    mark, lived = marked()
    executor = te.RayExecutor(max_retries=0)  # a retry would crash another process, which takes a second
    with pytest.warns(te.errors.FitnessWarning, match=r"1 of 400 evaluations failed \(died 1\)"):
        result = run(deadly(mark), executor=executor)
    assert_same(result, lived)


def test_dask_process_crash_does_not_end_run(dask):
    mark, _ = marked()
    with pytest.warns(te.errors.FitnessWarning, match=r"\d+ of 400 evaluations failed \(died \d+\)"):
        result = run(deadly(mark), executor=dask)
    assert result.evaluations == 400
    # Dask may also count evaluations that were queued in the same process.
    assert 1 <= result.failed <= 10


# Private attributes of other libraries that the engine uses.


def test_dask_executor_has_private_attributes_that_are_used(dask):
    missing = {"_client", "_futures", "_kwargs", "_shutdown"} - set(vars(dask))
    assert not missing, f"Dask's executor has no {missing} any more; adapt `_Dask` in evaluation/engines/executor.py"
    for owner, name in [(dask._client, "submit"), (dask._client, "nthreads"), (dask._client.loop, "add_callback")]:
        assert callable(getattr(owner, name)), f"Dask's {owner} has no {name} any more; adapt `_Dask`"
    assert slots_of(dask) == 2


def test_pool_size_and_start_method_are_detected(threads, loky):
    assert slots_of(threads) == 2, "ThreadPoolExecutor has no _max_workers any more; adapt `slots_of`"
    assert slots_of(loky) == 2, "loky has no _max_workers any more; adapt `slots_of`"
    assert not forks(threads)
    assert not forks(loky)
    for method, fork in [("spawn", False), ("fork", True)]:
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context(method)) as pool:
            assert slots_of(pool) == 3, "ProcessPoolExecutor has no _max_workers any more; adapt `slots_of`"
            assert forks(pool) == fork, "ProcessPoolExecutor has no _mp_context any more; adapt `forks`"


def test_result_lost_by_dask_raises_instead_of_hanging(dask, monkeypatch):
    async def lost(*args, **options):
        raise RuntimeError("gone")

    # Dask reports a future as finished before it fetches the result.
    monkeypatch.setattr(dask._client, "_gather", lost)
    with pytest.raises(te.FitnessError, match=r"^no answer came from its process \(RuntimeError: gone\)"):
        run(executor=dask, on_error="raise")


def test_cluster_without_workers_warns_while_run_waits(monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr("taskelites.evaluation.engines.executor.QUIET", 0.2)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster,
        Client(cluster) as client,
    ):
        hire = threading.Timer(2.0, cluster.scale, [1])
        hire.start()
        with pytest.warns(
            te.errors.FitnessWarning, match="executor has no workers left: the run waits until one joins"
        ):
            result = run(executor=client.get_executor())
        hire.join()
    assert_same(result, run())


def test_hanging_ray_evaluation_times_out(ray, tmp_path):
    # With steps of four rows, a chunk has one row, so that its timeout is that of one evaluation.
    few = {"evaluations": 100, "batch_size": 4}
    mark, lived = marked(**few)

    def hangs(solution, task):
        if np.array_equal(solution, mark):
            (tmp_path / str(uuid.uuid4())).touch()
            time.sleep(1000)
        return exact(solution, task)

    with pytest.warns(te.errors.FitnessWarning, match=r"1 of 100 evaluations failed \(timeout 1\)"):
        result = run(hangs, executor=ray, timeout=1.5, **few)
    assert_same(result, lived)
    assert len(list(tmp_path.iterdir())) == 2  # retried once, since a lost node looks the same


def test_lost_ray_node_causes_no_failures(ray_cluster, ray, tmp_path):
    def fitness(solution, task):
        import ray

        time.sleep(0.01)
        (tmp_path / ray.get_runtime_context().get_node_id()).touch()
        return exact(solution, task)

    def loses(row):
        if row["evaluations"] > 100 and killer.ident is None:
            killer.start()

    node = ray_cluster.add_node(num_cpus=1)
    killer = threading.Thread(target=ray_cluster.remove_node, args=(node,), kwargs={"allow_graceful": False})
    result = run(fitness, executor=ray, callback=loses)
    killer.join()
    assert (tmp_path / node.node_id).exists()  # the node evaluated before it was removed
    assert_same(result, alone())
    assert result.failures == {}


# Unusable executors.


def test_shut_down_executor_raises():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(te.FitnessError, match=r"^executor can't go on: RuntimeError: cannot schedule new futures"):
        run(executor=pool)


def test_cancelled_futures_are_blamed_on_executor():
    class Headless(Executor):
        """Behaves like Dask's executor when its scheduler is gone."""

        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.cancel()
            return future

    with pytest.raises(
        te.FitnessError, match=r"^executor can't go on: CancelledError; it was shut down, or "
    ) as caught:
        run(executor=Headless())
    assert caught.value.result.evaluations == 0


def test_ray_is_not_restarted_after_shutdown(ray_cluster, monkeypatch):
    import ray

    executor = te.RayExecutor()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(te.FitnessError, match=r"^executor can't go on: RuntimeError: Ray was shut down"):
        run(executor=executor)


def test_ray_executor_passes_runtime_env_and_keeps_sigterm_handler(monkeypatch):
    import ray

    asked = {}

    def init(**options):
        asked.update(options)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # stands in for Ray's own handler

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    before = signal.getsignal(signal.SIGTERM)
    te.RayExecutor("auto", runtime_env={"working_dir": "."})
    assert asked["address"] == "auto"
    assert asked["runtime_env"] == {"working_dir": "."}
    assert signal.getsignal(signal.SIGTERM) is before


def test_unreachable_ray_cluster_raises_immediately(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", None)  # the real function would retry for minutes
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=rf"^can't join a Ray cluster at '{address}' \(.*refused\); start one with `ray"
        ):
            te.RayExecutor(address)


@pytest.mark.parametrize("executor", ELSEWHERE, indirect=True)
def test_unpicklable_fitness_raises(executor):
    lock = threading.Lock()
    with pytest.raises(te.FitnessError, match=r"^fitness can't be sent to executor: TypeError: cannot pickle '_thread"):
        run(lambda solution, task: float(lock.locked()), executor=executor)


def test_forking_pool_is_rejected():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool,
        pytest.raises(ValueError, match=r"executor must not fork this process.*multiprocessing.get_context\('spawn"),
    ):
        run(executor=pool)


def test_non_executor_is_rejected():
    with pytest.raises(TypeError, match=r"executor must be a concurrent.futures.Executor, not int; for Dask give"):
        run(executor=8)


def test_workers_and_executor_cannot_be_combined(threads):
    with pytest.raises(ValueError, match="workers and executor can't be combined"):
        run(executor=threads, workers=2)


def test_timeout_needs_executor_with_killable_processes(threads, processes):
    for pool in (threads, processes):
        with pytest.raises(ValueError, match=r"timeout needs processes that can be killed, .* give workers=N or exec"):
            run(executor=pool, timeout=1.0)
