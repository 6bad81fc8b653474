"""What a container uses: files of cgroup v2 and v1, and what cannot be read."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.host.container_use import container_use
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa.nodeset import NodeSet

Plant = Callable[[Mapping[str, str]], Path]

PAGE = os.sysconf("SC_PAGE_SIZE")
V2 = """\
anon N0=4096 N1=8192
file N0=1000 N1=0
kernel_stack N0=512 N1=512
shmem N0=77 N1=0
"""
V1 = """\
total=9 N0=4 N1=5
file=2 N0=1 N1=1
hierarchical_total=11 N0=6 N1=5
hierarchical_file=2 N0=1 N1=1
"""


def test_a_container_of_cgroup_v2(plant: Plant) -> None:
    root = plant(
        {
            "cgroup.controllers": "",
            "c/cpuset.mems.effective": "0-1\n",
            "c/memory.numa_stat": V2,
            "c/hugetlb.2MB.current": "0\n",
            "c/hugetlb.2MB.max": "2097152\n",
        }
    )
    expected = CgroupUse(NodeSet([0, 1]), {0: 5096, 1: 8192})
    assert container_use(root, root / "c") == expected
    (root / "c/hugetlb.2MB.current").write_text("2097152\n")
    assert container_use(root, root / "c").has_hugepages


@pytest.mark.parametrize(
    ("text", "pages"),
    [(V1, {0: 6, 1: 5}), ("total=9 N0=4 N1=5\nfile=2 N0=1 N1=1\n", {0: 4, 1: 5})],
)
def test_a_container_of_cgroup_v1(plant: Plant, text: str, pages: dict[int, int]) -> None:
    root = plant(
        {
            "cpuset/a/c/cpuset.effective_mems": "1\n",
            "memory/a/c/memory.numa_stat": text,
            "hugetlb/a/c/hugetlb.1GB.usage_in_bytes": "1073741824\n",
        }
    )
    found = container_use(root, root / "cpuset/a/c")
    amounts = {node: count * PAGE for node, count in pages.items()}
    assert found == CgroupUse(NodeSet([1]), amounts, has_hugepages=True)


def test_a_container_without_these_files(plant: Plant) -> None:
    root = plant({"c/cpuset.mems": "\n"})
    assert container_use(root, root / "c") == CgroupUse(NodeSet(), None)


def test_an_empty_line_and_unknown_words_are_skipped(plant: Plant) -> None:
    root = plant({"c/memory.numa_stat": "\nanon N0=x N1=3 M=4\nanonymous N0=9\n"})
    assert container_use(root, root / "c").memory_bytes == {1: 3}


def test_nodes_that_no_kernel_writes(plant: Plant) -> None:
    root = plant({"c/cpuset.mems.effective": "all\n"})
    with pytest.raises(MachineError, match="is not a list of NUMA"):
        container_use(root, root / "c")
