"""Metrics of where the memory of containers is."""

from dataclasses import replace

from nri_numamem.engine.core.events import CreateContainer, RunPodSandbox, StopContainer
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.numa.pages import Pages
from nri_numamem.observe.metrics.residency import residency_metrics
from tests.observe.metrics.test_exposition import Plugin, Samples, container, pod, samples

LAST = Round(
    pages={"c1-app": Pages({0: 5, 1: 6}, {}, {1: 7}), "gone": Pages({0: 1})},
    available={0: 10, 1: 20},
    unfaulted={0: 3, 1: 4},
    low_nodes=frozenset([1]),
    remote={"c1-app": 2},
)


def found(last: Round) -> Samples:
    plugin = Plugin()
    plugin.handle(RunPodSandbox(pod(1)))
    plugin.handle(CreateContainer(pod(1), container(1)))
    assert plugin.engine is not None
    return samples(residency_metrics(plugin.engine.state, last))


def test_amounts_per_node() -> None:
    metrics = found(LAST)
    assert metrics["node_available_bytes", (("numa_node", "1"),)] == 20
    assert metrics["node_unfaulted_bytes", (("numa_node", "0"),)] == 3
    low = [metrics["node_head_room_low", (("numa_node", str(node)),)] for node in range(2)]
    assert low == [0, 1]
    assert metrics["remote_memory_containers", ()] == 1
    assert not any(name == "container_resident_bytes" for name, _ in metrics)
    names = {name for name, _ in found(replace(LAST, low_nodes=None))}
    assert "node_head_room_low" not in names


def test_series_of_containers_are_an_option() -> None:
    metrics = found(replace(LAST, per_container=True))
    series = {labels: size for (name, labels), size in metrics.items() if "resident" in name}
    own = (("namespace", "default"), ("pod", "pod1"), ("container", "app"))
    assert series == {
        tuple(sorted((*own, ("numa_node", node), ("kind", kind)))): size
        for node, kind, size in (
            ("0", "anonymous", 5),
            ("1", "anonymous", 6),
            ("1", "hugetlb", 7),
        )
    }


def test_an_ended_container_has_no_series() -> None:
    plugin = Plugin()
    plugin.handle(RunPodSandbox(pod(1)))
    plugin.handle(CreateContainer(pod(1), container(1)))
    plugin.handle(StopContainer(pod(1), container(1)))
    assert plugin.engine is not None
    metrics = samples(residency_metrics(plugin.engine.state, replace(LAST, per_container=True)))
    assert not any(name == "container_resident_bytes" for name, _ in metrics)
