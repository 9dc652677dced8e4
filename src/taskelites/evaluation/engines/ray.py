"""Ray as an executor: its scheduling, its object store, its fault tolerance."""

import logging
import signal
import socket
import threading
from concurrent.futures import Executor, Future
from typing import Any

from taskelites.errors import MissingPackageError, whole_number


class RayExecutor(Executor):
    """Evaluations as tasks of a Ray cluster, for `te.solve(..., executor=te.RayExecutor("auto"))`.

    The fitness is put into the object store once; where a task runs, and that it runs again elsewhere when a node is
    lost, is Ray's business. A process that crashes or exceeds `timeout` takes only its own evaluation along.

    Args:
        address: "auto" for the cluster that this machine is part of, "host:port" or "ray://host:port" of another one,
            None for a new one on this machine alone. If Ray is running in this process already, that is used.
        max_retries: how often Ray starts a task again that was lost with its process or node; never, where there is a
            timeout.
        options: for each task, as `ray.remote` takes them, such as `num_cpus=2` or `resources=...`. With
            `runtime_env={"working_dir": "."}` the nodes get this folder, and find your modules in it.

    Raises:
        ImportError: if Ray is not installed.
        ConnectionError: if there is no cluster at `address`.
    """

    # A task that dies takes no other one along, so a timeout may kill.
    survives_death = True

    def __init__(self, address: str | None = None, *, max_retries: int = 1, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise MissingPackageError("RayExecutor needs Ray: pip install 'taskelites[ray]'") from None
        self._ray: Any = ray
        self._started = not ray.is_initialized()
        self._options = {"num_cpus": 1} | options
        if self._started:  # only as a whole, and not for each task, Ray sends folders
            _connect(ray, address, self._options.pop("runtime_env", None))
        self._options["max_retries"] = whole_number("max_retries", max_retries, least=-1)
        self._call = ray.remote(**self._options)(_call)
        self._call_once = self._call.options(max_retries=0)
        self._functions: dict[int, tuple[Any, Any]] = {}

    @property
    def slots(self) -> int:
        """How many tasks the cluster can run at the same time, as it is now."""
        if not self._ray.is_initialized():
            return 1
        each = float(self._options.get("num_cpus") or 1)
        return max(1, int(self._ray.cluster_resources().get("CPU", 1) / each))

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` on the cluster."""
        if not self._ray.is_initialized():  # by itself, Ray would start a new cluster here
            raise RuntimeError("Ray was shut down")
        if id(fn) not in self._functions:  # once into the object store, not along with every task
            self._functions[id(fn)] = (fn, self._ray.put(fn))
        call = self._call_once if getattr(fn, "ends_itself", False) else self._call
        reference = call.remote(self._functions[id(fn)][1], args, kwargs)
        future: Future[Any] = reference.future()
        # Ray's futures can't be cancelled, its tasks can.
        future.cancel = lambda: self._cancel(reference)  # type: ignore[method-assign]
        return future

    def _cancel(self, reference: Any) -> bool:
        self._ray.cancel(reference, force=True)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster, if this executor joined it."""
        self._functions.clear()
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


# Ray sends functions of installed modules by name; this one must not bring the library along.
_call.__module__ = "__main__"


def _connect(ray: Any, address: str | None, runtime_env: Any) -> None:
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        if host and port.isdigit():  # Ray itself would try for a quarter of an hour
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address, runtime_env=runtime_env, logging_level=logging.WARNING, log_to_driver=True)
    except (OSError, RuntimeError, ValueError) as problem:
        text = str(problem).strip().split("\n", 1)[0]
        raise ConnectionError(
            f"can't join a Ray cluster at {address!r} ({text}); `ray start --head` on the first machine starts one"
        ) from problem
    # Ray takes SIGTERM for itself, at which a run would end without a word.
    if on_term is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, on_term)
