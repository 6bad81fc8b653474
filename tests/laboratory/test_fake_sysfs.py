"""Overlays: whatever machine is written is read back; paths stay below the root."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.host.hugepages import read_pools, read_reserved_pages
from nri_numamem.host.topology import read_machine
from nri_numamem.numa.idset import CpuSet
from nri_numamem.numa.machine import Machine, NumaNode
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

PAGE_SIZES = (64 << 10, 2 << 20, 32 << 20, 512 << 20, 1 << 30, 16 << 30)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    node_ids = sorted(draw(st.sets(st.integers(0, 1023), min_size=1, max_size=6)))
    row = st.lists(st.integers(1, 99999), min_size=len(node_ids), max_size=len(node_ids))
    sizes = {node_id: draw(st.integers(0, 2**40)) for node_id in node_ids}
    # The first node with memory has normal memory: no kernel runs without.
    normal = next((node_id for node_id in node_ids if sizes[node_id]), None)
    nodes = [
        NumaNode(
            node_id=node_id,
            memory_bytes=sizes[node_id] * 1024,
            is_movable_only=node_id != normal and sizes[node_id] > 0 and draw(st.booleans()),
            memory_tier=draw(st.none() | st.integers(0, 999)),
            hugepages=draw(
                st.dictionaries(st.sampled_from(PAGE_SIZES), st.integers(0, 2**20), max_size=3)
            ),
            cpus=CpuSet(draw(st.sets(st.integers(0, 8191), max_size=8))),
            distances=draw(
                st.just({}) | row.map(lambda found: dict(zip(node_ids, found, strict=True)))
            ),
        )
        for node_id in node_ids
    ]
    return Machine(tuple(nodes))


@given(machines())
def test_a_written_machine_is_read_back(machine: Machine) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_overlay(overlay_of(machine), root)
        assert read_machine(root / "sys", root / "proc") == machine
        pools = read_pools(root / "sys")
        assert {
            node: {size: pool.free_pages for size, pool in sizes.items()}
            for node, sizes in pools.items()
        } == {node.node_id: node.hugepages for node in machine.nodes}
        assert set(read_reserved_pages(root / "sys").values()) <= {0}


def test_the_files_have_the_kernels_format() -> None:
    nodes = (
        NumaNode(0, 1 << 30, {2 << 20: 4}, CpuSet([0, 1, 2, 5]), {0: 10}),
        NumaNode(3, 0, {}, CpuSet(), {0: 21, 3: 10}),
        NumaNode(4, 1 << 30, is_movable_only=True, memory_tier=22),
        NumaNode(5, 1 << 30, memory_tier=22),
    )
    overlay = overlay_of(Machine(nodes))
    directory = "sys/devices/system/node"
    assert overlay[f"{directory}/online"] == "0,3-5\n"
    assert overlay[f"{directory}/has_cpu"] == "0\n"
    assert overlay[f"{directory}/has_memory"] == "0,4-5\n"
    assert overlay[f"{directory}/has_normal_memory"] == "0,5\n"
    assert overlay["sys/devices/virtual/memory_tiering/memory_tier22/nodelist"] == "4-5\n"
    assert overlay[f"{directory}/node0/cpulist"] == "0-2,5\n"
    assert overlay[f"{directory}/node0/distance"] == "10 20 20 20\n"
    assert overlay[f"{directory}/node3/distance"] == "21 10 20 20\n"
    assert "Node 0 MemTotal:        1048576 kB\n" in overlay[f"{directory}/node0/meminfo"]
    assert overlay["sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] == "4\n"
    assert "MemTotal:        3145728 kB\n" in overlay["proc/meminfo"]


def test_machines_that_no_kernel_can_show() -> None:
    with pytest.raises(ValueError, match="without NUMA nodes"):
        overlay_of(Machine(()))
    with pytest.raises(ValueError, match="1000 bytes are not a multiple of 1024"):
        overlay_of(Machine((NumaNode(0, 1000),)))


@pytest.mark.parametrize("name", ["/etc/x", "../x", "sys/../../x", "", "."])
def test_paths_stay_below_the_root(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    with pytest.raises(ValueError, match="is not a path below the overlay's root"):
        write_overlay({"sys/good": "", name: "x"}, root)
    assert not root.exists()
