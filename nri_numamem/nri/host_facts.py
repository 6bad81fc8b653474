"""The host's facts that a decision needs and no message of the runtime has.

The decoder asks one object for them, which the program provides. Readers that cannot read a file
log that themselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.engine.core import events
from nri_numamem.memorymanager import PoolUse
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """Limits of a pod's cgroup in bytes."""

    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Page size -> limit."""
    memory: int = 0
    """Less the overhead of the pod's RuntimeClass; 0 for no limit."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device node of a container."""

    type: str
    """"c", "u", "b" or "p", as in mknod(1)."""
    major: int
    minor: int
    path: str
    """The path inside the container."""


class HostFacts(Protocol):
    """Reads the host for the decoder. No method raises or waits.

    The four properties are settings, or depend on the runtime: they can change between requests.
    """

    @property
    def pins_burstable(self) -> bool:
        """Return whether containers of Burstable pods may be pinned."""

    @property
    def sets_oom_score_adj(self) -> bool:
        """Return whether the runtime can set `oom_score_adj`."""

    @property
    def reads_networks(self) -> bool:
        """Return whether the setting networkHints is on."""

    @property
    def sets_policies(self) -> bool:
        """Return whether the setting memoryPolicy allows policies."""

    def hugepage_limits(self, cgroup_parent: str) -> Mapping[int, int]:
        """Return page size in bytes -> limit in bytes of a pod's cgroup."""

    def memory_limit(self, cgroup_parent: str) -> int | None:
        """Return the memory limit in bytes of a pod's cgroup; None for no limit."""

    def read_cpuset(
        self, container: events.Container, cgroup_parent: str, cgroups_path: str
    ) -> events.Container:
        """Return a container with `cgroup_mems` and `cgroup_use`, where they have an effect."""

    def container_memory(self, cgroups_path: str) -> int | None:
        """Return the memory limit in bytes of a container's cgroup; None if there is none."""

    def process_start(self, pid: int) -> int:
        """Return the start of a process in clock ticks since boot; 0 if it is unknown."""

    def device_nodes(self, cgroup_parent: str, devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        """Return the NUMA nodes of each device of a pod's container that has known nodes.

        The devices are a lazy iterable: a reader that ignores them costs nothing.
        """

    def pool_use(
        self, pod: events.PodSandbox, container: events.Container | None
    ) -> PoolUse | None:
        """Return the kernel's hugepage pools for a container, or None for a whole pod.

        None when they have no effect or are unknown.
        """

    def policy_support(self, handler: str) -> events.PolicySupport | None:
        """Return whether memory policies can be set for a pod with this runtime handler."""

    def available_memory(
        self, pod: events.PodSandbox, container: events.Container
    ) -> Mapping[int, int] | None:
        """Return node id -> bytes that are free or reclaimable; None if they have no effect."""

    def sandbox_started(self, pod: events.PodSandbox, path: str) -> None:
        """Take note of a sandbox and of the path of its network namespace, "" for the host's."""

    def sandbox_ended(self, sandbox_id: str) -> None:
        """Take note that a sandbox ended."""

    def network(
        self, pod: events.PodSandbox, host_names: tuple[str, ...], path: str
    ) -> events.NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect.

        `host_names` are the interfaces of the host that the container gets, `path` is as above.
        """


class NoHostFacts:
    """Knows nothing of the host, and all settings are off."""

    pins_burstable = sets_oom_score_adj = reads_networks = sets_policies = False

    def hugepage_limits(self, _cgroup_parent: str) -> Mapping[int, int]:
        """Return no limits."""
        return {}

    def memory_limit(self, _cgroup_parent: str) -> int | None:
        """Return no limit."""
        return None

    def read_cpuset(
        self, container: events.Container, _cgroup_parent: str, _cgroups_path: str
    ) -> events.Container:
        """Return the container as it is."""
        return container

    def container_memory(self, _cgroups_path: str) -> int | None:
        """Return no limit."""
        return None

    def process_start(self, _pid: int) -> int:
        """Return an unknown start."""
        return 0

    def device_nodes(self, _cgroup_parent: str, _devices: Iterable[Device]) -> tuple[NodeSet, ...]:
        """Return no nodes."""
        return ()

    def pool_use(
        self, _pod: events.PodSandbox, _container: events.Container | None
    ) -> PoolUse | None:
        """Return no pools."""
        return None

    def policy_support(self, _handler: str) -> events.PolicySupport | None:
        """Return no support."""
        return None

    def available_memory(
        self, _pod: events.PodSandbox, _container: events.Container
    ) -> Mapping[int, int] | None:
        """Return no amounts."""
        return None

    def sandbox_started(self, _pod: events.PodSandbox, _path: str) -> None:
        """Do nothing."""

    def sandbox_ended(self, _sandbox_id: str) -> None:
        """Do nothing."""

    def network(
        self, _pod: events.PodSandbox, _host_names: tuple[str, ...], _path: str
    ) -> events.NetworkRequest | None:
        """Return no interfaces."""
        return None


NO_HOST_FACTS = NoHostFacts()
