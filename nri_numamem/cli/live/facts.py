"""What was read: the plugin's lock and state, the machine, cgroups. Values only, no judgement.

Functions that read cgroups raise MachineError for files that cannot be read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.lock_holder import LockHolder
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.host.cgroups import effective_mems, set_mems
from nri_numamem.host.containers import (
    container_folders,
    is_populated,
    memory_limit,
    running_container,
)
from nri_numamem.host.hugepage_users import HugepageUsers
from nri_numamem.host.numa_stat import read_pages
from nri_numamem.host.pod_cgroups import other_pod_directories
from nri_numamem.memorymanager import PoolUse
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages, summed
from nri_numamem.observe.plugin_file import PluginFacts


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of a container that has processes."""

    container_id: str
    pod_uid: str
    memory_limit_bytes: int
    """0 without a limit, which no container of a Guaranteed pod has."""
    mems: NodeSet
    """The `cpuset.mems` that was set; empty when it was not set."""
    effective_mems: NodeSet
    """The nodes from which it gets memory; empty if unknown."""
    pages: Pages | None
    """Its resident memory; None if unknown."""

    @property
    def file_bytes(self) -> int:
        """Return page cache and tmpfs; a page counts in the cgroup that used it first."""
        pages = self.pages or Pages()
        return sum(summed((pages.cache, pages.shared)).values())


@dataclass(frozen=True, slots=True)
class Facts:
    """The plugin and its host at one moment. A text about a problem is "" without one."""

    now_s: float
    """Unix time."""
    settings: Settings
    settings_origin: str
    state_file: str
    """Path; "" if the settings disable it."""
    holder: LockHolder | None = None
    """The running plugin; None if no process holds the lock."""
    plugin: PluginFacts | None = None
    """What the running plugin, or the last one, wrote about itself; None if unknown."""
    plugin_problem: str = ""
    changed_s: float | None = None
    """Unix time of the last change of the state; None without a state."""
    state: EngineState | None = None
    """The plugin's state, with its accounting."""
    state_problem: str = ""
    context: Context | None = None
    """Machine and policy; None if the machine or the settings cannot be used."""
    machine_problem: str = ""
    pool_use: PoolUse | None = None
    """The kernel's hugepage pools; None if they cannot be read."""
    available_bytes: Mapping[int, int] = field(default_factory=dict)
    """NUMA node id -> bytes that the kernel has free or reclaimable."""
    cgroups: Mapping[str, Cgroup] | None = None
    """Container id -> cgroup; None if they cannot be read."""
    cgroup_problem: str = ""
    other_pods: Mapping[str, int] = field(default_factory=dict)
    """QoS class -> number of pods that are not Guaranteed."""
    hugepage_users: HugepageUsers = field(default_factory=HugepageUsers)
    """What uses hugepages outside of pods; empty if no hugepage is in use, or if not read."""

    @property
    def resident_bytes(self) -> Mapping[str, int]:
        """Return container id -> bytes without page cache and hugepages, where they are known."""
        found = (self.cgroups or {}).values()
        return {each.container_id: each.pages.charged_bytes for each in found if each.pages}


def pod_names(state: EngineState) -> dict[str, tuple[str, str]]:
    """Return pod uid -> namespace and name, of the pods whose names are known."""
    reasons = (*state.reasons.pinned.values(), *state.reasons.unpinned.values())
    return {reason.key[0]: (reason.namespace, reason.pod) for reason in reasons}


def limited_containers(cgroup_root: Path, uid: str, pod_directory: Path) -> Iterator[Cgroup]:
    """Yield the running containers of a pod with a memory limit; pause containers have none."""
    for container_id, name in container_folders(pod_directory).items():
        directory = pod_directory / name
        running = running_container(cgroup_root, directory)
        if running is not None:
            where = effective_mems(directory), read_pages(cgroup_root, directory)
            yield Cgroup(container_id, uid, running.memory_limit_bytes, running.mems, *where)


def containers_of_other_pods(cgroup_root: Path, uids: frozenset[str]) -> Iterator[Cgroup]:
    """Yield the running containers of these pods, unless Guaranteed; with pause containers."""
    for uid, (_, pod_directory) in other_pod_directories(cgroup_root).items():
        for container_id, name in container_folders(pod_directory).items():
            directory = pod_directory / name
            if uid in uids and is_populated(directory):
                limit_bytes = memory_limit(cgroup_root, directory) or 0
                mems = set_mems(directory) or NodeSet()
                where = effective_mems(directory), read_pages(cgroup_root, directory)
                yield Cgroup(container_id, uid, limit_bytes, mems, *where)
