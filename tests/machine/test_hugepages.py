"""Hugepage pools as they are now."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.machine.hugepages import HugepagePool, read_pools, read_reserved_pages
from nri_numamem.machine.sysfs import MachineError

PAGE_2M = 2 << 20
PAGE_1G = 1 << 30


def test_pools_of_each_node(tree: Callable[[str], Path]) -> None:
    sysfs = tree("two-sockets") / "sys"
    assert read_pools(sysfs) == {
        0: {PAGE_2M: HugepagePool(1024, 1021, 1), PAGE_1G: HugepagePool(8, 5, 1)},
        1: {PAGE_2M: HugepagePool(512, 509, 1), PAGE_1G: HugepagePool(4, 1, 1)},
    }
    assert read_reserved_pages(sysfs) == {PAGE_2M: 2, PAGE_1G: 2}


def test_nodes_and_sizes_ascend(tree: Callable[[str], Path]) -> None:
    pools = read_pools(tree("sparse-memory-only") / "sys")
    assert list(pools) == [0, 1, 8, 252, 253, 254, 255]
    assert all(list(sizes) == [PAGE_2M, PAGE_1G] for sizes in pools.values())


def test_without_numa_all_pools_are_of_node_0(tree: Callable[[str], Path]) -> None:
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
