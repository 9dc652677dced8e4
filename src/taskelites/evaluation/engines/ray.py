"""Executor on a Ray cluster."""

import logging
import signal
import socket
import threading
from concurrent.futures import Executor, Future
from typing import Any

from taskelites.errors import MissingPackageError, whole_number


class RayExecutor(Executor):
    """Executor that runs evaluations as tasks of a Ray cluster: `te.solve(..., executor=te.RayExecutor("auto"))`.

    The fitness is put into Ray's object store once. Ray schedules the tasks, and restarts them elsewhere if a node is
    lost. A crash or timeout affects only the evaluation that caused it.

    Args:
        address: "auto" for the cluster that this machine belongs to, "host:port" or "ray://host:port" for another
            cluster, None for a new cluster on this machine only. If Ray is already initialised in this process, that
            cluster is used.
        max_retries: how often Ray restarts a task whose process or node was lost. With `timeout`, tasks are not
            restarted.
        options: options of `ray.remote` for each task, such as `num_cpus=2` or `resources=...`. With
            `runtime_env={"working_dir": "."}`, this folder and the modules in it are copied to the nodes.

    Raises:
        ImportError: if Ray is not installed.
        ConnectionError: if no cluster can be joined at `address`.
    """

    # A dying task affects no other task, so a timeout may kill its process.
    survives_death = True

    def __init__(self, address: str | None = None, *, max_retries: int = 1, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise MissingPackageError("RayExecutor needs Ray: pip install 'taskelites[ray]'") from None
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        self._options = {"num_cpus": 1} | options
        if self._started:  # Ray uploads folders per job only, not per task
            _connect(ray, address, self._options.pop("runtime_env", None))
        self._options["max_retries"] = whole_number("max_retries", max_retries, least=-1)
        self._call = ray.remote(**self._options)(_call)
        self._call_once = self._call.options(max_retries=0)
        self._functions: dict[int, tuple[Any, Any]] = {}

    @property
    def slots(self) -> int:
        """Number of tasks that the cluster can currently run at the same time."""
        if not self._ray.is_initialized():
            return 1
        each = float(self._options.get("num_cpus") or 1)
        return max(1, int(self._ray.cluster_resources().get("CPU", 1) / each))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` on the cluster."""
        if not self._ray.is_initialized():  # else Ray would start a new local cluster
            raise RuntimeError("Ray was shut down")
        if id(fn) not in self._functions:  # store it once instead of sending it with every task
            self._functions[id(fn)] = (fn, self._ray.put(fn))
        call = self._call_once if getattr(fn, "ends_itself", False) else self._call
        reference = call.remote(self._functions[id(fn)][1], args, kwargs)
        future: Future[Any] = reference.future()
        # Ray can cancel tasks, but not their futures.
        future.cancel = lambda: self._cancel(reference)  # type: ignore[method-assign]
        return future

    def _cancel(self, reference: Any) -> bool:
        self._ray.cancel(reference, force=True)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster if this executor connected to it."""
        self._functions.clear()
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


# Ray pickles functions of installed modules by reference, which would require this library on the nodes.
_call.__module__ = "__main__"


def _connect(ray: Any, address: str | None, runtime_env: Any) -> None:
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        if host and port.isdigit():  # fail early: Ray retries for 15 minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, runtime_env=runtime_env, logging_level=logging.WARNING, log_to_driver=True)
    except (OSError, RuntimeError, ValueError) as error:
        text = str(error).strip().split("\n", 1)[0]
        raise ConnectionError(
            f"can't join a Ray cluster at {address!r} ({text}); start one with `ray start --head` on its first machine"
        ) from error
    # Ray replaces the SIGTERM handler, which would end a run without a message or a checkpoint.
    if on_term is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_term)
