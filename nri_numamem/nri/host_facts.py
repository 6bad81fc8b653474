"""Facts of the host that a decision needs and that are in no message of the runtime.

The decoder gets them from one object, which the program provides. Its readers log their own errors.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import NetworkRequest, PolicySupport
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.claims import Claim
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

    The attributes are settings, or depend on the runtime: they can change between requests.
    """

    pins_burstable: bool = False
    """Whether containers of Burstable pods may be pinned."""
    sets_oom_score_adj: bool = False
    """Whether the runtime can set `oom_score_adj`."""
    reads_networks: bool = False
    """Whether the setting networkHints is on."""
    sets_policies: bool = False
    """Whether the setting memoryPolicy allows policies."""
    label_keys: tuple[str, ...] | None = ()
    """The labels of pods by which settings select; None if every label may be needed."""
    hook_program: str = ""
    """The program in the OCI hooks of resource claims; "" if the setting claims is off."""

    def hugepage_limits(self, _cgroup_parent: str, /) -> Mapping[int, int]:
        """Return page size in bytes -> limit in bytes of a pod's cgroup."""
        return {}

    def memory_limit(self, _cgroup_parent: str, /) -> int | None:
        """Return the memory limit in bytes of a pod's cgroup; None for no limit."""
        return None

    def read_cpuset(
        self, container: events.Container, _cgroup_parent: str, _cgroups_path: str, /
    ) -> events.Container:
        """Return a container with `cgroup_mems` and `cgroup_use`, where they have an effect."""
        return container

    def container_memory(self, _cgroups_path: str, /) -> int | None:
        """Return the memory limit in bytes of a container's cgroup; None if there is none."""
        return None

    def process_start(self, _pid: int, /) -> int:
        """Return the start of a process in clock ticks since boot; 0 if it is unknown."""
        return 0

    def device_nodes(
        self, _cgroup_parent: str, _devices: Iterable[Device], /
    ) -> tuple[NodeSet, ...]:
        """Return the NUMA nodes of each device of a pod's container that has known nodes.

        The devices are a lazy iterable: a reader that ignores them costs nothing.
        """
        return ()

    def pool_use(
        self, _pod: events.PodSandbox, _container: events.Container | None, /
    ) -> PoolUse | None:
        """Return the kernel's hugepage pools for a container, or without one for a whole pod.

        None when they have no effect or are unknown.
        """
        return None

    def policy_support(self, _handler: str, /) -> PolicySupport | None:
        """Return whether memory policies can be set for a pod with this runtime handler."""
        return None

    def available_memory(
        self, _pod: events.PodSandbox, _container: events.Container, /
    ) -> Mapping[int, int] | None:
        """Return node id -> bytes that are free or reclaimable; None if they have no effect."""
        return None

    def prepared_claims(self) -> tuple[Claim, ...] | None:
        """Return the resource claims that are charged and prepared; None if unknown."""
        return None

    def sandbox_started(self, _pod: events.PodSandbox, _path: str, /) -> None:
        """Process a new sandbox and the path of its network namespace, "" for the host's."""
        return

    def sandbox_ended(self, _sandbox_id: str, /) -> None:
        """Process the end of a sandbox."""
        return

    def network(
        self, _pod: events.PodSandbox, _host_names: tuple[str, ...], _path: str, /
    ) -> NetworkRequest | None:
        """Return the interfaces of a new container; None if they have no effect.

        The names are the interfaces of the host that the container gets, the path is as above.
        """
        return None


class NoHostFacts(HostFacts):
    """No fact of the host is known, and all settings are off."""


NO_HOST_FACTS = NoHostFacts()
