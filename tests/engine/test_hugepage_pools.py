"""Hugepages that the kernel lacks are not assigned, even if they are free in the accounting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.queries.dump import non_pod_hugepages_record, pools_record
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import NonPodHugepages, PoolUse, Reservation
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import NodeSet
from tests.engine.records.examples import example

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
PAGES = "hugepages-2Mi"
RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
POD_SCOPE = Policy(reserved_memory=RESERVED, topology_manager_scope="pod")
STRICT = Policy(reserved_memory=RESERVED, topology_manager_policy="single-numa-node")


def use(*used: int, promised: int = 0) -> PoolUse:
    """Return the figures of four pools of 16 pages; the arguments are pages."""
    pools = {n: {PAGES: Pool(pages * PAGE, (16 - pages) * PAGE)} for n, pages in enumerate(used)}
    return PoolUse(pools, {PAGES: promised * PAGE})


def nodes_for(host: Host, uid: str, pages: int, figures: PoolUse | None) -> str:
    """Create a pod's container and return its nodes."""
    pod = host.run(uid, hugepages={PAGE: pages * PAGE})
    plan = host.create(pod, pool_use=figures)
    assert plan.refusal is None
    assert plan.adjustment is not None
    return plan.adjustment.cpuset_mems


def test_a_node_whose_pages_other_processes_use_is_avoided(host: Host) -> None:
    assert nodes_for(host, "a", 8, use(16, 9, 8, 0)) == "2"
    assert nodes_for(host, "b", 8, use(16, 9, 16, 0)) == "3"
    assert nodes_for(host, "c", 8, None) == "0"
    free = [16, 16, 16, 16]
    for node in (2, 3, 0):
        free[node] -= 8
    assert host.free(PAGES) == [pages * PAGE for pages in free]


def test_pages_that_pods_use_are_counted_once(host: Host) -> None:
    nodes_for(host, "a", 8, None)
    assert nodes_for(host, "b", 8, use(8, 0, 0, 0)) == "0"
    assert nodes_for(host, "c", 16, use(3, 0, 0, 0, promised=13)) == "1"


def test_unfaulted_pages_of_pods_are_not_available(host: Host) -> None:
    """Two pods start one after the other while other processes use half of each pool."""
    before = use(8, 8, 16, 16)
    assert nodes_for(host, "a", 8, before) == "0"
    known = replace(before, by_pods={"a": {0: {PAGES: 0}}})
    assert nodes_for(host, "b", 8, known) == "1"
    known = replace(before, by_pods={"a": {0: {PAGES: 0}}, "b": {1: {PAGES: 0}}})
    pod = host.run("c", hugepages={PAGE: PAGE})
    assert host.create(pod, pool_use=known).refusal is not None
    # Pod a has faulted its pages in, and other processes have released theirs.
    known = replace(before, by_pods={"a": {0: {PAGES: 8 * PAGE}}, "b": {1: {PAGES: 0}}})
    assert nodes_for(host, "d", 8, known) == "0"


def test_a_request_without_hugepages_ignores_the_pools(host: Host) -> None:
    """The figures of a container without hugepages would be None; they would not matter."""
    plan = host.create(host.run("a"), pool_use=use(16, 16, 16, 16))
    assert plan.adjustment is not None
    assert plan.adjustment.cpuset_mems == "0"


def test_a_refusal_names_pages_outside_of_pods(new_host: NewHost) -> None:
    host = new_host(STRICT)
    pod = host.run("a", hugepages={PAGE: 8 * PAGE})
    before = host.engine.state
    plan = host.create(pod, pool_use=use(16, 12, 12, 12))
    assert plan.refusal is not None
    assert len(plan.refusal) < 1024
    assert (
        "NUMA node 0: memory 928Mi free of 928Mi allocatable (1Gi less 64Mi reservedMemory, "
        "32Mi hugepages), hugepages-2Mi 0 free of 32Mi allocatable "
        "(32Mi used outside of pods), hugepages-2Mi 16Mi short"
    ) in plan.refusal
    assert "hugepages-2Mi 8Mi free of 32Mi allocatable (24Mi used outside of pods)" in plan.refusal
    (record,) = plan.records
    free = fields_of(record)["free_bytes"]
    assert isinstance(free, Mapping)
    assert free["0"] == {"memory": 928 * MI, PAGES: 0}
    amounts = (32, 24, 24, 24)
    assert fields_of(record)["used_outside_of_pods_bytes"] == {
        str(node): {PAGES: size * MI} for node, size in enumerate(amounts)
    }
    # The masked state is not committed.
    assert host.engine.state.accounting == before.accounting


