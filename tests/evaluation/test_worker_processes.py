"""Worker processes leave no processes behind, invalid messages do not end a run, and output is logged."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from spheres import sphere_each

import taskelites as te
from taskelites.evaluation import Caller
from taskelites.evaluation.engines.inline import LostChunk, Work
from taskelites.evaluation.engines.worker_output import KEPT_LOG_BYTES, MAX_LOG_BYTES, WorkerOutput
from taskelites.evaluation.engines.worker_process import NonsenseError, framed, take_message
from taskelites.evaluation.engines.workers import Workers

TASKS = np.linspace(0, 1, 250)[:, None]
PROBLEM = {"bounds": (0, 1), "dim": 2, "evaluations": 128, "seed": 3, "algorithm": "mt-map-elites"}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no supervisor")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def survivors(folder, seconds=10):
    """Return the processes named in a folder that are still alive after some seconds."""
    end = time.monotonic() + seconds
    while (alive := [path.name for path in folder.iterdir() if is_alive(path.name)]) and time.monotonic() < end:
        time.sleep(0.01)
    for pid in alive:
        os.kill(int(pid), signal.SIGKILL)
    return alive


def make_starter(folder):
    """Return a fitness that starts processes in every way, and writes their IDs to a folder."""

    def starts_processes(solution, task):
        import os
        import subprocess
        import time

        def started(pid):
            open(f"{folder}/{pid}", "w").close()

        started(os.getpid())
        started(subprocess.Popen(["sleep", "300"]).pid)
        started(subprocess.Popen(["sleep", "300"], start_new_session=True).pid)
        if os.fork() == 0:  # a daemon, whose parent exits immediately
            os.setsid()
            if os.fork() == 0:
                started(os.getpid())
                os.execvp("sleep", ["sleep", "300"])
            os._exit(0)
        os.wait()
        while len(os.listdir(folder)) < 4:
            time.sleep(0.01)
        time.sleep(300)

    return starts_processes


def collect_all(workers, number):
    found = []
    while len(found) < number:
        found += workers.collect(60)
    return found


RUN = """
import sys
import numpy as np
from taskelites.evaluation import Caller
from taskelites.evaluation.engines.inline import Work
from taskelites.evaluation.engines.workers import Workers
from test_worker_processes import make_starter

