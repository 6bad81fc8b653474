"""What a rebalancing plan must know of a running container, from its cgroup and one process.

Sources: kernel cgroup-v2.rst (memory.numa_stat), cgroup-v1/memory.rst; numa(5) for numa_maps. A
line of numa_maps has the policy of a mapping, and that of the process for mappings without one.
"""

import os
from pathlib import Path

from nri_numamem.engine.queries.rebalance import ContainerFacts
from nri_numamem.host.cgroups import CRUN_CHILD
from nri_numamem.host.containers import container_folders, is_populated
from nri_numamem.host.numa_stat import container_use, read_pages
from nri_numamem.host.pod_cgroups import guaranteed_pods, other_pod_directories
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import read_optional

# The kernel walks the pages of every mapping that it shows. This is the first mapping or two.
_NUMA_MAPS_BYTES = 128


def movable_memory(roots: HostRoots) -> dict[str, ContainerFacts]:
    """Return container id -> facts, of the running containers of all pods.

    Raises MachineError for cgroups that cannot be read, and for content that no kernel writes.
    """
    others = (path for _, path in other_pod_directories(roots.cgroup).values())
    return {
        container_id: _facts(roots, pod / name)
        for pod in (*guaranteed_pods(roots.cgroup).values(), *others)
        for container_id, name in container_folders(pod).items()
        if is_populated(pod / name)
    }


def _facts(roots: HostRoots, directory: Path) -> ContainerFacts:
    pages = read_pages(roots.cgroup, directory)
    return ContainerFacts(
        None if pages is None else pages.charged_bytes,
        container_use(roots.cgroup, directory).has_hugepages,
        _has_own_cpus(directory),
        _has_policy(roots.proc, directory),
    )


def _has_own_cpus(directory: Path) -> bool:
    """Return whether `cpuset.cpus` is set; with cgroup v1, whether it is not the parent's."""
    cpus = read_optional(directory / "cpuset.cpus")
    is_v1 = (directory / "cpuset.effective_cpus").exists()
    inherited = read_optional(directory.parent / "cpuset.cpus") if is_v1 else None
    return bool(cpus) and cpus != inherited


def _has_policy(proc_root: Path, directory: Path) -> bool:
    """Return whether a process has a memory policy; False if that cannot be seen."""
    for place in (directory, directory / CRUN_CHILD):
        for pid in (read_optional(place / "cgroup.procs") or "").split()[:1]:
            words = _first_line(proc_root / pid / "numa_maps").split()
            return len(words) > 1 and words[1] != "default"
    return False


def _first_line(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:  # the process has ended, or belongs to another PID namespace
        return ""
    try:
        return os.read(fd, _NUMA_MAPS_BYTES).decode("ascii", "replace").partition("\n")[0]
    except OSError:
        return ""
    finally:
        os.close(fd)
