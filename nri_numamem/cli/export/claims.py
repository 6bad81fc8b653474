"""The driver of resource claims, on two sockets in the kubelet's directory.

The kubelet watches the directory of the one, and connects to the other. It opens no other file of
this process.
"""

import argparse
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nri_numamem.apiserver.access import Access
from nri_numamem.apiserver.client import Client
from nri_numamem.cli.live.collect import state_file_of
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.records.export import DriverFailed
from nri_numamem.engine.records.record import Record
from nri_numamem.export.resourceslice import DRIVER
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

_DIRECTORY_MODE = 0o750  # as the kubelet's


@contextmanager
def serving(
    args: argparse.Namespace,
    node_name: str,
    access: Callable[[], Access],
    post: Callable[[Registered], None],
    emit: Callable[[Record], None],
) -> Iterator[None]:
    """Serve the kubelet until the context ends; raises UsageError."""
    endpoint = Path(driver_socket(args.kubelet_root, DRIVER))
    registration = Path(registration_socket(args.kubelet_root, DRIVER))
    driver = ClaimDriver(
        node_name, _directory(args), lambda request: Client(access).send(request), emit
    )

    def record_bug(method: str, error: Exception) -> None:
        emit(DriverFailed(method=method, cause=repr(error), exception=traceback_of(error)))

    # The servers' threads inherit the mask: signals must interrupt the main thread.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        endpoint.parent.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        server = Server(
            endpoint, driver.methods(), record_bug, calls=CALLS, request_bytes=REQUEST_BYTES
        )
        try:
            methods = registration_methods(endpoint, lambda error: post(Registered(error)))
            registry = Server(registration, methods, record_bug)
        except ListenError:
            server.close()
            raise
    except ListenError as error:
        raise UsageError(f"--claims: {error}") from error
    except OSError as error:
        raise UsageError(f"--claims: {endpoint.parent}: {reason_of(error)}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with server, registry:
        try:
            yield
        finally:
            driver.stop()


def _directory(args: argparse.Namespace) -> Path:
    state_file = state_file_of(args)
    if not state_file:
        raise UsageError(
            "--claims: the setting stateFile is empty, and claims are exchanged with the plugin "
            "beside that file; name a state file"
        )
    return directory_of(Path(state_file))
