"""Hugepages that the kernel does not have are not given, whatever the books say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from nri_numamem.engine.books import outside_record, pools_record
from nri_numamem.engine.plan import Record
from nri_numamem.engine.settings import MemoryReservation, Settings
from nri_numamem.memorymanager import NodeSet, Outside, Pool, PoolUse

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20
PAGE = 2 * MI
PAGES = "hugepages-2Mi"
RESERVED = tuple(MemoryReservation(node, {"memory": 64 * MI}) for node in range(4))
POD_SCOPE = Settings(reserved_memory=RESERVED, topology_manager_scope="pod")
STRICT = Settings(reserved_memory=RESERVED, topology_manager_policy="single-numa-node")


def use(*used: int, promised: int = 0) -> PoolUse:
    """Return the figures of four pools of 16 pages, given in pages."""
    pools = {n: {PAGES: Pool(pages * PAGE, (16 - pages) * PAGE)} for n, pages in enumerate(used)}
    return PoolUse(pools, {PAGES: promised * PAGE})


def given(host: Host, uid: str, pages: int, figures: PoolUse | None) -> str:
    """Create a pod's container and return its nodes."""
    pod = host.run(uid, hugepages={PAGE: pages * PAGE})
    plan = host.create(pod, pool_use=figures)
    assert plan.refusal is None
    assert plan.adjustment is not None
    return plan.adjustment.cpuset_mems


def test_a_node_whose_pages_others_took_is_passed_over(host: Host) -> None:
    assert given(host, "a", 8, use(16, 9, 8, 0)) == "2"
    assert given(host, "b", 8, use(16, 9, 16, 0)) == "3"
    assert given(host, "c", 8, None) == "0"
    free = [16, 16, 16, 16]
    for node in (2, 3, 0):
        free[node] -= 8
    assert host.free(PAGES) == [pages * PAGE for pages in free]


def test_the_pages_that_pods_use_themselves_do_not_count_twice(host: Host) -> None:
    given(host, "a", 8, None)
    assert given(host, "b", 8, use(8, 0, 0, 0)) == "0"
    assert given(host, "c", 16, use(3, 0, 0, 0, promised=13)) == "1"


def test_pods_that_have_not_touched_their_pages_leave_room_for_no_others(host: Host) -> None:
    """Two pods start one after the other where half of each pool is taken."""
    before = use(8, 8, 16, 16)
    assert given(host, "a", 8, before) == "0"
    known = replace(before, by_pods={"a": {0: {PAGES: 0}}})
    assert given(host, "b", 8, known) == "1"
    known = replace(before, by_pods={"a": {0: {PAGES: 0}}, "b": {1: {PAGES: 0}}})
    pod = host.run("c", hugepages={PAGE: PAGE})
    assert host.create(pod, pool_use=known).refusal is not None
    # The first uses its pages, and others have given back theirs.
    known = replace(before, by_pods={"a": {0: {PAGES: 8 * PAGE}}, "b": {1: {PAGES: 0}}})
    assert given(host, "d", 8, known) == "0"


def test_memory_alone_asks_nobody(host: Host) -> None:
    """The figures of a container without hugepages would be None; they would not matter."""
    plan = host.create(host.run("a"), pool_use=use(16, 16, 16, 16))
    assert plan.adjustment is not None
    assert plan.adjustment.cpuset_mems == "0"


def test_a_refusal_says_who_has_the_pages(new_host: NewHost) -> None:
    host = new_host(STRICT)
    pod = host.run("a", hugepages={PAGE: 8 * PAGE})
    before = host.engine.state
    plan = host.create(pod, pool_use=use(16, 12, 12, 12))
    assert plan.refusal is not None
    assert len(plan.refusal) < 1024
    assert (
        "NUMA node 0: memory 928Mi free of 928Mi, hugepages-2Mi 0 free of 32Mi "
        "(32Mi taken outside of pods), unused"
    ) in plan.refusal
    assert "hugepages-2Mi 8Mi free of 32Mi (24Mi taken outside of pods)" in plan.refusal
    (record,) = plan.records
    free = record.fields["free"]
    assert isinstance(free, Mapping)
    assert free["0"] == {"memory": 928 * MI, PAGES: 0}
    # What was looked at is not what is.
    assert host.engine.state.books == before.books


