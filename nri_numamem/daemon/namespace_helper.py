"""The process that reads the network namespaces of pods, so that the plugin does not enter them.

It serves one request after the other on a socket, each a datagram: the path of a network namespace;
the reply is a JSON object with either "interfaces" or "error". The plugin starts it with
``nri-numamem read-network-namespaces DESCRIPTOR SYSFS`` while networkHints is on, ends it when a
reply is late, and starts another one. It ends itself when the plugin's end of the socket is closed.
"""

import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from nri_numamem.host.network import read_network_devices
from nri_numamem.host.network_namespace import PodInterface, read_pod_interfaces

READY = b"ready"
"""The first datagram, when the modules are loaded."""

REPLY_BYTES = 8192
"""More than a reply has: at most 32 interfaces with names of 15 characters."""
# PATH_MAX of Linux.
_PATH_BYTES = 4096
_ERROR_CHARACTERS = 500


def main(
    arguments: Sequence[str],
    read: Callable[[Path, Path], list[PodInterface]] = read_pod_interfaces,
) -> int:
    """Serve until the other end is closed; `arguments` are descriptor and sysfs root."""
    descriptor, sysfs = arguments
    read_network_devices(Path(sysfs))  # loads the modules
    with socket.socket(fileno=int(descriptor)) as sock:
        try:
            sock.send(READY)
            while path := sock.recv(_PATH_BYTES):
                sock.send(_reply(path.decode(errors="surrogateescape"), Path(sysfs), read))
        except ConnectionError:
            pass
    return 0


def _reply(path: str, sysfs: Path, read: Callable[[Path, Path], list[PodInterface]]) -> bytes:
    """Return the reply to a request; every error is in the reply."""
    found: dict[str, object]
    try:
        found = {
            "interfaces": [
                [interface.name, str(interface.nodes), interface.is_primary]
                for interface in read(Path(path), sysfs)
            ]
        }
    except OSError as error:
        found = {"error": error.strerror or str(error)}
    except Exception as error:  # noqa: BLE001 - the plugin logs it
        found = {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]}
    return json.dumps(found).encode()
