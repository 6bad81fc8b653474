"""CPUs of each node."""

from dataclasses import replace

from nri_numamem.engine.core.events import Container, StopContainer
from nri_numamem.export.amounts import Amounts
from nri_numamem.export.cpus import CpuUse, cpu_amounts, running_containers
from nri_numamem.numa import CpuSet, NodeSet
from tests.export.hosts import MI, SINGLE, create, new_engine, pod_of, two_nodes

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
