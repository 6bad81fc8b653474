"""Network interfaces and their NUMA nodes, for requests; only where networkHints is switched on.

A network device that the OCI runtime moves into a container (NRI's `net_devices`) is still in the
host's network namespace when the container is created, so sysfs shows its hardware. Interfaces that
CNI moved into the pod are in the pod's network namespace (``namespace_reader``). What reads them
is loaded with the setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nri_numamem.config.features import HINTS_OFF, HINTS_SECONDARY
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.engine.features.network_hints.records import NetworkNamespacesClosed
from nri_numamem.engine.records.record import Record
from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability
from nri_numamem.numa import NodeSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nri_numamem.config.settings import Settings
    from nri_numamem.daemon.namespace_reader import HelperProcess, NamespaceReader
    from nri_numamem.engine.engine import Engine
    from nri_numamem.host.roots import HostRoots

CLOSE_S = 0.5
"""How long the plugin waits for the helper when it ends; the helper always ends with it."""


@dataclass(frozen=True, slots=True)
class NamespaceAccess:
    """How the network namespaces of pods are read."""

    helper: HelperProcess | None = None
    obstacle: str = "the plugin lacks the capability CAP_SYS_ADMIN"
    """Why there is no helper."""


NO_ACCESS = NamespaceAccess()


def open_namespaces(settings: Settings, roots: HostRoots) -> NamespaceAccess:
    """Start the helper if the settings need it; before the first thread of this process."""
    if settings.network_hints == HINTS_OFF:
        return NamespaceAccess(obstacle="networkHints was off when the plugin started; restart it")
    if not has_capability(roots.proc, CAP_SYS_ADMIN):
        return NO_ACCESS
    from nri_numamem.daemon import namespace_helper  # noqa: PLC0415 - only with the setting
    from nri_numamem.daemon.namespace_reader import HelperProcess  # noqa: PLC0415 - the same

    try:
        return NamespaceAccess(HelperProcess(namespace_helper.start(roots.sysfs)))
    except OSError as error:
        return NamespaceAccess(obstacle=f"the helper cannot be started: {error.strerror}")


class NetworkHints:
    """Reads network interfaces of this host; `emit` logs a record."""

    def __init__(
        self,
        roots: HostRoots,
        get_engine: Callable[[], Engine | None],
        emit: Callable[[Record], None],
        access: NamespaceAccess,
    ) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self._emit = emit
        self._access = access
        self._namespaces: NamespaceReader | None = None
        self._leaves_out_primary = True
        self._interface_nodes: Callable[[Path, str], NodeSet | None] = _unknown
        """See ``host.network``."""
        self.is_active = False
        """Whether the setting networkHints is on."""

    def started(self, settings: Settings) -> None:
        """Begin with these settings."""
        self.is_active = settings.network_hints != HINTS_OFF
        self._leaves_out_primary = settings.network_hints == HINTS_SECONDARY
        if not self.is_active:
            return
        from nri_numamem.host.network import interface_nodes  # noqa: PLC0415 - see above

        self._interface_nodes = interface_nodes
        if self._access.helper is None:
            self._emit_closed(self._access.obstacle)
            return
        from nri_numamem.daemon.namespace_reader import NamespaceReader  # noqa: PLC0415 - see above

        self._namespaces = NamespaceReader(self._access.helper)
        self._namespaces.start()

    def close(self, timeout_s: float | None = CLOSE_S) -> None:
        """End the helper after the requests that wait, or leave it; None waits without a limit."""
        if self._namespaces is not None:
            self._namespaces.close(timeout_s)

    def sandbox_started(self, pod: PodSandbox, path: str) -> None:
        """Read the network namespace at `path` in the background; "" for the host's."""
        if path and (namespaces := self._reader()) is not None and self._is_wanted(pod):
            namespaces.begin(pod.sandbox_id, path)

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
        if path and (namespaces := self._reader()) is not None:
            found = namespaces.begin(pod.sandbox_id, path)
            left_out = found.primary if self._leaves_out_primary else frozenset[str]()
            interfaces += [each for each in found.interfaces if each.name not in left_out]
            obstacles += [found.obstacle] if found.obstacle else []
        return NetworkRequest(tuple(interfaces), "; ".join(obstacles))

    def _reader(self) -> NamespaceReader | None:
        """Return what reads namespaces; None once the helper has ended, which is logged."""
        if self._namespaces is not None and self._namespaces.has_ended:
            self._namespaces.close(timeout_s=0.0)
            self._namespaces = None
            self._emit_closed("the helper process ended; restart the plugin")
        return self._namespaces

    def _emit_closed(self, cause: str) -> None:
        self._emit(NetworkNamespacesClosed(cause=cause))

    def _is_wanted(self, pod: PodSandbox) -> bool:
        engine = self._get_engine()
        return engine is not None and engine.context.wants_devices(pod.cgroup_parent)


def _unknown(_sysfs_root: Path, _name: str) -> None:
    """Return None: without the setting no interface is read."""
