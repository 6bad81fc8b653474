"""The cgroups of containers in a virtual life."""

from tests.faults.node import Container
from tests.host_files import HostFiles
from tests.sequences.machine import MI

_LITTLE, _MUCH = 16 * MI, 300 * MI


class HostCgroups:
    """Container cgroups of version 2 on a simulated host."""

    def __init__(self, host: HostFiles) -> None:
        self._host = host

    def write(self, container: Container) -> None:
        """Write what the container's cgroup shows; its memory is on all NUMA nodes."""
        size = _MUCH if container.must_not_move else _LITTLE
        memory = {node.node_id: size for node in self._host.machine.nodes}
        self._host.write_container(container.message, container.cgroup_mems, memory)

    def drop(self, container: Container) -> None:
        """Remove the container's cgroup."""
        self._host.drop_container(container.message)
