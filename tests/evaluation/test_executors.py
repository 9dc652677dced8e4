"""Executors: whoever evaluates, the archive is the same; what raises, hangs or dies is counted, and the run goes on."""

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
    # Trivial functions are slower elsewhere, and a slow machine says so.
    pytest.mark.filterwarnings("ignore:workers make this run slower:taskelites.errors.FitnessWarning"),
    # Ray starts its nodes by a fork that becomes another program at once, and JAX warns of every fork.
    pytest.mark.filterwarnings(r"ignore:os.fork\(\) was called:RuntimeWarning"),
]

TASKS = np.linspace(0, 1, 300)[:, None]


# Each is started once for this file. Imports stand in the fixtures, so that one test of threads starts no Ray.


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

    # A process that ends because it was idle for 10 s makes loky warn, and an error in its thread breaks the pool.
    pool = get_reusable_executor(max_workers=2, timeout=3600)
    yield pool
    pool.shutdown(kill_workers=True)


@pytest.fixture(scope="module")
def dask():
    import dask
    from distributed import Client, LocalCluster

    settings = {
        # A task whose process dies is given up at once, not after three more.
        "distributed.scheduler.allowed-failures": 0,
        # A process that is being started again when this has passed since a death is taken for lost.
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

    # A node that is gone is noticed after two seconds, not after fifteen; one that is slow is not gone.
    config = {"health_check_period_ms": 400, "health_check_initial_delay_ms": 0}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": config}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        here = {"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}}  # as with every cluster, to find this module
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
    """CheckpointInterval step is exactly rounded, alone and in an array."""
    return -(abs(solution[0] - task[0]) + abs(solution[1] - task[0]))


def exact_batch(solutions, tasks):
    return -(np.abs(solutions[:, 0] - tasks[:, 0]) + np.abs(solutions[:, 1] - tasks[:, 0]))


FUNCTIONS = {"each": exact, "batch": exact_batch}


def enclosed(call):
    """The same functions, as no module knows them."""
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


# What is sent. This comes first: a function of this module, which is found by its name, brings the library along.


@pytest.mark.parametrize("executor", ELSEWHERE, indirect=True)
def test_workers_import_neither_this_library_nor_jax(executor):
    def fitness(solution, task):
        import sys

        return float(any(name in sys.modules for name in ("jax", "taskelites")))

    result = run(fitness, executor=executor, evaluations=100)
    assert (result.fitness[result.solved] == 0).all()


# The same archive, bit by bit.


@everywhere
@pytest.mark.parametrize("call", FUNCTIONS)
@pytest.mark.parametrize("known", [True, False], ids=["of a module", "closure"])
def test_the_archive_is_that_of_this_process(executor, call, known):
    result = run(FUNCTIONS[call] if known else enclosed(call), call=call, executor=executor)
    assert_same(result, alone(call))
    assert result.evaluations == 400
    assert result.failures == {}
    assert result.settings["evaluation"]["executor"] == type(executor).__name__


def count_of_the_chunk(solutions, tasks):
    """What no function over arrays should do, to show how they are cut."""
    return exact_batch(solutions, tasks) + len(solutions)


@cache
def in_one_worker():
    return run(count_of_the_chunk, call="batch", workers=1, evaluations=300)


@everywhere
def test_batches_are_cut_as_for_workers(executor):
    assert_same(run(count_of_the_chunk, call="batch", executor=executor, evaluations=300), in_one_worker())
    assert np.nanmax(in_one_worker().fitness) == pytest.approx(8, abs=0.5)  # an eighth of a batch of 64


@everywhere
def test_async_tells_each_evaluation_once(executor, tmp_path):
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
def test_setup_runs_once_in_each_worker(executor, tmp_path):
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
def test_a_setup_that_raises_is_one_error(executor):
    def setup():
        raise OSError("no licence")

    with pytest.raises(
        te.FitnessError, match=r"^a worker could not be set up: setup raised OSError: no licence \(test_ex"
    ) as caught:
        run(lambda solution, task, licence: 0.0, executor=executor, setup=setup)
    assert caught.value.result.evaluations == 0
    assert "OSError: no licence" in caught.value.__notes__[0]


# Evaluations that fail.


@everywhere
def test_failures_are_counted_as_in_this_process(executor):
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
def test_a_retry_makes_good_what_failed_once(executor, tmp_path):
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
def test_an_error_that_ends_the_run_keeps_what_was_found(executor):
    def late(solution, task):
        if abs(solution[0] - 0.5) < 0.005:
            raise ZeroDivisionError("the simulator fell over")
        return exact(solution, task)

    with pytest.raises(te.FitnessError, match=r"fitness raised ZeroDivisionError: the simulator fell over") as caught:
        run(late, executor=executor, on_error="raise")
    kept = caught.value.result
    assert 0 < kept.evaluations < 400
    assert_same(kept, run(evaluations=kept.evaluations))


# Processes that die or hang.


@cache
def marked(**options):
    """A solution that comes up in the middle of a run; and the run in which it gives no number, and nobody dies."""
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
def test_a_pool_that_breaks_ends_the_run_and_keeps_what_was_found(kind):
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


def test_a_process_that_dies_on_ray_takes_only_its_evaluation_along(ray_cluster):
    mark, lived = marked()
    executor = te.RayExecutor(max_retries=0)  # each process that must die takes a second
    with pytest.warns(te.errors.FitnessWarning, match=r"1 of 400 evaluations failed \(died 1\)"):
        result = run(deadly(mark), executor=executor)
    assert_same(result, lived)


