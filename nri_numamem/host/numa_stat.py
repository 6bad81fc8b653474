"""The memory of a container per NUMA node, from `memory.numa_stat` and `hugetlb.SIZE.numa_stat`.

Lines are "anon N0=4096 N1=0" with cgroup v2, and "anon=1 N0=1 N1=0" with v1, which counts pages in
`memory.numa_stat` and bytes in `hugetlb.SIZE.numa_stat`. In v1 the names of sums with all
descendants begin with "hierarchical_".

A change of `cpuset.mems` makes the kernel move a container's pages to the new nodes within the
write to the file; container_use() returns what that would mean.
Source: kernel cgroup-v2.rst, cgroup-v1/memory.rst; hugetlb_cgroup.c, hugetlb_cgroup_read_numa_stat
(5.17 and newer); cpuset.c, update_nodemask.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.host.cgroups import controller_directory, effective_mems
from nri_numamem.host.sysfs import names_in, read_optional
from nri_numamem.numa.pages import Pages, summed

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ON_NODE = re.compile(r"N(\d{1,5})=(\d{1,19})", re.ASCII)
_HUGETLB = re.compile(r"hugetlb\.[0-9KMGT]+B\.numa_stat", re.ASCII)
_V1_PREFIX = "hierarchical_"
# Page cache without a mapping stays where it is, so these are upper limits.
_MOVABLE_V1 = {"total"}
_MOVABLE_V2 = {"anon", "file"}
_PAGES_IN_USE = re.compile(r"hugetlb\.[0-9KMGT]+B\.(?:current|usage_in_bytes)", re.ASCII)


def read_pages(cgroup_root: Path, directory: Path) -> Pages | None:
    """Return the resident memory of the container with this cpuset cgroup.

    None if the container does not exist or has no memory controller. Raises MachineError for files
    that cannot be read.
    """
    memory = controller_directory(cgroup_root, directory, "memory")
    text = read_optional(memory / "memory.numa_stat")
    if text is None:
        return None
    shared = bytes_per_node(text, {"shmem"})
    # With cgroup v2 "file" has the pages of tmpfs too; with v1 these are in "anon".
    files = bytes_per_node(text, {"file"})
    return Pages(
        anonymous=bytes_per_node(text, {"anon"}),
        shared=shared,
        hugetlb=_hugetlb(controller_directory(cgroup_root, directory, "hugetlb")),
        cache={node: max(0, size - shared.get(node, 0)) for node, size in files.items()},
    )


def _hugetlb(directory: Path) -> dict[int, int]:
    texts = (
        read_optional(directory / name) or ""
        for name in names_in(directory)
        if _HUGETLB.fullmatch(name)
    )
    return summed(_sums(text, {"total"}, 1) for text in texts)


def bytes_per_node(text: str, names: Collection[str]) -> dict[int, int]:
    """Return node -> bytes of the lines with these names, from the text of `memory.numa_stat`."""
    return _sums(text, names, _PAGE_BYTES if text.startswith("total=") else 1)


def _sums(text: str, names: Collection[str], unit_bytes: int) -> dict[int, int]:
    if _V1_PREFIX in text:
        names = {f"{_V1_PREFIX}{name}" for name in names}
    found: dict[int, int] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0].partition("=")[0] in names:
            for node, amount in _ON_NODE.findall(line):
                found[int(node)] = found.get(int(node), 0) + int(amount) * unit_bytes
    return found


def container_use(cgroup_root: Path, directory: Path) -> CgroupUse:
    """Return what the container with the cpuset in `directory` uses.

    Raises MachineError for files that cannot be read, and for lists that no kernel writes.
    """
    memory = read_optional(
        controller_directory(cgroup_root, directory, "memory") / "memory.numa_stat"
    )
    movable = _MOVABLE_V1 if (memory or "").startswith("total=") else _MOVABLE_V2
    return CgroupUse(
        effective_mems=effective_mems(directory),
        memory_bytes=None if memory is None else bytes_per_node(memory, movable),
        has_hugepages=_has_hugepages(controller_directory(cgroup_root, directory, "hugetlb")),
    )


def _has_hugepages(directory: Path) -> bool:
    return any(
        read_optional(directory / name) not in (None, "0")
        for name in names_in(str(directory))
        if _PAGES_IN_USE.fullmatch(name)
    )
