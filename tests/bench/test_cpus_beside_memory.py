"""The comparison of cpuFollowsMemory with the kubelet's static managers plays what it describes."""

import re
from pathlib import Path

import pytest

from nri_numamem.numa import CpuFollowing, CpuSet, NodeSet
from tests.bench.cpus_beside_memory import (
    HEADS,
    PLUGIN,
    STATIC,
    Kubelet,
    Placed,
    Plugin,
    of_kubelet,
    of_plugin,
    recorded_of,
    table,
)
from tests.kubelet_managers.cpu_lives import CPUS, GI, LIVES, SHAPES, THREADS, Request, machine_of
from tests.kubelet_managers.static_cpus import (
    Assigned,
    StaleRecordingError,
    kubernetes_version,
    recorded,
)

PAGE = Path(__file__).parents[2] / "docs" / "cpu-follows-memory.md"


@pytest.mark.parametrize("shape", SHAPES)
def test_with_require_all_cpus_are_beside_memory(shape: str) -> None:
    figures = of_plugin(CpuFollowing.REQUIRE, shape, 3)
    assert figures.counts["admitted"] > 0
    assert figures.remote == 0


def test_room_for_cpus_lowers_the_excess() -> None:
    off, prefer = (
        of_plugin(following, "mixed", 10) for following in (CpuFollowing.OFF, CpuFollowing.PREFER)
    )
    assert prefer.counts["excess"] < off.counts["excess"]


def test_the_plugin_gives_the_cpus_of_the_nodes_without_reserved_ones() -> None:
    host = Plugin(machine_of(2), CpuFollowing.PREFER)
    cpus = CpuSet(range(THREADS, THREADS + CPUS))
    assert host.start(Request("a", 4, GI)) == Placed(NodeSet({0}), cpus)
    assert host.start(Request("b", 4, 1000 * GI)) is None
    host.end("a")


def test_the_kubelet_answers_from_the_recording() -> None:
    cpus, request = CpuSet({2, 3}), Request("a", 2, GI)
    host = Kubelet({"a": Assigned(cpus, is_exclusive=True, nodes=NodeSet({0})), "b": "reason"})
    assert host.start(request) == Placed(NodeSet({0}), cpus)
    host.end("a")
    assert host.start(Request("b", 2, GI)) is None
    with pytest.raises(StaleRecordingError, match="a was not started"):
        host.start(request)


def test_a_recording_with_a_pod_more_or_less_is_refused() -> None:
    ((life, answers),) = recorded_of("mixed", 1)
    admitted = [name for name, answer in answers.items() if isinstance(answer, Assigned)]
    without = {name: answer for name, answer in answers.items() if name != admitted[0]}
    with pytest.raises(StaleRecordingError, match="was not started"):
        of_kubelet([(life, without)])
    with pytest.raises(StaleRecordingError, match="not started: pod-more"):
        of_kubelet([(life, {**answers, "pod-more": "reason"})])


def test_the_page_has_the_figures_of_the_recording_and_its_version() -> None:
    """If this fails: copy the table that `python -m tests.bench.cpus_beside_memory` prints."""
    text, found = PAGE.read_text(), recorded()
    for number, shape in enumerate(SHAPES):
        figures = of_kubelet(found[number * LIVES : (number + 1) * LIVES])
        row = " | ".join((shape, "static managers", *figures.row()))
        assert f"| {row} |" in text
    assert re.findall(r"of Kubernetes (v[\d.]+\d)", text) == [kubernetes_version()]


def test_the_table_has_a_row_for_each_shape_and_host() -> None:
    rows = table(2)
    names = [*PLUGIN, STATIC]
    assert [row[:2] for row in rows] == [(shape, name) for shape in SHAPES for name in names]
    assert {len(row) for row in rows} == {len(HEADS)}