def test_a_refusal_names_only_requested_pages_outside_of_pods(new_host: NewHost) -> None:
    host = new_host(STRICT)
    host.create(host.run("a", hugepages={PAGE: 4 * PAGE}), pool_use=use(0, 0, 0, 0))
    pod = host.run("b", hugepages={PAGE: 16 * PAGE})
    # Of the 10 used pages of node 0, 4 may be those of pod a, which shows no use.
    (record,) = host.create(pod, pool_use=use(10, 1, 1, 16)).records
    used = {"0": 6, "1": 1, "2": 1, "3": 16}
    assert fields_of(record)["used_outside_of_pods_bytes"] == {
        node: {PAGES: pages * PAGE} for node, pages in used.items()
    }
    large = host.create(host.run("c"), memory=2000 * MI, pool_use=use(16, 1, 1, 1))
    (record,) = large.records
    assert record.event == "rejected"
    assert "used_outside_of_pods_bytes" not in fields_of(record)


def test_a_container_that_runs_unpinned_changes_nothing(new_host: NewHost) -> None:
    host = new_host(replace(STRICT, when_unsatisfiable="RunUnpinned"))
    plan = host.create(host.run("a", hugepages={PAGE: 8 * PAGE}), pool_use=use(16, 16, 16, 16))
    assert plan.adjustment is None
    assert host.free(PAGES) == [16 * PAGE] * 4
    (record,) = plan.records
    assert record.event == "unpinned_no_capacity"
    used = fields_of(record)["used_outside_of_pods_bytes"]
    assert used == {str(node): {PAGES: 16 * PAGE} for node in range(4)}


def test_shared_pages_still_decide_the_nodes(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 8 * PAGE})
    host.create(pod, "one", pool_use=use(16, 0, 0, 0))
    host.create(pod, "two", pool_use=use(16, 8, 0, 0))
    assert host.placed()["a"] == {"one": "1", "two": "1"}


def test_a_pod_is_placed_where_pages_are_free(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    requests = {"hugepages": {PAGE: 8 * PAGE}, "memory": 300 * MI}
    pod = host.run("a", pool_use=use(16, 12, 0, 0), **requests)  # type: ignore[arg-type]
    assert host.placed() == {"a": {"": "2"}}
    assert host.free(PAGES) == [16 * PAGE, 16 * PAGE, 8 * PAGE, 16 * PAGE]
    # The pod's pool has the pages already, so the container needs no free ones.
    host.create(pod, "one", pool_use=use(16, 12, 8, 0))
    assert host.placed()["a"]["one"] == "2"


def test_a_pod_without_enough_pages_gets_no_pool(new_host: NewHost) -> None:
    host = new_host(replace(POD_SCOPE, topology_manager_policy="restricted"))
    full = use(16, 16, 16, 16)
    pod = host.run("a", hugepages={PAGE: 8 * PAGE}, memory=300 * MI, pool_use=full)
    (record,) = host.ran.records
    assert record.event == "pod_rejected"
    assert "32Mi used outside of pods" in str(fields_of(record)["message"])
    used = fields_of(record)["used_outside_of_pods_bytes"]
    assert used == {str(node): {PAGES: 32 * MI} for node in range(4)}
    assert host.placed() == {}
    assert host.create(pod, pool_use=full).refusal is not None
    assert host.free(PAGES) == [16 * PAGE] * 4
    plan = host.create(pod, pool_use=use(16, 16, 16, 8))
    assert plan.refusal is None
    assert host.placed() == {"a": {"main": "3", "": "3"}}
    assert host.free(PAGES)[3] == 8 * PAGE


# For the log


def test_the_pools_of_accounting_and_kernel(host: Host) -> None:
    nodes_for(host, "a", 8, None)
    figures = PoolUse(
        {0: {PAGES: Pool(10 * PAGE, 6 * PAGE)}, 9: {PAGES: Pool(0, PAGE)}},
        {PAGES: PAGE},
        {"a": {0: {PAGES: 8 * PAGE}, 1: {PAGES: 0}}, "b": {0: {PAGES: PAGE}}},
    )
    assert pools_record(host.engine.state.accounting, figures) == example(
        "hugepage_pools",
        {
            "used_bytes": {"0": {PAGES: 10 * PAGE}, "9": {PAGES: 0}},
            "free_bytes": {"0": {PAGES: 6 * PAGE}, "9": {PAGES: PAGE}},
            "rsvd_bytes": {PAGES: PAGE},
            "assigned_bytes": {"0": {PAGES: 8 * PAGE}, "9": {PAGES: 0}},
            "used_by_pods_bytes": {"0": {PAGES: 9 * PAGE}, "1": {PAGES: 0}},
            "non_pod_bytes": {
                "0": {PAGES: 2 * PAGE},
                **{str(node): {PAGES: 16 * PAGE} for node in (1, 2, 3)},
            },
            "non_pod_rsvd_bytes": {PAGES: PAGE},
        },
    )


def test_non_pod_hugepages_are_found_and_cleared() -> None:
    found = NonPodHugepages({NodeSet([0, 1]): {PAGES: PAGE}})
    assert non_pod_hugepages_record(found) == example(
        "non_pod_hugepages_found", {"non_pod_bytes": {"0-1": {PAGES: PAGE}}}
    )
    assert non_pod_hugepages_record(NonPodHugepages()) == example("non_pod_hugepages_cleared")
