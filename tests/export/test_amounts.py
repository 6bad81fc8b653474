"""Quantities as the API server shows them."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.core.events import Container, StopContainer
from nri_numamem.engine.core.policy import Policy
from nri_numamem.export.amounts import (
    Amounts,
    CpuUse,
    cpu_amounts,
    device_amounts,
    memory_amounts,
    resource_of_cpus,
    resource_of_units,
    running_containers,
)
from nri_numamem.kubelet.host_resources import Devices, KubeletResources
from nri_numamem.memorymanager import PoolUse, State
from nri_numamem.memorymanager.claims import Claim, prepare
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet, Machine, NodeSet
from tests.export.hosts import (
    GI,
    MI,
    PAGE,
    SINGLE,
    allocatable,
    create,
    new_engine,
    pod_of,
    two_nodes,
)


def test_bytes() -> None:
    assert resource_of_units("memory", Amounts(1 << 34, 1 << 33, 0)) == {
        "name": "memory",
        "capacity": "17179869184",
        "allocatable": "8589934592",
        "available": "0",
    }


@pytest.mark.parametrize(
    ("millicores", "text"), [(0, "0"), (1, "1m"), (1000, "1"), (1500, "1500m"), (64000, "64")]
)
def test_cpus(millicores: int, text: str) -> None:
    resource = resource_of_cpus(Amounts(64000, 62000, millicores))
    assert resource == {
        "name": "cpu",
        "capacity": "64",
        "allocatable": "62",
        "available": text,
    }


BEST_EFFORT = replace(SINGLE, topology_manager_policy="best-effort")


def test_an_unused_machine() -> None:
    engine = new_engine()
    memory = Amounts(GI, allocatable(), allocatable())
    pages = Amounts(16 * PAGE, 16 * PAGE, 16 * PAGE)
    assert memory_amounts(engine.context, engine.state, None) == {
        0: {"memory": memory, "hugepages-2Mi": pages},
        1: {"memory": memory, "hugepages-2Mi": pages},
    }


def test_assigned_amounts_are_not_available() -> None:
    engine = new_engine()
    create(engine, "a", 300 * MI, pages=3, node=1)
    found = memory_amounts(engine.context, engine.state, None)
    assert found[0]["memory"].available == allocatable()
    assert found[1]["memory"] == Amounts(GI, allocatable(), allocatable() - 300 * MI)
    assert found[1]["hugepages-2Mi"].available == 13 * PAGE


def test_ended_containers_keep_their_memory_for_their_pod() -> None:
    engine = new_engine()
    create(engine, "a", 300 * MI, node=0)
    pod = pod_of("a", 300 * MI)
    engine.apply(StopContainer(pod, Container("c-a", pod.sandbox_id, "main", 300 * MI)))
    found = memory_amounts(engine.context, engine.state, None)
    assert found[0]["memory"].available == allocatable() - 300 * MI


@pytest.mark.parametrize(("policy", "expected"), [(SINGLE, 0), (BEST_EFFORT, None)])
def test_a_group_has_no_room_for_a_single_node(policy: object, expected: int | None) -> None:
    engine = new_engine(BEST_EFFORT)
    create(engine, "a", 1200 * MI)
    context = new_engine(policy).context  # type: ignore[arg-type]
    found = memory_amounts(context, engine.state, None)
    available = [node["memory"].available for node in found.values()]
    if expected is None:
        assert sum(available) == 2 * allocatable() - 1200 * MI
    else:
        assert available == [expected, expected]


def test_a_node_without_normal_memory_holds_no_container_alone() -> None:
    machine = two_nodes(is_movable_only=True)
    engine = new_engine(machine=machine)
    found = memory_amounts(engine.context, engine.state, None)
    assert [node["memory"].available for node in found.values()] == [allocatable(), 0]


def test_begun_pods_keep_the_rest_of_their_limit() -> None:
    """The sum counts: it is not known on which node the other containers will be."""
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0, limit=1200 * MI)
    rest = 2 * allocatable() - 1200 * MI
    found = memory_amounts(engine.context, engine.state, None)
    assert [node["memory"].available for node in found.values()] == [rest, rest]
    assert rest < allocatable() - 100 * MI
    for changes in ({"topology_manager_scope": "pod"}, {"when_unsatisfiable": "RunUnpinned"}):
        context = new_engine(replace(SINGLE, **changes)).context  # type: ignore[arg-type]
        found = memory_amounts(context, engine.state, None)
        available = [node["memory"].available for node in found.values()]
        assert available == [allocatable() - 100 * MI, allocatable()]


def test_begun_pods_can_need_more_than_there_is() -> None:
    engine = new_engine()
    create(engine, "a", 900 * MI, node=0, limit=900 * MI)
    create(engine, "b", 100 * MI, node=1, limit=950 * MI)
    resized = replace(next(iter(engine.state.pods.values())), memory_limit_bytes=1200 * MI)
    state = replace(engine.state, pods={**engine.state.pods, resized.sandbox_id: resized})
    found = memory_amounts(engine.context, state, None)
    assert [node["memory"].available for node in found.values()] == [0, 0]


def test_hugepages_that_others_use_are_not_available() -> None:
    engine = new_engine()
    pools = {
        0: {"hugepages-2Mi": Pool(used=6 * PAGE, free=10 * PAGE)},
        1: {"hugepages-2Mi": Pool(used=0, free=16 * PAGE)},
    }
    found = memory_amounts(engine.context, engine.state, PoolUse(pools, {}))
    assert [node["hugepages-2Mi"].available for node in found.values()] == [10 * PAGE, 16 * PAGE]


def test_page_sizes_without_pages_are_left_out() -> None:
    nodes = two_nodes().nodes
    sized = (
        replace(nodes[0], hugepages={PAGE: 0, GI: 0}),
        replace(nodes[1], hugepages={PAGE: 4, GI: 0}),
    )
    engine = new_engine(machine=Machine(sized))
    found = memory_amounts(engine.context, engine.state, None)
    assert [list(node) for node in found.values()] == [["memory", "hugepages-2Mi"]] * 2
    assert found[0]["hugepages-2Mi"] == Amounts(0, 0, 0)


NIC, GPU = "vendor.com/nic", "vendor.com/gpu"


def devices(resource: str, ids: str, *nodes: int) -> Devices:
    return Devices(resource, frozenset(ids.split()), NodeSet(nodes))


def test_devices_count_on_their_node() -> None:
    present = (
        devices(NIC, "n0", 0), devices(NIC, "n1 n2", 0), devices(NIC, "n3", 1),
        devices(GPU, "g0", 1),
    )  # fmt: skip
    used = frozenset({(NIC, "n1"), (NIC, "n3"), (GPU, "n0")})
    found = device_amounts(KubeletResources(present, used))
    assert found == {
        0: {NIC: Amounts(3, 3, 2)},
        1: {GPU: Amounts(1, 1, 1), NIC: Amounts(1, 1, 0)},
    }
    assert [list(of_node) for of_node in found.values()] == [[NIC], [GPU, NIC]]


def test_a_device_near_two_nodes_counts_on_both() -> None:
    resources = KubeletResources((devices(NIC, "a b", 0, 1),), frozenset({(NIC, "a")}))
    assert device_amounts(resources) == {n: {NIC: Amounts(2, 2, 1)} for n in (0, 1)}


def test_a_device_that_is_listed_twice_counts_once() -> None:
    resources = KubeletResources((devices(NIC, "a", 0), devices(NIC, "a", 0)))
    assert device_amounts(resources) == {0: {NIC: Amounts(1, 1, 1)}}


def test_devices_without_nodes_and_used_devices_that_are_gone_do_not_count() -> None:
    resources = KubeletResources((devices(NIC, "a"), devices(NIC, "", 1)), frozenset({(NIC, "b")}))
    assert device_amounts(resources) == {}


BEST_EFFORT = replace(SINGLE, topology_manager_policy="best-effort")


def test_reserved_cpus_are_not_allocatable() -> None:
    engine = new_engine()
    use = CpuUse(reserved=CpuSet.parse("0,5-7"))
    assert cpu_amounts(two_nodes().nodes, engine.state, use) == {
        0: Amounts(4000, 3000, 3000),
        1: Amounts(4000, 1000, 1000),
    }


def test_requests_count_where_the_memory_is() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0)
    create(engine, "b", 100 * MI, node=1)
    use = CpuUse({"c-a": 1500, "c-b": 250, "c-unknown": 900})
    found = cpu_amounts(two_nodes().nodes, engine.state, use)
    assert [amounts.available for amounts in found.values()] == [2500, 3750]


def test_an_unknown_request_counts_for_none() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0)
    found = cpu_amounts(two_nodes().nodes, engine.state, CpuUse())
    assert [amounts.available for amounts in found.values()] == [4000, 4000]


def test_a_group_shares_a_request_by_its_cpus() -> None:
    engine = new_engine(BEST_EFFORT)
    create(engine, "a", 1200 * MI)
    use = CpuUse({"c-a": 2001}, reserved=CpuSet([0, 1]))
    found = cpu_amounts(two_nodes().nodes, engine.state, use)
    assert [amounts.available for amounts in found.values()] == [2000 - 667, 4000 - 1334]


def test_more_requests_than_cpus() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0)
    found = cpu_amounts(two_nodes().nodes, engine.state, CpuUse({"c-a": 9000}))
    assert [amounts.available for amounts in found.values()] == [0, 4000]


def test_a_container_on_nodes_without_a_zone() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=1)
    found = cpu_amounts(two_nodes().nodes[:1], engine.state, CpuUse({"c-a": 1000}))
    assert found == {0: Amounts(4000, 4000, 4000)}


def test_with_a_static_cpu_manager_only_exclusive_cpus_count() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=0)
    use = CpuUse({"c-a": 1000}, CpuSet([4]), exclusive=CpuSet([2, 3, 4]))
    found = cpu_amounts(two_nodes().nodes, engine.state, use)
    assert [amounts.available for amounts in found.values()] == [2000, 3000]


def test_ended_containers_do_not_run() -> None:
    engine = new_engine()
    create(engine, "a", 100 * MI, node=1)
    assert running_containers(engine.state) == {"c-a": NodeSet([1])}
    pod = pod_of("a", 100 * MI)
    engine.apply(StopContainer(pod, Container("c-a", pod.sandbox_id, "main", 100 * MI)))
    assert running_containers(engine.state) == {}


@pytest.mark.parametrize("policy", [SINGLE, BEST_EFFORT])
def test_the_share_of_claims_is_not_available_to_pods_without_claims(policy: Policy) -> None:
    engine = new_engine(replace(policy, claims_share_percent=25))
    share = allocatable() // 4 // 4096 * 4096
    claim = prepare(engine.state.accounting, "claim", {1: {"memory": share - MI}})
    assert isinstance(claim, State)
    charged = {"claim": ChargedClaim(Claim("claim", "ns", "claim", {}))}
    state = replace(engine.state, accounting=claim, claims=charged)
    found = memory_amounts(engine.context, state, None)
    assert {node: each["memory"].available for node, each in found.items()} == {
        0: allocatable() - share,
        1: allocatable() - share,
    }
    assert found[0]["hugepages-2Mi"].available == 12 * PAGE