def test_who_runs_unpinned_instead_changes_nothing(new_host: NewHost) -> None:
    host = new_host(replace(STRICT, when_unsatisfiable="RunUnpinned"))
    plan = host.create(host.run("a", hugepages={PAGE: 8 * PAGE}), pool_use=use(16, 16, 16, 16))
    assert plan.adjustment is None
    assert host.free(PAGES) == [16 * PAGE] * 4


def test_the_nodes_of_shared_pages_are_near_as_before(host: Host) -> None:
    pod = host.run("a", hugepages={PAGE: 8 * PAGE})
    host.create(pod, "one", pool_use=use(16, 0, 0, 0))
    host.create(pod, "two", pool_use=use(16, 8, 0, 0))
    assert host.placed()["a"] == {"one": "1", "two": "1"}


def test_a_pod_as_a_whole_goes_where_the_pages_are(new_host: NewHost) -> None:
    host = new_host(POD_SCOPE)
    asked = {"hugepages": {PAGE: 8 * PAGE}, "memory": 300 * MI}
    pod = host.run("a", pool_use=use(16, 12, 0, 0), **asked)  # type: ignore[arg-type]
    assert host.placed() == {"a": {"": "2"}}
    assert host.free(PAGES) == [16 * PAGE, 16 * PAGE, 8 * PAGE, 16 * PAGE]
    # The pool holds them, so the container need not find others.
    host.create(pod, "one", pool_use=use(16, 12, 8, 0))
    assert host.placed()["a"]["one"] == "2"


def test_a_pod_for_which_there_are_no_pages_gets_no_pool(new_host: NewHost) -> None:
    host = new_host(replace(POD_SCOPE, topology_manager_policy="restricted"))
    full = use(16, 16, 16, 16)
    pod = host.run("a", hugepages={PAGE: 8 * PAGE}, memory=300 * MI, pool_use=full)
    (record,) = host.ran.records
    assert record.event == "pod rejected"
    assert "32Mi taken outside of pods" in str(record.fields["message"])
    assert host.placed() == {}
    assert host.create(pod, pool_use=full).refusal is not None
    assert host.free(PAGES) == [16 * PAGE] * 4
    plan = host.create(pod, pool_use=use(16, 16, 16, 8))
    assert plan.refusal is None
    assert host.placed() == {"a": {"main": "3", "": "3"}}
    assert host.free(PAGES)[3] == 8 * PAGE


# For the log


def test_books_and_kernel_side_by_side(host: Host) -> None:
    given(host, "a", 8, None)
    figures = PoolUse(
        {0: {PAGES: Pool(10 * PAGE, 6 * PAGE)}, 9: {PAGES: Pool(0, PAGE)}},
        {PAGES: PAGE},
        {"a": {0: {PAGES: 8 * PAGE}, 1: {PAGES: 0}}, "b": {0: {PAGES: PAGE}}},
    )
    assert pools_record(host.engine.state.books, figures) == Record(
        "hugepage pools",
        fields={
            "in_use": {"0": {PAGES: 10 * PAGE}, "9": {PAGES: 0}},
            "free": {"0": {PAGES: 6 * PAGE}, "9": {PAGES: PAGE}},
            "promised": {PAGES: PAGE},
            "held_by_pods": {"0": {PAGES: 8 * PAGE}, "9": {PAGES: 0}},
            "used_by_pods": {"0": {PAGES: 9 * PAGE}, "1": {PAGES: 0}},
            "taken_outside": {
                "0": {PAGES: 2 * PAGE},
                **{str(node): {PAGES: 16 * PAGE} for node in (1, 2, 3)},
            },
            "promised_outside": {PAGES: PAGE},
        },
    )


def test_a_difference_that_comes_and_goes() -> None:
    found = Outside({NodeSet([0, 1]): {PAGES: PAGE}})
    assert outside_record(found) == Record(
        "hugepages taken outside of pods", fields={"taken_outside": {"0-1": {PAGES: PAGE}}}
    )
    assert outside_record(Outside()) == Record("hugepages no longer taken outside of pods")
