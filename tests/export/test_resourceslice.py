"""The slice of a host: devices, sizes, order, attributes, and the classes that select them."""

from dataclasses import replace
from typing import Any

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import (
    DEVICE_LIMIT,
    NUMA_NODE,
    class_name,
    device_classes,
    device_name,
    device_of,
    generation_of,
    keeps_capacity,
    resource_slice,
    slice_name,
    version_of,
    with_classes,
    with_generation,
)
from nri_numamem.memorymanager import PoolUse, State
from nri_numamem.memorymanager.claims import prepare
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode, Partition
from nri_numamem.numa.memory_nodes import MemoryNodes, WithoutCpus
from tests.export.hosts import GI, MI, PAGE, SINGLE, allocatable, create, new_engine, two_nodes


def slice_of(
    engine: Engine, state: EngineState | None = None, pool_use: PoolUse | None = None
) -> dict[str, Any]:
    return resource_slice(Host("worker", engine.context, state or engine.state, pool_use))


def devices(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the devices by name, in their order."""
    return {device["name"]: device for device in found["spec"]["devices"]}


def sizes(found: dict[str, Any]) -> dict[str, int]:
    return {name: int(each["capacity"]["size"]["value"]) for name, each in devices(found).items()}


def attribute(found: dict[str, Any], device: str, name: str) -> object:
    values = devices(found)[device]["attributes"].get(name, {})
    return next(iter(values.values()), None)


def with_claim(engine: Engine, uid: str, nodes: str, size_bytes: int) -> EngineState:
    found = NodeSet.parse(nodes)
    amounts = {node_id: {"memory": size_bytes // len(found)} for node_id in found}
    accounting = prepare(engine.state.accounting, uid, amounts)
    assert isinstance(accounting, State), accounting
    return engine.state.with_accounting(accounting)


def machine_of(rows: list[list[int]]) -> Machine:
    return Machine(
        tuple(
            NumaNode(n, GI, cpus=CpuSet([n]), distances=dict(enumerate(row)))
            for n, row in enumerate(rows)
        )
    )


def test_a_host_without_pods() -> None:
    found = slice_of(new_engine())
    assert found["apiVersion"] == "resource.k8s.io/v1"
    assert found["kind"] == "ResourceSlice"
    assert found["metadata"]["name"] == "worker-numamem.io"
    spec = found["spec"]
    assert (spec["driver"], spec["nodeName"]) == ("numamem.io", "worker")
    assert spec["pool"] == {"name": "worker", "generation": 1, "resourceSliceCount": 1}
    pages = 16 * PAGE
    assert sizes(found) == {
        "memory-0": allocatable(),
        "memory-1": allocatable(),
        "hugepages-2mi-0": pages,
        "hugepages-2mi-1": pages,
    }
    assert devices(found)["hugepages-2mi-1"] == {
        "name": "hugepages-2mi-1",
        "allowMultipleAllocations": True,
        "attributes": {
            "resource": {"string": "hugepages-2Mi"},
            NUMA_NODE: {"int": 1},
            "tier": {"string": "dram"},
            "empty": {"bool": True},
            "socket": {"int": 0},
        },
        "capacity": {
            "size": {
                "value": str(pages),
                "requestPolicy": {
                    "default": str(PAGE),
                    "validRange": {"min": str(PAGE), "step": str(PAGE)},
                },
            }
        },
    }


def test_pods_without_claims_are_subtracted_and_the_fullest_node_comes_first() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, pages=2, node=1)
    found = slice_of(engine)
    assert list(sizes(found).items()) == [
        ("memory-1", allocatable() - 100 * MI),
        ("memory-0", allocatable()),
        ("hugepages-2mi-1", 14 * PAGE),
        ("hugepages-2mi-0", 16 * PAGE),
    ]
    assert attribute(found, "memory-0", "empty") is True
    assert attribute(found, "memory-1", "empty") is attribute(found, "hugepages-2mi-1", "empty")
    assert attribute(found, "memory-1", "empty") is False


def test_claims_are_not_subtracted() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=1)
    found = slice_of(engine, with_claim(engine, "claim", "1", 200 * MI))
    assert sizes(found)["memory-1"] == allocatable() - 100 * MI
    assert next(iter(sizes(found))) == "memory-1"
    claimed = slice_of(engine, with_claim(engine, "claim", "0", 200 * MI))
    assert list(sizes(claimed))[:2] == ["memory-0", "memory-1"]
    assert sizes(claimed)["memory-0"] == allocatable()
    assert attribute(claimed, "memory-0", "empty") is False


def test_nodes_of_a_group_are_left_out() -> None:
    engine = new_engine()
    assert sizes(slice_of(engine, with_claim(engine, "claim", "0-1", allocatable() + MI))) == {}
    engine = new_engine(replace(SINGLE, topology_manager_policy="best-effort"))
    create(engine, "a", allocatable() + MI)
    assert sizes(slice_of(engine)) == {}


@pytest.mark.parametrize(("left", "is_shown"), [(0, False), (8191, False), (8192, True)])
def test_a_full_node_is_left_out(left: int, *, is_shown: bool) -> None:
    """The API server refuses a size below 8192 bytes with these steps."""
    engine = new_engine()
    create(engine, "a", allocatable() - left, node=0)
    assert ("memory-0" in sizes(slice_of(engine))) is is_shown


def test_a_claim_fills_its_node() -> None:
    engine = new_engine()
    found = slice_of(engine, with_claim(engine, "claim", "0", allocatable()))
    assert sizes(found)["memory-0"] == allocatable()


def test_hugepages_that_others_use_are_not_offered() -> None:
    engine = new_engine()
    pools = {
        n: {"hugepages-2Mi": Pool(6 * PAGE * (1 - n), (16 - 6 * (1 - n)) * PAGE)} for n in (0, 1)
    }
    found = slice_of(engine, pool_use=PoolUse(pools, {}))
    assert (sizes(found)["hugepages-2mi-0"], sizes(found)["hugepages-2mi-1"]) == (
        10 * PAGE,
        16 * PAGE,
    )


def test_what_a_pod_that_has_begun_still_needs_is_not_offered() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0, limit=allocatable())
    most = allocatable()  # of both nodes, less the limit
    assert sizes(slice_of(engine))["memory-1"] == most
    create(engine, "b", 100 * MI, node=1, limit=allocatable() - MI)
    assert "memory-0" in sizes(slice_of(engine))
    assert sizes(slice_of(engine))["memory-0"] == MI


def test_nodes_without_cpus() -> None:
    engine = new_engine(SINGLE, two_nodes(cpus=CpuSet()))
    assert list(sizes(slice_of(engine))) == ["memory-0", "hugepages-2mi-0"]
    last = replace(SINGLE, memory_nodes=MemoryNodes(WithoutCpus.LAST_RESORT))
    engine = new_engine(last, two_nodes(cpus=CpuSet(), memory_bytes=GI // 2))
    found = slice_of(engine)
    assert list(sizes(found))[:2] == ["memory-0", "memory-1"]
    assert attribute(found, "memory-1", "tier") == "cpuless"


def test_a_node_without_normal_memory_is_left_out() -> None:
    engine = new_engine(SINGLE, two_nodes(is_movable_only=True))
    assert list(sizes(slice_of(engine))) == ["memory-0", "hugepages-2mi-0"]


FOUR = [[10, 12, 20, 20], [12, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
RING = [[10, 12, 20, 12], [12, 10, 12, 20], [20, 12, 10, 12], [12, 20, 12, 10]]


@pytest.mark.parametrize(
    ("rows", "sockets"),
    [
        (FOUR, [0, 0, 1, 1]),
        (RING, [None] * 4),
        ([[10, 20], [20, 10]], [0, 0]),
        ([[10]], [0]),
        # Node 0 is nearest to node 2, but not the other way round.
        ([[10, 20, 12], [20, 10, 11], [12, 11, 10]], [None] * 3),
    ],
)
def test_sockets(rows: list[list[int]], sockets: list[int | None]) -> None:
    found = slice_of(new_engine(Policy(), machine_of(rows)))
    shown = [attribute(found, f"memory-{n}", "socket") for n in range(len(rows))]
    assert shown == sockets


def test_partitions() -> None:
    policy = replace(SINGLE, partitions=(Partition("web", NodeSet([1]), namespaces=("web",)),))
    found = slice_of(new_engine(policy))
    shown = {name: attribute(found, name, "partition") for name in sizes(found)}
    assert shown["memory-0"] == shown["hugepages-2mi-0"] == "default"
    assert shown["memory-1"] == "web"


def test_at_most_as_many_devices_as_the_api_server_takes() -> None:
    count = 70
    machine = Machine(tuple(NumaNode(n, GI, {PAGE: 16}, CpuSet([n])) for n in range(count)))
    found = sizes(slice_of(new_engine(Policy(), machine)))
    assert len(found) == DEVICE_LIMIT
    assert sum(name.startswith("memory-") for name in found) == count


def test_classes() -> None:
    found: list[dict[str, Any]] = device_classes(["memory", "hugepages-1Gi"])
    expressions = {
        each["metadata"]["name"]: each["spec"]["selectors"][0]["cel"]["expression"]
        for each in found
    }
    memory = 'device.driver == "numamem.io" && device.attributes["numamem.io"].resource == "memory"'
    pages = memory.replace('"memory"', '"hugepages-1Gi"')
    empty = ' && device.attributes["numamem.io"].empty'
    assert expressions == {
        "dra.memory": memory,
        "dra.memory-multi-numa": memory + empty,
        "dra.hugepages-1g": pages,
        "dra.hugepages-1g-multi-numa": pages + empty,
    }
    assert all(each["kind"] == "DeviceClass" for each in found)
    assert class_name("hugepages-2Mi") == "dra.hugepages-2m"


def test_slice_and_classes_of_a_host() -> None:
    engine = new_engine()
    host = Host("worker", engine.context, engine.state)
    found = with_classes(host)
    classes = device_classes(["memory", "hugepages-2Mi"])
    assert found == {"apiVersion": "v1", "kind": "List", "items": [*classes, resource_slice(host)]}


@pytest.mark.parametrize("resource", ["memory", "hugepages-2Mi", "hugepages-1Gi", "hugepages-64Ki"])
def test_the_name_of_a_device_has_its_node_and_resource(resource: str) -> None:
    assert device_of(device_name(12, resource)) == (12, resource)


@pytest.mark.parametrize(
    "name",
    ["", "memory", "memory-", "memory-x", "memory-01", "memory-1234567", "memory-\u0661", "cpu-1",
     "memory-1-memory", "hugepages-1", "hugepages-2Mi-0", "hugepages-2048ki-0", "hugepages-3mi-0"],
)  # fmt: skip
def test_other_names_are_no_devices(name: str) -> None:
    with pytest.raises(ValueError, match="is not a device such as memory-1 or hugepages-2mi-0"):
        device_of(name)


@pytest.mark.parametrize("devices", [[7], [{}], [{"allowMultipleAllocations": False}], [{}, 1]])
def test_a_server_that_drops_capacity(devices: list[object]) -> None:
    assert not keeps_capacity({"spec": {"devices": devices}})


def test_a_slice_of_the_server() -> None:
    whole = {
        "metadata": {"resourceVersion": "17"},
        "spec": {"pool": {"generation": 3}, "devices": [{"allowMultipleAllocations": True}]},
    }
    assert (version_of(whole), generation_of(whole), keeps_capacity(whole)) == ("17", 3, True)
    for other in ({}, {"metadata": 1, "spec": []}, {"metadata": {"resourceVersion": 1}}):
        assert (version_of(other), generation_of(other)) == ("", 0)
        assert keeps_capacity(other)


def test_another_generation_changes_nothing_else() -> None:
    before = slice_of(new_engine())
    after = with_generation(before, 8)
    assert after["spec"]["pool"]["generation"] == 8
    after["spec"]["pool"]["generation"] = 1
    assert after == before
    assert slice_name("worker") == before["metadata"]["name"]


def test_with_a_share_for_claims_a_device_has_no_more() -> None:
    engine = new_engine(replace(SINGLE, claims_share_percent=25))
    quarter = allocatable() // 4 // 4096 * 4096
    expected = {"memory-0": quarter, "memory-1": quarter}
    expected |= {"hugepages-2mi-0": 4 * PAGE, "hugepages-2mi-1": 4 * PAGE}
    assert sizes(slice_of(engine)) == expected
    assert sizes(slice_of(engine, with_claim(engine, "a", "1", 5 * MI))) == expected


def test_a_node_without_cpus_does_not_hide_the_sockets_of_others() -> None:
    rows = [[10, 12, 20, 20, 30], [12, 10, 20, 20, 30], [20, 20, 10, 12, 30], [20, 20, 12, 10, 30]]
    machine = machine_of([*rows, [30, 30, 30, 30, 10]])
    *with_cpus, last = machine.nodes
    machine = Machine((*with_cpus, replace(last, cpus=CpuSet())))
    found = slice_of(new_engine(machine=machine))
    assert [attribute(found, f"memory-{n}", "socket") for n in range(4)] == [0, 0, 1, 1]
    used = replace(SINGLE, memory_nodes=MemoryNodes(WithoutCpus.LAST_RESORT))
    found = slice_of(new_engine(used, machine))
    assert [attribute(found, f"memory-{n}", "socket") for n in range(5)] == [0, 0, 1, 1, None]
