"""Network interfaces and their NUMA nodes, for requests; only where networkHints is switched on.

A network device that the OCI runtime moves into a container (NRI's `net_devices`) is still in the
host's network namespace when the container is created, so sysfs shows its hardware.
"""

from collections.abc import Callable

from nri_numamem.config.network_hints import OFF
from nri_numamem.config.settings import Settings
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import NetworkInterface, NetworkRequest, PodSandbox
from nri_numamem.host.network import interface_nodes
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import NodeSet


class NetworkHints:
    """Reads network interfaces of this host."""

    def __init__(self, roots: HostRoots, get_engine: Callable[[], Engine | None]) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self.is_active = False
        """Whether the setting networkHints is on."""

    def started(self, settings: Settings) -> None:
        """Begin with these settings."""
        self.is_active = settings.network_hints != OFF

    def read(self, pod: PodSandbox, host_names: tuple[str, ...]) -> NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect."""
        engine = self._get_engine()
        if engine is None or not host_names or not engine.context.wants_devices(pod.cgroup_parent):
            return None
        found = {name: interface_nodes(self._roots.sysfs, name) for name in host_names}
        missing = [name for name, nodes in found.items() if nodes is None]
        obstacle = ""
        if missing:
            obstacle = f"/sys/class/net does not have {', '.join(missing)}"
        interfaces = (NetworkInterface(name, nodes or NodeSet()) for name, nodes in found.items())
        return NetworkRequest(tuple(interfaces), obstacle)
