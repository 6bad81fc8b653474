"""Network interfaces and their NUMA nodes, for requests; only where networkHints is switched on.

A network device that the OCI runtime moves into a container (NRI's `net_devices`) is still in the
host's network namespace when the container is created, so sysfs shows its hardware. Interfaces that
CNI moved into the pod are in the pod's network namespace (``namespace_reader``). What reads them
is loaded with the setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.config.network_hints import OFF, SECONDARY
from nri_numamem.daemon.program import READ_NAMESPACES, program
from nri_numamem.engine.events import NetworkInterface, NetworkRequest, PodSandbox
from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri_numamem.config.settings import Settings
    from nri_numamem.daemon.namespace_reader import Helper, NamespaceReader
    from nri_numamem.engine.engine import Engine
    from nri_numamem.host.roots import HostRoots

CLOSE_S = 0.5
"""How long the end of the plugin waits for the helper, which ends with the plugin in any case."""


def helper_of(roots: HostRoots) -> Helper:
    """Return the helper of this program, which is not started yet."""
    from nri_numamem.daemon.namespace_reader import HelperProcess  # noqa: PLC0415 - see above

    return HelperProcess(
        lambda descriptor: (*program(), READ_NAMESPACES, str(descriptor), str(roots.sysfs))
    )


class NetworkHints:
    """Reads network interfaces of this host; `emit` logs a record."""

    def __init__(
        self,
        roots: HostRoots,
        get_engine: Callable[[], Engine | None],
        emit: Callable[[Record], None],
        new_helper: Callable[[HostRoots], Helper] = helper_of,
    ) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self._emit = emit
        self._new_helper = new_helper
        self._namespaces: NamespaceReader | None = None
        self._leaves_out_primary = True
        self._interface_nodes: Callable[[Path, str], NodeSet | None] = _unknown
        """See ``host.network``."""
        self.is_active = False
        """Whether the setting networkHints is on."""

    def started(self, settings: Settings) -> None:
        """Begin with these settings."""
        self.is_active = settings.network_hints != OFF
        self._leaves_out_primary = settings.network_hints == SECONDARY
        if not self.is_active:
            return
        from nri_numamem.host.network import interface_nodes  # noqa: PLC0415 - see above

        self._interface_nodes = interface_nodes
        if has_capability(self._roots.proc, CAP_SYS_ADMIN):
            from nri_numamem.daemon.namespace_reader import (  # noqa: PLC0415 - see above
                NamespaceReader,
            )

            self._namespaces = NamespaceReader(self._new_helper(self._roots))
            self._namespaces.start()
        else:
            self._emit(Record(EventName.NETWORK_NAMESPACES_CLOSED))

    def close(self, timeout_s: float | None = CLOSE_S) -> None:
        """End the helper after the requests that wait, or leave it; None waits without a limit."""
        if self._namespaces is not None:
            self._namespaces.close(timeout_s)

    def sandbox_started(self, pod: PodSandbox, path: str) -> None:
        """Read the network namespace at `path` in the background; "" for the host's."""
        if path and self._namespaces is not None and self._is_wanted(pod):
            self._namespaces.begin(pod.sandbox_id, path)

    def sandbox_ended(self, sandbox_id: str) -> None:
        """Drop what is known of the sandbox."""
        if self._namespaces is not None:
            self._namespaces.forget(sandbox_id)

    def read(
        self, pod: PodSandbox, host_names: tuple[str, ...], path: str
    ) -> NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect."""
        if not (host_names or path) or not self._is_wanted(pod):
            return None
        of_host = {name: self._interface_nodes(self._roots.sysfs, name) for name in host_names}
        missing = [name for name, nodes in of_host.items() if nodes is None]
        obstacles = [f"/sys/class/net does not have {', '.join(missing)}"] if missing else []
        interfaces = [NetworkInterface(name, nodes or NodeSet()) for name, nodes in of_host.items()]
        if path and self._namespaces is not None:
            found = self._namespaces.begin(pod.sandbox_id, path)
            left_out = found.primary if self._leaves_out_primary else frozenset[str]()
            interfaces += [each for each in found.interfaces if each.name not in left_out]
            obstacles += [found.obstacle] if found.obstacle else []
        return NetworkRequest(tuple(interfaces), "; ".join(obstacles))

    def _is_wanted(self, pod: PodSandbox) -> bool:
        engine = self._get_engine()
        return engine is not None and engine.context.wants_devices(pod.cgroup_parent)


def _unknown(_sysfs_root: Path, _name: str) -> None:
    """Return None: without the setting no interface is read."""
