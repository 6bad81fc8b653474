"""The network interfaces of a container that is created, as its request shows them.

NRI shows network devices of the host that the OCI runtime moves into the container (`net_devices`,
NRI 0.11); a reader finds out their NUMA nodes.
"""

from typing import Protocol

from nri_numamem.engine import events
from nri_numamem.nri import nri_subset_pb2 as api

# The kernel's IFNAMSIZ without the closing NUL.
_NAME_CHARACTERS = 15
# More interfaces than a container gets.
_INTERFACES_LIMIT = 32


class NetworkReader(Protocol):
    """Finds network interfaces and their NUMA nodes; never raises."""

    @property
    def is_active(self) -> bool:
        """Return whether the setting networkHints is on."""

    def read(
        self, pod: events.PodSandbox, host_names: tuple[str, ...]
    ) -> events.NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect.

        `host_names` are the interfaces of the host that the container gets.
        """


class NoNetwork:
    """Reads nothing."""

    is_active = False

    def read(self, _pod: events.PodSandbox, _host_names: tuple[str, ...]) -> None:
        """Return None."""


def network_request(
    reader: NetworkReader, pod: events.PodSandbox, linux: api.LinuxContainer
) -> events.NetworkRequest | None:
    """Return the network interfaces of a new container; None if they have no effect."""
    names = [
        name
        for name in linux.net_devices
        if 0 < len(name) <= _NAME_CHARACTERS and name.isprintable()
    ]
    # The order of a protobuf map is arbitrary.
    names.sort()
    return reader.read(pod, tuple(names[:_INTERFACES_LIMIT]))
