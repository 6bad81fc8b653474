"""Hugepage pools as they are now."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.host.hugepages import (
    HugepagePool,
    PoolDirectories,
    read_pod_use,
    read_pool_use,
    read_pools,
    read_reserved_pages,
)
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.hugepage_pools import Pool

PAGE_2M = 2 << 20
PAGE_1G = 1 << 30


def test_pools_of_each_node(tree: Callable[[str], Path]) -> None:
    sysfs = tree("two-sockets") / "sys"
    assert read_pools(sysfs) == {
        0: {PAGE_2M: HugepagePool(1024, 1021, 1), PAGE_1G: HugepagePool(8, 5, 1)},
        1: {PAGE_2M: HugepagePool(512, 509, 1), PAGE_1G: HugepagePool(4, 1, 1)},
    }
    assert read_reserved_pages(sysfs) == {PAGE_2M: 2, PAGE_1G: 2}


def test_use_of_the_pools(tree: Callable[[str], Path]) -> None:
    sysfs = tree("two-sockets") / "sys"
    large = {
        0: {"hugepages-1Gi": Pool(3 * PAGE_1G, 5 * PAGE_1G)},
        1: {"hugepages-1Gi": Pool(3 * PAGE_1G, PAGE_1G)},
    }
    rsvd = {"hugepages-1Gi": 2 * PAGE_1G}
    assert read_pool_use(PoolDirectories.find(sysfs), {PAGE_1G, 16 << 30}) == PoolUse(large, rsvd)
    whole = read_pool_use(PoolDirectories.find(sysfs))
    assert whole.pools[1] == {"hugepages-2Mi": Pool(3 * PAGE_2M, 509 * PAGE_2M), **large[1]}
    assert whole.rsvd == {"hugepages-2Mi": 2 * PAGE_2M, **rsvd}
    assert read_pool_use(PoolDirectories.find(sysfs), ()) == PoolUse({0: {}, 1: {}}, {})


def test_a_pool_that_shrinks_between_two_reads(plant: Callable[[Mapping[str, str]], Path]) -> None:
    pool = "sys/kernel/mm/hugepages/hugepages-2048kB"
    counts = {"free_hugepages": "5", "nr_hugepages": "3", "resv_hugepages": "0"}
    sysfs = plant({f"{pool}/{name}": count for name, count in counts.items()}) / "sys"
    use = read_pool_use(PoolDirectories.find(sysfs))
    assert use.pools == {0: {"hugepages-2Mi": Pool(0, 5 * PAGE_2M)}}


LINE = f"total={3 * PAGE_2M} N0={PAGE_2M} N1={2 * PAGE_2M}"
NODES = {0: {"hugepages-2Mi": PAGE_2M}, 1: {"hugepages-2Mi": 2 * PAGE_2M}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LINE, NODES),
        (f"total=0 N0=0 N1=0\nhierarichal_{LINE}\n", NODES),
        ("total=0 N0=0\n", {}),
        ("total=0", {}),
        # Pages of a container that was removed; nodes that went below nothing; no such file.
        (f"total={PAGE_2M} N0=0 N1=0", None),
        (f"total={PAGE_2M} N0=18446744073707454464 N1=0", None),
        ("total=1 N0", None),
        ("", None),
    ],
)
def test_the_pages_of_a_pod(
    tmp_path: Path, text: str, expected: Mapping[int, Mapping[str, int]] | None
) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directory = tmp_path / "kubepods/pod1"
    directory.mkdir(parents=True)
    assert read_pod_use(tmp_path, "/kubepods/pod1", [PAGE_2M]) is None
    (directory / "hugetlb.2MB.numa_stat").write_text(text)
    assert read_pod_use(tmp_path, "/kubepods/pod1", [PAGE_2M]) == expected


def test_the_pages_of_a_pod_of_several_sizes(tmp_path: Path) -> None:
    directory = tmp_path / "hugetlb/kubepods/pod1"  # cgroup v1
    directory.mkdir(parents=True)
    (directory / "hugetlb.2MB.numa_stat").write_text(f"total=0\nhierarichal_{LINE}\n")
    sizes = [PAGE_2M, PAGE_1G]
    assert read_pod_use(tmp_path, "/kubepods/pod1", sizes) is None
    large = f"hierarichal_total={PAGE_1G} N0=0 N1={PAGE_1G}"
    (directory / "hugetlb.1GB.numa_stat").write_text(f"total=0\n{large}\n")
    assert read_pod_use(tmp_path, "/kubepods/pod1", sizes) == {
        0: NODES[0],
        1: {**NODES[1], "hugepages-1Gi": PAGE_1G},
    }
    assert read_pod_use(tmp_path, "..", sizes) is None


def test_nodes_and_sizes_are_ascending(tree: Callable[[str], Path]) -> None:
    pools = read_pools(tree("sparse-memory-only") / "sys")
    assert list(pools) == [0, 1, 8, 252, 253, 254, 255]
    assert all(list(sizes) == [PAGE_2M, PAGE_1G] for sizes in pools.values())


def test_without_numa_all_pools_belong_to_node_0(tree: Callable[[str], Path]) -> None:
    sysfs = tree("without-numa") / "sys"
    assert read_pools(sysfs) == {0: {PAGE_2M: HugepagePool(12, 12, 0)}}
    assert read_reserved_pages(sysfs) == {PAGE_2M: 0}


def test_a_kernel_without_hugepages(tmp_path: Path) -> None:
    assert read_pools(tmp_path) == {0: {}}
    assert read_reserved_pages(tmp_path) == {}


def test_a_missing_figure_is_named(plant: Callable[[Mapping[str, str]], Path]) -> None:
    pool = "kernel/mm/hugepages/hugepages-2048kB"
    sysfs = plant({f"sys/{pool}/nr_hugepages": "1"}) / "sys"
    with pytest.raises(MachineError, match=f"{pool}/free_hugepages: no such file; "):
        read_pools(sysfs)
    with pytest.raises(MachineError, match=f"{pool}/resv_hugepages: no such file; "):
        read_reserved_pages(sysfs)
