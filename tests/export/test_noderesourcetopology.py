"""The whole object, with golden documents."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.export.amounts import CpuUse
from nri_numamem.export.noderesourcetopology import (
    Host,
    noderesourcetopology,
    nodes_without_zone,
    zone_nodes,
)
from nri_numamem.kubelet.host_resources import Devices, KubeletResources
from nri_numamem.numa import (
    CpuSet,
    Exclusive,
    Machine,
    MemoryNodes,
    NodeSet,
    NumaNode,
    Partition,
    WithoutCpus,
)
from tests.export.hosts import GI, MI, SINGLE, create, new_engine

GOLDEN = Path(__file__).parent / "golden"


def attributes(document: dict[str, object]) -> dict[str, str]:
    found = document["attributes"]
    assert isinstance(found, list)
    return {entry["name"]: entry["value"] for entry in found}


def names(document: dict[str, object]) -> list[str]:
    zones = document["zones"]
    assert isinstance(zones, list)
    return [zone["name"] for zone in zones]


def unused() -> Host:
    engine = new_engine()
    return Host("worker-1", engine.context, engine.state)


def used() -> Host:
    engine = new_engine(replace(SINGLE, topology_manager_scope="pod"))
    create(engine, "a", 300 * MI, pages=2, node=0)
    create(engine, "b", 500 * MI, node=1)
    use = CpuUse({"c-a": 1500, "c-b": 2000}, CpuSet([0]))
    pods = frozenset({("ns", "pod-a"), ("ns", "pod-b"), ("kube-system", "proxy-x")})
    return Host("worker-2", engine.context, engine.state, None, use, pods)


@pytest.mark.parametrize("host", [unused, used])
def test_golden_documents(host: object) -> None:
    found = noderesourcetopology(host())  # type: ignore[operator]
    file = GOLDEN / f"{host.__name__}.json"  # type: ignore[attr-defined]
    assert f"{json.dumps(found, indent=1)}\n" == file.read_text()


def test_without_all_names_there_is_no_fingerprint() -> None:
    document = noderesourcetopology(unused())
    labels = {"app.kubernetes.io/managed-by": "nri-numamem"}
    assert document["metadata"] == {"name": "worker-1", "labels": labels}
    assert attributes(document) == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "topologyManagerMaxNUMANodes": "8",
    }


def test_no_pods_have_a_fingerprint_too() -> None:
    document = noderesourcetopology(replace(unused(), pods=frozenset()))
    assert attributes(document)["nodeTopologyPodsFingerprint"] == "pfp0v001ef46db3751d8e999"
    assert attributes(document)["nodeTopologyPodsFingerprintMethod"] == "all"


def test_nodes_without_cpus_have_no_zone() -> None:
    nodes = (
        NumaNode(0, GI, {}, CpuSet([0])),
        NumaNode(1, GI, {}, CpuSet([1])),
        NumaNode(2, GI),
        NumaNode(3, 0),
    )
    policy = replace(SINGLE, memory_nodes=MemoryNodes(WithoutCpus.LAST_RESORT))
    for each, without in ((SINGLE, NodeSet()), (policy, NodeSet([2]))):
        engine = new_engine(each, Machine(nodes))
        assert [node.node_id for node in zone_nodes(engine.context)] == [0, 1]
        assert nodes_without_zone(engine.context) == without
        document = noderesourcetopology(Host("w", engine.context, engine.state))
        assert names(document) == ["node-0", "node-1"]


def test_nodes_that_the_scheduler_cannot_count() -> None:
    machine = Machine(tuple(NumaNode(n, GI, {}, CpuSet([n])) for n in (0, 1, 63, 64, 70)))
    engine = new_engine(SINGLE, machine)
    document = noderesourcetopology(Host("w", engine.context, engine.state))
    assert names(document) == ["node-0", "node-1", "node-63"]
    assert nodes_without_zone(engine.context) == NodeSet([64, 70])


def test_more_zones_than_the_kubelet_expects() -> None:
    machine = Machine(tuple(NumaNode(n, GI, {}, CpuSet([n])) for n in range(12)))
    engine = new_engine(SINGLE, machine)
    document = noderesourcetopology(Host("w", engine.context, engine.state))
    assert attributes(document)["topologyManagerMaxNUMANodes"] == "12"


def test_devices_of_the_kubelet_are_in_the_zones() -> None:
    nic = Devices("vendor.com/nic", frozenset({"a", "b"}), NodeSet([1]))
    excluded = Devices("vendor.com/nic", frozenset({"c"}), NodeSet([5]))
    kubelet = KubeletResources((nic, excluded), frozenset({("vendor.com/nic", "a")}))
    document = noderesourcetopology(replace(used(), kubelet=kubelet))
    zones = document["zones"]
    assert isinstance(zones, list)
    assert [[entry["name"] for entry in zone["resources"]] for zone in zones] == [
        ["cpu", "memory", "hugepages-2Mi"],
        ["cpu", "memory", "hugepages-2Mi", "vendor.com/nic"],
    ]
    assert zones[1]["resources"][-1] == {
        "name": "vendor.com/nic",
        "capacity": "2",
        "allocatable": "2",
        "available": "1",
    }


def test_zones_name_the_partition_of_their_node() -> None:
    zones = noderesourcetopology(unused())["zones"]
    assert isinstance(zones, list)
    assert not any("attributes" in zone for zone in zones)
    machine = Machine(tuple(NumaNode(n, GI, {}, CpuSet([n])) for n in range(4)))
    web = Partition("web", NodeSet([1]), namespaces=("web",), exclusive=Exclusive.ALL)
    jobs = Partition("jobs", NodeSet([2]), namespaces=("jobs",))
    far = Partition("far", NodeSet([3, 7]), namespaces=("far",))
    engine = new_engine(replace(SINGLE, partitions=(web, jobs, far)), machine)
    zones = noderesourcetopology(Host("w", engine.context, engine.state))["zones"]
    assert isinstance(zones, list)
    assert [zone["attributes"] for zone in zones] == [
        [{"name": "partition", "value": name}] for name in ("default", "web", "jobs", "default")
    ]
