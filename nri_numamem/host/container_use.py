"""What a change of `cpuset.mems` would mean for a container that runs.

The kernel moves the container's pages to the new nodes within the write to the file. The amounts
per node are in `memory.numa_stat`, with cgroup v1 as numbers of pages.
Source: kernel cgroup-v2.rst and cgroup-v1/memory.rst; cpuset.c, update_nodemask.
"""

import os
import re
from pathlib import Path

from nri_numamem.engine.events import CgroupUse
from nri_numamem.host.cgroups import read_nodes
from nri_numamem.host.sysfs import names_in, read_optional
from nri_numamem.numa.nodeset import NodeSet

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Page cache without a mapping stays where it is, so these are upper limits.
_MOVABLE_V2 = {"anon", "file"}
_ON_NODE = re.compile(r"N(\d{1,5})=(\d{1,19})", re.ASCII)
_PAGES_IN_USE = re.compile(r"hugetlb\.[0-9KMGT]+B\.(?:current|usage_in_bytes)", re.ASCII)


def container_use(cgroup_root: Path, directory: Path) -> CgroupUse:
    """Return what a container uses whose cpuset is in `directory`.

    Raises MachineError for files that cannot be read, and for lists that no kernel writes.
    """
    effective = read_nodes(f"{directory}/cpuset.mems.effective")
    if effective is None:
        effective = read_nodes(f"{directory}/cpuset.effective_mems")
    memory = read_optional(_controller(cgroup_root, directory, "memory") / "memory.numa_stat")
    return CgroupUse(
        effective_mems=effective or NodeSet(),
        memory_bytes=None if memory is None else _memory_bytes(memory),
        has_hugepages=_has_hugepages(_controller(cgroup_root, directory, "hugetlb")),
    )


def _controller(cgroup_root: Path, directory: Path, controller: str) -> Path:
    """Return the directory of the same cgroup in another controller."""
    cpuset_v1 = cgroup_root / "cpuset"
    if not directory.is_relative_to(cpuset_v1):
        return directory
    return cgroup_root / controller / directory.relative_to(cpuset_v1)


def _memory_bytes(text: str) -> dict[int, int]:
    """Return node -> bytes that may move, from the text of `memory.numa_stat`."""
    found: dict[int, int] = {}
    # In cgroup v1: "total=52 N0=50 N1=2", and the same with "hierarchical_" for all descendants.
    names, unit_bytes = _MOVABLE_V2, 1
    if text.startswith("total="):
        names, unit_bytes = {"hierarchical_total"}, _PAGE_BYTES
        if "hierarchical_total=" not in text:
            names = {"total"}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].partition("=")[0] in names:
            for node, amount in _ON_NODE.findall(line):
                found[int(node)] = found.get(int(node), 0) + int(amount) * unit_bytes
    return found


def _has_hugepages(directory: Path) -> bool:
    return any(
        read_optional(directory / name) not in (None, "0")
        for name in names_in(str(directory))
        if _PAGES_IN_USE.fullmatch(name)
    )
