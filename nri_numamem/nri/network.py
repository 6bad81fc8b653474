"""The network interfaces of a pod and its containers, as far as requests show them.

NRI shows network devices of the host that the OCI runtime moves into the container (`net_devices`,
NRI 0.11), and the path of the pod's network namespace, which pods in the host's do not have. A
reader finds out which interfaces are there, and their NUMA nodes.
"""

from typing import Protocol

from nri_numamem.engine.core import events
from nri_numamem.nri import nri_subset_pb2 as api

# The kernel's IFNAMSIZ without the closing NUL.
_NAME_CHARACTERS = 15
# More interfaces than a container gets.
_INTERFACES_LIMIT = 32
# PATH_MAX of Linux.
_PATH_CHARACTERS = 4096


class NetworkReader(Protocol):
    """Finds network interfaces and their NUMA nodes; never raises and never waits."""

    @property
    def is_active(self) -> bool:
        """Return whether the setting networkHints is on."""

    def sandbox_started(self, pod: events.PodSandbox, path: str) -> None:
        """Take note of a sandbox and of the path of its network namespace, "" for the host's."""

    def sandbox_ended(self, sandbox_id: str) -> None:
        """Take note that a sandbox ended."""

    def read(
        self, pod: events.PodSandbox, host_names: tuple[str, ...], path: str
    ) -> events.NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect.

        `host_names` are the interfaces of the host that the container gets, `path` is as above.
        """


class NoNetwork:
    """Reads nothing."""

    is_active = False

    def sandbox_started(self, _pod: events.PodSandbox, _path: str) -> None:
        """Do nothing."""

    def sandbox_ended(self, _sandbox_id: str) -> None:
        """Do nothing."""

    def read(self, _pod: events.PodSandbox, _host_names: tuple[str, ...], _path: str) -> None:
        """Return None."""


def network_request(
    reader: NetworkReader,
    pod: events.PodSandbox,
    sandbox: api.PodSandbox,
    linux: api.LinuxContainer,
) -> events.NetworkRequest | None:
    """Return the network interfaces of a new container; None if they have no effect."""
    names = [
        name
        for name in linux.net_devices
        if 0 < len(name) <= _NAME_CHARACTERS and name.isprintable()
    ]
    # The order of a protobuf map is arbitrary.
    names.sort()
    return reader.read(pod, tuple(names[:_INTERFACES_LIMIT]), namespace_path(sandbox))


def namespace_path(sandbox: api.PodSandbox) -> str:
    """Return the path of a pod's network namespace; "" if it is the host's, or unknown."""
    for namespace in sandbox.linux.namespaces:
        if namespace.type == "network":
            path = namespace.path
            return path if path.startswith("/") and len(path) < _PATH_CHARACTERS else ""
    return ""