workers = Workers(Caller(make_starter(sys.argv[1]), "each"), 1)
workers.submit(Work(np.arange(1), np.zeros((1, 1)), [0]))
workers.collect(300)
"""


@on_linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_run_leaves_no_processes(number, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen([sys.executable, "-c", RUN, tmp_path], env=environment, start_new_session=True)
    try:
        while len(list(tmp_path.iterdir())) < 4 and run.poll() is None:
            time.sleep(0.01)
        os.killpg(run.pid, number)
    finally:
        run.kill()
        run.wait()
    assert len(list(tmp_path.iterdir())) == 4
    assert survivors(tmp_path) == []


@on_linux
def test_timeout_kills_all_processes_started_by_worker(tmp_path):
    workers = Workers(Caller(make_starter(tmp_path), "each"), 1, timeout=1.0)
    workers.submit(Work(np.arange(1), np.zeros((1, 1)), [0]))
    [(_, lost)] = collect_all(workers, 1)
    assert lost.kind == "timeout"
    assert len(list(tmp_path.iterdir())) == 4
    assert survivors(tmp_path) == []
    workers.close()


@on_linux
@pytest.mark.parametrize("victim", ["worker", "supervisor"])
def test_killed_worker_leaves_no_processes(victim, tmp_path):
    def starts_one(solution, task):
        child = subprocess.Popen(["sleep", "300"], start_new_session=victim == "worker")
        (tmp_path / str(child.pid)).touch()
        os.kill(os.getpid() if victim == "worker" else os.getppid(), signal.SIGKILL)
        time.sleep(300)

    workers = Workers(Caller(starts_one, "each"), 1)
    workers.submit(Work(np.arange(1), np.zeros((1, 1)), [0]))
    [(_, lost)] = collect_all(workers, 1)
    assert lost == LostChunk("died", 0, "the worker was killed by SIGKILL")
    assert survivors(tmp_path) == []
    workers.close()


# The connection.


def make_writer(data):
    """Return a fitness that writes to its worker's connection, or closes it.

    A closure is pickled by value, so that a restarted worker does not import this module.
    """

    def writes(solution, task):
        import os
        import stat

        if 0.4 < solution[0] < 0.42:
            for name in os.listdir("/proc/self/fd"):
                try:
                    is_connection = stat.S_ISSOCK(os.fstat(int(name)).st_mode)
                except OSError:
                    continue
                if is_connection and data is None:
                    os.close(int(name))
                elif is_connection:
                    os.write(int(name), data)
        return -float(abs(solution - task).sum())

    return writes


NONSENSE = {
    "a short text": b"x",
    "a long text": b"simulation step 1 of 1000\n" * 1000,
    "a length without contents": b"\x7f\xff\xff\xff",
    "a truncated message": framed(b"x" * 1000)[:500],
    "a message that can't be unpickled": framed(b"not a pickle"),
    "a message that is no answer": framed(pickle.dumps(None)),
    "an answer to another chunk": framed(pickle.dumps((999, (np.zeros(1), None, [], 0.1), None))),
    "an answer of another length": framed(pickle.dumps((1, (np.zeros(10**4), None, [], 0.1), None))),
    "the end": None,
}


@on_linux
@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE)
def test_invalid_message_fails_only_its_evaluation(data):
    plain = make_writer(b"")
    with pytest.warns(te.errors.FitnessWarning, match=r"evaluations failed \(died \d+\)"):
        there = te.solve(make_writer(data), TASKS, workers=2, **PROBLEM)
    with warnings.catch_warnings(action="ignore"):
        here = te.solve(lambda x, t: np.nan if 0.4 < x[0] < 0.42 else plain(x, t), TASKS, **PROBLEM)
    assert there.failures == {"died": here.failed}
    assert np.array_equal(there.solutions, here.solutions, equal_nan=True)


def test_take_message_returns_one_message_at_a_time():
    buffer = bytearray(framed(b"one") + framed(b"") + framed(b"three")[:-1])
    assert [take_message(buffer) for _ in range(3)] == [b"one", b"", None]
    buffer += b"e"
    assert take_message(buffer) == b"three"
    assert take_message(buffer) is None
    damaged = bytearray(framed(b"four"))
    damaged[-1] ^= 1
    with pytest.raises(NonsenseError):
        take_message(damaged)


def test_default_socket_timeout_does_not_affect_workers():
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.01)
    try:
        result = te.solve(sphere_each, TASKS, workers=1, **PROBLEM)
    finally:
        socket.setdefaulttimeout(before)
    assert result.retried == result.failed == 0


# Output of workers.


def make_talker():
    def talks(solution, task):
        print("to stdout", flush=True)
        print("to stderr", file=sys.stderr)
        os.system("echo from a child")
        return sphere_each(solution, task)

    return talks


def test_worker_output_is_logged_in_run_folder(tmp_path, capfd):
    for evaluations in (50, 100):
        te.solve(
            make_talker(), TASKS, workers=2, out=tmp_path / "run", resume=True, **PROBLEM | {"evaluations": evaluations}
        )
        text = "".join(path.read_text() for path in (tmp_path / "run" / "workers").iterdir())
        for line in ("to stdout", "to stderr", "from a child"):
            assert text.splitlines().count(line) == evaluations
    assert {path.name for path in (tmp_path / "run" / "workers").iterdir()} <= {"0.log", "1.log"}
    assert "to std" not in "".join(capfd.readouterr())


def test_each_replicate_has_its_own_worker_logs(tmp_path):
    te.solve(make_talker(), TASKS, workers=1, replicates=2, out=tmp_path / "run", **PROBLEM | {"evaluations": 20})
    for number in range(2):
        assert "to stderr" in (tmp_path / "run" / f"replicate-{number}" / "workers" / "0.log").read_text()


def test_silent_workers_write_no_logs(tmp_path):
    te.solve(sphere_each, TASKS, workers=2, out=tmp_path / "run", **PROBLEM)
    assert not (tmp_path / "run" / "workers").exists()


def test_worker_output_goes_to_stderr_without_run_folder(capsys):
    te.solve(make_talker(), TASKS, workers=2, **PROBLEM | {"evaluations": 20})
    shown = capsys.readouterr()
    assert shown.out == ""
    assert sorted(set(shown.err.splitlines())) == ["from a child", "to stderr", "to stdout"]
    assert len(shown.err.splitlines()) == 60


def test_worker_log_size_is_limited(tmp_path):
    output = WorkerOutput(tmp_path / "workers" / "0.log")
    lines = [b"line %d\n" % i for i in range(200_000)]
    os.write(output.fileno(), b"".join(lines))
    output.update()
    os.write(output.fileno(), b"the end\n")
    output.close()
    kept = (tmp_path / "workers" / "0.log").read_bytes().splitlines(keepends=True)
    assert sum(map(len, kept)) <= KEPT_LOG_BYTES + 100 < MAX_LOG_BYTES
    assert kept[0] == b"[earlier output was removed]\n"
    assert kept[1:] == [*lines[-len(kept) + 2 :], b"the end\n"]


def test_worker_log_does_not_follow_symlink(tmp_path):
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "0.log").symlink_to(tmp_path / "other")
    with pytest.raises(te.StorageError, match=r"could not open '.*0\.log'"):
        WorkerOutput(tmp_path / "workers" / "0.log")
    assert not (tmp_path / "other").exists()


# setup=


def test_exception_in_setup_is_reported_with_line_number():
    def setup():
        raise FileNotFoundError("no model.xml")

    line = setup.__code__.co_firstlineno + 1
    where = rf"setup raised FileNotFoundError: no model\.xml \(test_worker_processes\.py, line {line}\)"
    for number, prefix in ((None, ""), (1, "a worker could not be set up: ")):
        with pytest.raises(te.FitnessError, match=f"^{prefix}{where}") as caught:
            te.solve(lambda x, t, model: 0.0, TASKS, setup=setup, workers=number, **PROBLEM)
        assert "no model.xml" in caught.value.__notes__[0]
