"""The comparison of cpuFollowsMemory with the kubelet's static managers plays what it describes."""

import pytest

from nri_numamem.numa import CpuFollowing, CpuSet, NodeSet
from tests.bench.cpus_beside_memory import (
    CPUS,
    GI,
    HEADS,
    HOSTS,
    SHAPES,
    STATIC,
    Figures,
    Placed,
    Plugin,
    Request,
    StaticManagers,
    _machine,
    play,
    table,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_with_require_all_cpus_are_beside_memory(shape: str) -> None:
    for seed in range(3):
        figures = play(seed, shape, HOSTS["`require`"])
        assert figures.counts["admitted"] > 0
        assert figures.remote == 0


def test_cpus_change_no_admission_and_room_lowers_the_excess() -> None:
    off, prefer = Figures(), Figures()
    for seed in range(10):
        off.counts += play(seed, "mixed", HOSTS["`off`"]).counts
        prefer.counts += play(seed, "mixed", HOSTS["`prefer`"]).counts
    assert prefer.counts["excess"] < off.counts["excess"]


def test_the_model_of_the_kubelet_gives_each_cpu_once() -> None:
    host, machine = StaticManagers(_machine(2)), _machine(2)
    first, second = (host.start(Request(name, 12, 8 * GI)) for name in "ab")
    assert first == Placed(NodeSet({0}), CpuSet(range(12)))
    assert second == Placed(NodeSet({1}), CpuSet(range(CPUS, CPUS + 12)))
    third = host.start(Request("c", 8, 8 * GI))
    assert third is not None
    assert str(third.cpus) == "12-15,28-31"
    assert host.start(Request("d", 1, GI)) is None
    host.end("a")
    assert host.start(Request("d", 1, GI)) == Placed(NodeSet({0}), CpuSet({0}))
    assert len(machine.nodes) == 2


def test_the_plugin_gives_the_cpus_of_the_nodes() -> None:
    host = Plugin(_machine(2), CpuFollowing.PREFER)
    assert host.start(Request("a", 4, GI)) == Placed(NodeSet({0}), CpuSet(range(CPUS)))
    assert host.start(Request("b", 4, 1000 * GI)) is None
    host.end("a")


def test_the_table_has_a_row_for_each_shape_and_host() -> None:
    rows = table(2)
    assert [row[:2] for row in rows] == [(shape, name) for shape in SHAPES for name in HOSTS]
    assert {len(row) for row in rows} == {len(HEADS)}
    assert rows[3][1] == STATIC
