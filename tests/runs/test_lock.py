import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest

from taskelites.errors import RunInUseError, StorageError
from taskelites.runs.lock import RunLock

HOLD = """
import os, pathlib, subprocess, sys, time
from taskelites.runs.lock import RunLock

lock = RunLock(pathlib.Path(sys.argv[1]))
lock.acquire()
pids = [subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL).pid]
ready, say_ready = os.pipe()
for releases in (True, False):
    pids.append(os.fork())
    if not pids[-1]:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if releases:  # what is not the child's
            lock.release()
        os.write(say_ready, b"x")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
print(*pids, flush=True)
time.sleep(60)
"""


def alive(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")
def test_lock_is_held_until_its_process_dies(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    children = []
    try:
        children = [int(pid) for pid in holder.stdout.readline().split()]
        assert len(children) == 3
        for _ in range(2):
            with pytest.raises(RunInUseError) as caught:
                RunLock(tmp_path).acquire()
            assert str(caught.value) == (
                f"the run folder {str(tmp_path)!r} is in use by process {holder.pid} on host {socket.gethostname()}; "
                "wait for it or stop it"
            )
        holder.kill()
        holder.wait()
        assert all(alive(pid) for pid in children)
        with RunLock(tmp_path):
            assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on host ")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def test_process_cannot_acquire_lock_twice(tmp_path):
    lock = RunLock(tmp_path)
    with lock:
        for other in (RunLock(tmp_path), lock):
            with pytest.raises(
                RunInUseError, match="is in use by this process; wait for its other run or name another"
            ):
                other.acquire()
        # A lock that was never acquired must not release another one.
        RunLock(tmp_path).release()
        with pytest.raises(RunInUseError):
            RunLock(tmp_path).acquire()
    lock.release()
    with RunLock(tmp_path), RunLock(other_folder(tmp_path)):
        pass


def other_folder(tmp_path):
    (tmp_path / "other").mkdir()
    return tmp_path / "other"


def test_lock_is_released_after_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), RunLock(tmp_path):
        _ = 1 / 0
    with RunLock(tmp_path):
        pass


def test_file_descriptors_are_closed_and_not_inherited(tmp_path):
    before = len(os.listdir("/dev/fd"))
    lock = RunLock(tmp_path)
    with lock:
        assert not os.get_inheritable(lock._descriptor)
        for _ in range(3):
            with pytest.raises(RunInUseError):
                RunLock(tmp_path).acquire()
        assert len(os.listdir("/dev/fd")) == before + 1
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"something else\n"])
def test_error_when_lock_file_does_not_name_its_holder(tmp_path, content):
    with (tmp_path / ".lock").open("wb") as file:
        file.write(content)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RunInUseError, match="is in use by another process; wait for it or stop it"):
            RunLock(tmp_path).acquire()
    assert (tmp_path / ".lock").read_bytes() == content


def test_error_when_run_folder_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"could not open the lock file '.*none/\.lock': No such file"):
        RunLock(tmp_path / "none").acquire()


def test_symbolic_link_as_lock_file_is_rejected(tmp_path):
    (tmp_path / "precious").write_text("x")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(StorageError, match=r"\.lock' is a symbolic link"):
        RunLock(tmp_path).acquire()
    assert (tmp_path / "precious").read_text() == "x"


def fail(code):
    def call(*_):
        raise OSError(code, os.strerror(code))

    return call


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_acquire_warns_if_file_system_has_no_locks(tmp_path, monkeypatch, code):
    monkeypatch.setattr(fcntl, "flock", fail(code))
    before = len(os.listdir("/dev/fd"))
    lock = RunLock(tmp_path)
    with pytest.warns(UserWarning, match=r"has no locks \(.*\); make sure that no other process") as caught:
        lock.acquire()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    lock.release()
    assert len(os.listdir("/dev/fd")) == before


def test_other_lock_errors_are_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", fail(errno.EIO))
    with pytest.raises(OSError, match=r"could not lock the run folder '.*': Input/output error"):
        RunLock(tmp_path).acquire()


def test_lock_is_held_even_if_disk_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", fail(errno.ENOSPC))
    with RunLock(tmp_path), pytest.raises(RunInUseError, match="by another process"):
        RunLock(tmp_path).acquire()
