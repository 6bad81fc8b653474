"""What a change of `cpuset.mems` would mean for a container that runs.

The kernel moves the container's pages to the new nodes within the write to the file. The amounts
per node are in `memory.numa_stat`, with cgroup v1 as numbers of pages.
Source: kernel cgroup-v2.rst and cgroup-v1/memory.rst; cpuset.c, update_nodemask.
"""

import re
from pathlib import Path

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.host.cgroups import read_nodes
from nri_numamem.host.numa_stat import bytes_per_node, controller_directory
from nri_numamem.host.sysfs import names_in, read_optional
from nri_numamem.numa.nodeset import NodeSet

# Page cache without a mapping stays where it is, so these are upper limits.
_MOVABLE_V1 = {"total"}
_MOVABLE_V2 = {"anon", "file"}
_PAGES_IN_USE = re.compile(r"hugetlb\.[0-9KMGT]+B\.(?:current|usage_in_bytes)", re.ASCII)


def container_use(cgroup_root: Path, directory: Path) -> CgroupUse:
    """Return what a container uses whose cpuset is in `directory`.

    Raises MachineError for files that cannot be read, and for lists that no kernel writes.
    """
    effective = read_nodes(f"{directory}/cpuset.mems.effective")
    if effective is None:
        effective = read_nodes(f"{directory}/cpuset.effective_mems")
    memory = read_optional(
        controller_directory(cgroup_root, directory, "memory") / "memory.numa_stat"
    )
    return CgroupUse(
        effective_mems=effective or NodeSet(),
        memory_bytes=None if memory is None else _memory_bytes(memory),
        has_hugepages=_has_hugepages(controller_directory(cgroup_root, directory, "hugetlb")),
    )


def _memory_bytes(text: str) -> dict[int, int]:
    """Return node -> bytes that may move, from the text of `memory.numa_stat`."""
    return bytes_per_node(text, _MOVABLE_V1 if text.startswith("total=") else _MOVABLE_V2)


def _has_hugepages(directory: Path) -> bool:
    return any(
        read_optional(directory / name) not in (None, "0")
        for name in names_in(str(directory))
        if _PAGES_IN_USE.fullmatch(name)
    )
