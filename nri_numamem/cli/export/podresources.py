"""The kubelet's PodResources API with the plugin's memory, on a socket of this process.

Each request calls the kubelet, and its errors go to the client. Memory and hugepages of the
containers come from the plugin's state. Without that state a request fails, because clients would
count used memory as available.
"""

import argparse
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from nri_numamem.cli.export.kubelet import socket_of
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.live.facts import pod_names as names_in
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.export import (
    PodresourcesFailed,
    PodresourcesIncomplete,
    PodresourcesRestored,
    PodresourcesStarted,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.export.pods import allocatable_memory, host_memory, unnamed_pods
from nri_numamem.grpc import Code, Handler, ListenError, Server, StatusError, call
from nri_numamem.host.pod_logs import pod_names
from nri_numamem.host.sysfs import MachineError
from nri_numamem.kubelet import podresources as api

SCHEME: Final = "unix://"
# The limit that other clients of the kubelet use.
_CALL_S: Final = 10.0
# Other codes are replies of the kubelet to a client, such as an unknown pod.
_RECORDED: Final = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.INTERNAL}


@contextmanager
def serving(path: Path, args: argparse.Namespace, emit: Callable[[Record], None]) -> Iterator[None]:
    """Serve on a socket file until the context ends; raises UsageError."""
    resources = PodResources(args, emit)
    # The server's threads inherit the mask: signals must interrupt the main thread.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        server = Server(path, resources.methods(), resources.record_bug)
    except ListenError as error:
        raise UsageError(f"--podresources: {error}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with server:
        kubelet_socket = str(socket_of(args))
        emit(PodresourcesStarted(socket=str(path), kubelet_socket=kubelet_socket))
        yield


def path_of(address: str) -> Path:
    """Return the socket file of an address; raise UsageError."""
    path = Path(address.removeprefix(SCHEME))
    if not address.startswith(SCHEME) or not path.is_absolute():
        example = "unix:///run/nri-numamem-export/podresources.sock"
        raise UsageError(f"--podresources: {address!r:.120} is not an address such as {example}")
    return path


class _Memory(NamedTuple):
    """The plugin's state, and the names of its pods."""

    state: EngineState
    names: Mapping[str, tuple[str, str]]


class PodResources:
    """The methods of the service; any number of threads may call them."""

    def __init__(self, args: argparse.Namespace, emit: Callable[[Record], None]) -> None:
        self._args = args
        self._kubelet = socket_of(args)
        self._emit = emit
        self._lock = threading.Lock()
        # What was recorded last: the text of a failure, and that of each incomplete input.
        self._failure = ""
        self._incomplete: dict[str, str] = {}

    def methods(self) -> Mapping[str, Handler]:
        """Return method -> handler."""
        changes: dict[str, Callable[[bytes, _Memory], bytes]] = {
            api.LIST: lambda reply, memory: api.with_memory_of_list(reply, host_memory(*memory)),
            api.GET: lambda reply, memory: api.with_memory_of_get(reply, host_memory(*memory)),
            api.GET_ALLOCATABLE_RESOURCES: self._get_allocatable_resources,
        }
        return {method: self._with_records(method, change) for method, change in changes.items()}

    def _get_allocatable_resources(self, reply: bytes, memory: _Memory) -> bytes:
        text = ""
        if not api.read_resources(b"", reply).has_static_cpu_manager:
            text = (
                "the kubelet lists no CPUs, because its cpuManagerPolicy is none: other exporters "
                "make zones without `cpu`, and every Guaranteed pod becomes unschedulable with "
                "single-numa-node; let nri-numamem export write the object"
            )
        self._record_incomplete("cpus", text)
        return api.with_memory_of_allocatable(reply, allocatable_memory(memory.state.accounting))

    def _with_records(self, method: str, change: Callable[[bytes, _Memory], bytes]) -> Handler:
        """Return a handler that changes the kubelet's reply, and records failures."""

        def handle(payload: bytes, timeout_s: float | None) -> bytes:
            try:
                reply = self._call_kubelet(method, payload, timeout_s)
                memory = self._memory()
                changed = reply if memory is None else change(reply, memory)
            except api.PodResourcesError as error:
                failed = StatusError(Code.INTERNAL, f"{self._kubelet}: {error}")
                self._record_failure(method, failed)
                raise failed from error
            except StatusError as error:
                if error.code in _RECORDED:
                    self._record_failure(method, error)
                raise
            self._record_failure(method, None)
            return changed

        return handle

    def _call_kubelet(self, method: str, payload: bytes, timeout_s: float | None) -> bytes:
        limit_s = _CALL_S if timeout_s is None else min(timeout_s, _CALL_S)
        try:
            return call(self._kubelet, method, payload, timeout_s=limit_s)
        except StatusError as error:
            if error.code not in {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED}:
                raise  # the kubelet's own reply, which clients may compare
            raise StatusError(error.code, f"kubelet: {self._kubelet}: {error.message}") from error

    def _memory(self) -> _Memory | None:
        """Return what the plugin has placed; None if it places nothing. Raises StatusError."""
        try:
            facts = live.collect_accounting(self._args)
        except UsageError as error:
            raise StatusError(Code.UNAVAILABLE, str(error)) from error
        if facts.context is None:
            raise StatusError(Code.UNAVAILABLE, facts.machine_problem)
        if not facts.context.is_static:
            return None
        if facts.state is None:
            problem = facts.state_problem or f"{facts.state_file} does not exist"
            raise StatusError(Code.UNAVAILABLE, f"{problem}; start the plugin")
        memory = _Memory(facts.state, self._names(facts.state))
        unnamed = unnamed_pods(*memory)
        text = ""
        if unnamed:
            text = (
                f"memory of {len(unnamed)} pods is missing, such as {unnamed[0]}: "
                f"{self._args.pod_logs} has no directory of them; mount the kubelet's podLogsDir, "
                "and name it with --pod-logs"
            )
        self._record_incomplete("pod_names", text)
        return memory

    def _names(self, state: EngineState) -> Mapping[str, tuple[str, str]]:
        try:
            return {**names_in(state), **pod_names(self._args.pod_logs)}
        except MachineError:
            return names_in(state)

    def record_bug(self, method: str, error: Exception) -> None:
        """Record a bug of a handler with its traceback."""
        exception = "".join(traceback.format_exception(error)).rstrip()
        failed = PodresourcesFailed(method=method, cause=repr(error), exception=exception)
        self._emit(failed)

    def _record_failure(self, method: str, error: StatusError | None) -> None:
        """Record the first of several equal failures, and the success after them."""
        text = "" if error is None else str(error)
        with self._lock:
            former, self._failure = self._failure, text
            if text and text != former:
                self._emit(PodresourcesFailed(method=method, cause=text))
            elif former and not text:
                self._emit(PodresourcesRestored(method=method))

    def _record_incomplete(self, name: str, text: str) -> None:
        with self._lock:
            former = self._incomplete.get(name, "")
            self._incomplete[name] = text
            if text and text != former:
                self._emit(PodresourcesIncomplete(input=name, cause=text))