def test_a_process_that_dies_on_dask_does_not_end_the_run(dask):
    mark, _ = marked()
    with pytest.warns(te.errors.FitnessWarning, match=r"\d+ of 400 evaluations failed \(died \d+\)"):
        result = run(deadly(mark), executor=dask)
    assert result.evaluations == 400
    # Dask may blame what waited in the same process, too.
    assert 1 <= result.failed <= 10


# Private attributes of other libraries, which the engine needs.


def test_dask_s_executor_has_the_private_attributes_that_are_used(dask):
    missing = {"_client", "_futures", "_kwargs", "_shutdown"} - set(vars(dask))
    assert not missing, f"Dask's executor has no {missing} any more; adapt `_Dask` in evaluation/engines/executor.py"
    for owner, name in [(dask._client, "submit"), (dask._client, "nthreads"), (dask._client.loop, "add_callback")]:
        assert callable(getattr(owner, name)), f"Dask's {owner} has no {name} any more; adapt `_Dask`"
    assert slots_of(dask) == 2


def test_pools_tell_their_size_and_how_they_start_processes(threads, loky):
    assert slots_of(threads) == 2, "ThreadPoolExecutor has no _max_workers any more; adapt `slots_of`"
    assert slots_of(loky) == 2, "loky has no _max_workers any more; adapt `slots_of`"
    assert not forks(threads)
    assert not forks(loky)
    for method, fork in [("spawn", False), ("fork", True)]:
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context(method)) as pool:
            assert slots_of(pool) == 3, "ProcessPoolExecutor has no _max_workers any more; adapt `slots_of`"
            assert forks(pool) == fork, "ProcessPoolExecutor has no _mp_context any more; adapt `forks`"


def test_an_answer_that_dask_loses_with_its_process_does_not_keep_the_run_waiting(dask, monkeypatch):
    async def lost(*args, **options):
        raise RuntimeError("gone")

    # It is told as finished; its answer is fetched afterwards.
    monkeypatch.setattr(dask._client, "_gather", lost)
    with pytest.raises(te.FitnessError, match=r"^no answer came from its process \(RuntimeError: gone\)"):
        run(executor=dask, on_error="raise")


def test_a_cluster_without_workers_is_told_of_while_the_run_waits(monkeypatch):
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


def test_an_evaluation_that_hangs_on_ray_is_ended(ray, tmp_path):
    # In a step of four rows, a chunk has one, and its time is that of one.
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
    assert len(list(tmp_path.iterdir())) == 2  # once more, since the loss of a node looks the same


def test_a_node_lost_by_ray_costs_nothing(ray_cluster, ray, tmp_path):
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
    assert (tmp_path / node.node_id).exists()  # it did its part
    assert_same(result, alone())
    assert result.failures == {}


# Executors that can't be used.


def test_an_executor_that_is_shut_down_is_told():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(te.FitnessError, match=r"^executor can't go on: RuntimeError: cannot schedule new futures"):
        run(executor=pool)


def test_an_executor_that_cancels_everything_is_no_fault_of_the_fitness():
    class Headless(Executor):
        """As Dask's, when its scheduler is gone."""

        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.cancel()
            return future

    with pytest.raises(
        te.FitnessError, match=r"^executor can't go on: CancelledError; it was shut down, or "
    ) as caught:
        run(executor=Headless())
    assert caught.value.result.evaluations == 0


def test_ray_is_not_started_again_behind_the_users_back(ray_cluster, monkeypatch):
    import ray

    executor = te.RayExecutor()
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(te.FitnessError, match=r"^executor can't go on: RuntimeError: Ray was shut down"):
        run(executor=executor)


def test_joining_ray_sends_the_folder_and_leaves_sigterm_alone(monkeypatch):
    import ray

    asked = {}

    def init(**options):
        asked.update(options)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray's own handler, in short

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    before = signal.getsignal(signal.SIGTERM)
    te.RayExecutor("auto", runtime_env={"working_dir": "."})
    assert asked["address"] == "auto"
    assert asked["runtime_env"] == {"working_dir": "."}
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_ray_cluster_that_is_not_there_is_told_at_once(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", None)  # which would try for minutes
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(
            ConnectionError, match=rf"^can't join a Ray cluster at '{address}' \(.*refused\); start one with `ray"
        ):
            te.RayExecutor(address)


@pytest.mark.parametrize("executor", ELSEWHERE, indirect=True)
def test_a_fitness_that_does_not_pickle_is_told(executor):
    lock = threading.Lock()
    with pytest.raises(te.FitnessError, match=r"^fitness can't be sent to executor: TypeError: cannot pickle '_thread"):
        run(lambda solution, task: float(lock.locked()), executor=executor)


def test_a_pool_that_forks_is_refused():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool,
        pytest.raises(ValueError, match=r"executor must not fork this process.*multiprocessing.get_context\('spawn"),
    ):
        run(executor=pool)


def test_what_is_no_executor_is_refused():
    with pytest.raises(TypeError, match=r"executor must be a concurrent.futures.Executor, not int; for Dask give"):
        run(executor=8)


def test_workers_and_an_executor_are_one_too_many(threads):
    with pytest.raises(ValueError, match="workers and executor can't be combined"):
        run(executor=threads, workers=2)


def test_a_timeout_needs_an_executor_whose_processes_may_die(threads, processes):
    for pool in (threads, processes):
        with pytest.raises(ValueError, match=r"timeout needs processes that can be killed, .* give workers=N or exec"):
            run(executor=pool, timeout=1.0)
