"""The driver of resource claims, on two sockets in the kubelet's directory.

The kubelet watches the directory of the one, and connects to the other. It opens no other file of
this process.
"""

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from nri_numamem.apiserver.access import Access
from nri_numamem.apiserver.client import Client
from nri_numamem.cli.live.collect import state_file_of
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.records.export import ClaimIntentDropped, DriverFailed
from nri_numamem.engine.records.record import Record
from nri_numamem.export.resourceslice import DRIVER
from nri_numamem.exporter.claim_store import ClaimStore
from nri_numamem.exporter.claims import (
    CALLS,
    REQUEST_BYTES,
    ClaimDriver,
    registration_methods,
)
from nri_numamem.exporter.mailbox import Registered
from nri_numamem.grpc import ListenError, Server
from nri_numamem.kubelet.dra import driver_socket, registration_socket
from nri_numamem.observe.claim_files import directory_of
from nri_numamem.observe.files import reason_of, traceback_of
from nri_numamem.observe.threads import start_thread

_DIRECTORY_MODE = 0o750  # as the kubelet's

RELEASE_S = 300.0
"""Between two searches for claims that were deleted."""


@contextmanager
def serving(
    args: argparse.Namespace,
    node_name: str,
    access: Callable[[], Access],
    post: Callable[[Registered], None],
    emit: Callable[[Record], None],
) -> Iterator[None]:
    """Serve the kubelet until the context ends; raises UsageError."""
    directory = _directory(args)
    with ExitStack() as stack:
        # The threads inherit the mask: signals must interrupt the main thread.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            store = stack.enter_context(ClaimStore(directory))
            for cause in store.dropped:
                emit(ClaimIntentDropped(cause=cause))
            driver = ClaimDriver(node_name, store, lambda it: Client(access).send(it), emit)
            for server in _servers(args.kubelet_root, driver, post, emit):
                stack.enter_context(server)
            stack.enter_context(_releasing(driver))
        except ListenError as error:
            raise UsageError(f"--claims: {error}") from error
        except OSError as error:
            place = error.filename or directory
            raise UsageError(f"--claims: {place}: {reason_of(error)}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            yield
        finally:
            store.stop()


def _servers(
    kubelet: Path,
    driver: ClaimDriver,
    post: Callable[[Registered], None],
    emit: Callable[[Record], None],
) -> Iterator[Server]:
    """Yield the driver's server, then that of its registration."""

    def record_bug(method: str, error: Exception) -> None:
        emit(DriverFailed(method=method, cause=repr(error), exception=traceback_of(error)))

    endpoint = Path(driver_socket(kubelet, DRIVER))
    endpoint.parent.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
    yield Server(endpoint, driver.methods(), record_bug, calls=CALLS, request_bytes=REQUEST_BYTES)
    methods = registration_methods(endpoint, lambda error: post(Registered(error)))
    yield Server(Path(registration_socket(kubelet, DRIVER)), methods, record_bug)


@contextmanager
def _releasing(driver: ClaimDriver) -> Iterator[None]:
    """Release deleted claims from time to time."""
    is_over = Event()

    def run() -> None:
        while not is_over.wait(RELEASE_S):
            driver.release_deleted()

    start_thread(run, "deleted claims")
    try:
        yield
    finally:
        is_over.set()


def _directory(args: argparse.Namespace) -> Path:
    state_file = state_file_of(args)
    if not state_file:
        raise UsageError(
            "--claims: the setting stateFile is empty, and claims are exchanged with the plugin "
            "beside that file; name a state file"
        )
    return directory_of(Path(state_file))
