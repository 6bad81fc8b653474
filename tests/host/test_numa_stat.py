"""Memory of a container per NUMA node: cgroup v2 and v1, with and without hugepages."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.engine.core.events import CgroupUse
from nri_numamem.host.numa_stat import bytes_per_node, container_use, read_pages
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.pages import Pages

Plant = Callable[[Mapping[str, str]], Path]

PAGE = os.sysconf("SC_PAGE_SIZE")
MI = 1 << 20
V2 = "anon N0=4096 N1=8192\nfile N0=1000 N1=0\nanon_thp N0=7 N1=7\n"
V1 = "total=9 N0=4 N1=5\nanon=7 N0=3 N1=4\nfile=2 N0=1 N1=1\n"
V1_WITH_CHILDREN = f"{V1}hierarchical_total=11 N0=6 N1=5\nhierarchical_anon=8 N0=4 N1=4\n"
USE_V2 = """\
anon N0=4096 N1=8192
file N0=1000 N1=0
kernel_stack N0=512 N1=512
shmem N0=77 N1=0
"""
USE_V1 = """\
total=9 N0=4 N1=5
file=2 N0=1 N1=1
hierarchical_total=11 N0=6 N1=5
hierarchical_file=2 N0=1 N1=1
"""


def test_anonymous_and_hugetlb_pages_of_cgroup_v2(plant: Plant) -> None:
    root = plant(
        {
            "cgroup.controllers": "",
            "c/memory.numa_stat": V2,
            "c/hugetlb.2MB.numa_stat": f"total={4 * MI} N0=0 N1={4 * MI}\n",
            "c/hugetlb.1GB.numa_stat": "total=0 N0=0 N1=0\n",
            "c/hugetlb.2MB.current": f"{4 * MI}\n",
        }
    )
    pages = read_pages(root, root / "c")
    assert pages is not None
    assert pages.private == {0: 4096, 1: 8192 + 4 * MI}


@pytest.mark.parametrize(
    ("text", "pages"), [(V1, {0: 3, 1: 4}), (V1_WITH_CHILDREN, {0: 4, 1: 4})], ids=["one", "tree"]
)
def test_cgroup_v1_counts_pages(plant: Plant, text: str, pages: dict[int, int]) -> None:
    root = plant(
        {
            "cpuset/a/c/cpuset.mems": "0\n",
            "memory/a/c/memory.numa_stat": text,
            "hugetlb/a/c/hugetlb.2MB.numa_stat": (
                f"total=0 N0=0 N1=0\nhierarchical_total={2 * MI} N0={2 * MI} N1=0\n"
            ),
        }
    )
    expected = {0: pages[0] * PAGE + 2 * MI, 1: pages[1] * PAGE}
    found = read_pages(root, root / "cpuset/a/c")
    assert found is not None
    assert found.private == expected


def test_a_container_that_ended_or_has_no_memory_controller(plant: Plant) -> None:
    root = plant({"cgroup.controllers": "", "c/hugetlb.2MB.numa_stat": "total=0 N0=0\n"})
    assert read_pages(root, root / "c") is None
    assert read_pages(root, root / "gone") is None


def test_a_file_that_cannot_be_read(plant: Plant) -> None:
    root = plant({"cgroup.controllers": "", "c/memory.numa_stat/x": ""})
    with pytest.raises(MachineError, match=r"memory\.numa_stat"):
        read_pages(root, root / "c")


def test_only_the_lines_with_these_names_count() -> None:
    assert bytes_per_node(V2, {"file", "anon_thp"}) == {0: 1007, 1: 7}
    assert bytes_per_node("anon\n\nanon N0=1 Nx=2 N1=\n", {"anon"}) == {0: 1}
    assert bytes_per_node("", {"anon"}) == {}


def test_shared_memory_is_no_page_cache(plant: Plant) -> None:
    stat = "anon N0=1 N1=2\nfile N0=100 N1=50\nshmem N0=30 N1=60\n"
    root = plant({"cgroup.controllers": "", "c/memory.numa_stat": stat})
    # The kernel updates the counters one by one.
    expected = Pages({0: 1, 1: 2}, {0: 30, 1: 60}, {}, {0: 70, 1: 0})
    assert read_pages(root, root / "c") == expected


def test_cgroup_v1_does_not_show_shared_memory(plant: Plant) -> None:
    root = plant({"cpuset/c/cpuset.mems": "0\n", "memory/c/memory.numa_stat": V1})
    expected = Pages({0: 3 * PAGE, 1: 4 * PAGE}, {}, {}, {0: PAGE, 1: PAGE})
    assert read_pages(root, root / "cpuset/c") == expected


def test_a_container_of_cgroup_v2(plant: Plant) -> None:
    root = plant(
        {
            "cgroup.controllers": "",
            "c/cpuset.mems.effective": "0-1\n",
            "c/memory.numa_stat": USE_V2,
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
    [(USE_V1, {0: 6, 1: 5}), ("total=9 N0=4 N1=5\nfile=2 N0=1 N1=1\n", {0: 4, 1: 5})],
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
