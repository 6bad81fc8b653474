"""Partitions on machines: which nodes each kind of pods has."""

from dataclasses import replace
from itertools import product

import pytest

from nri_numamem.numa import (
    Distances,
    Exclusive,
    Layout,
    NodeSet,
    Partition,
    PartitionNodes,
    Preferences,
    lay_out,
)
from nri_numamem.numa.partitions import label_keys_of

CLOSE = [[10, 12, 20, 20], [12, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
CROSSED = [[10, 20, 20, 12], [20, 10, 12, 20], [20, 12, 10, 20], [12, 20, 20, 10]]
ALL = NodeSet(range(4))


def nodes(text: str) -> NodeSet:
    return NodeSet.parse(text)


def preferences(count: int = 4, *, is_crossed: bool = False) -> Preferences:
    """Prefer close nodes: 0-1 and 2-3 are close, or 0 and 3, and 1 and 2."""
    rows = CROSSED if is_crossed else CLOSE
    return Preferences(Distances.of_rows([row[:count] for row in rows[:count]]))


def laid_out(
    *partitions: Partition, usable: NodeSet = ALL, memory_nodes: NodeSet | None = None
) -> Layout:
    return lay_out(partitions, usable, memory_nodes or usable, preferences())


def unpinned(layout: Layout, namespace: str) -> str:
    """Return the nodes of a container that is not pinned; "" for all."""
    return str(layout.unpinned_nodes_of(namespace, layout.of_pod(namespace, {})))


def sets(layout: Layout) -> dict[str, str]:
    """Return name -> nodes; "" for none."""
    return {e.partition.name: str(e.nodes) for e in layout.partitions}


def test_fixed_nodes_and_the_rest() -> None:
    found = laid_out(Partition("web", nodes("2-3"), exclusive=Exclusive.GUARANTEED))
    assert sets(found) == {"web": "2-3", "default": "0-1"}
    assert not found.rest.problem
    assert found.unpinned_nodes == found.closed == NodeSet()


def test_the_rest_may_use_nodes_that_are_not_exclusive() -> None:
    found = laid_out(
        Partition("web", nodes("0"), exclusive=Exclusive.GUARANTEED), Partition("jobs", nodes("1"))
    )
    assert sets(found) == {"web": "0", "jobs": "1", "default": "1-3"}


def test_a_count_takes_the_closest_nodes_that_are_left() -> None:
    two = Partition("two", count=2)
    assert sets(laid_out(two))["two"] == "0-1"
    # Node 1 is taken, so node 0 has no close one.
    fixed = Partition("fixed", nodes("1"))
    assert sets(laid_out(two, fixed))["two"] == sets(laid_out(fixed, two))["two"] == "2-3"
    crossed = lay_out([two], ALL, ALL, preferences(is_crossed=True))
    assert sets(crossed)["two"] == "1-2"
    far = replace(preferences(is_crossed=True), prefer_closest=False)
    assert sets(lay_out([two], ALL, ALL, far))["two"] == "0-1"


def test_counts_take_nodes_in_the_order_of_the_setting() -> None:
    a, b = Partition("a", count=1), Partition("b", count=2, exclusive=Exclusive.ALL)
    assert sets(laid_out(a, b)) == {"a": "0", "b": "2-3", "default": "0-1"}
    assert sets(laid_out(b, a)) == {"b": "0-1", "a": "2", "default": "2-3"}


def test_the_example_of_the_module() -> None:
    web = Partition("web", nodes("2-3"), exclusive=Exclusive.GUARANTEED)
    found = laid_out(web, Partition("jobs", count=1))
    assert sets(found) == {"web": "2-3", "jobs": "0", "default": "0-1"}


def test_the_rest_may_be_named() -> None:
    web = Partition("web", nodes("2-3"), namespaces=("web",), exclusive=Exclusive.GUARANTEED)
    rest = Partition("default", confine=True)
    for order in ((web, rest), (rest, web)):
        found = laid_out(*order)
        assert found.rest == PartitionNodes(rest, nodes("0-1"))
        assert [each.partition for each in found.entries] == [web]
        assert unpinned(found, "ns") == "0-1"
    assert rest.is_rest
    assert not web.is_rest


def test_without_an_entry_for_the_rest_nothing_of_it_is_confined() -> None:
    web = Partition("web", nodes("2-3"), namespaces=("web",), exclusive=Exclusive.GUARANTEED)
    found = laid_out(web)
    assert found.rest.partition == Partition("default")
    assert found.unpinned_nodes_of("ns", found.of_pod("ns", {})) == NodeSet()


@pytest.mark.parametrize(
    ("partition", "problem"),
    [
        (Partition("web", nodes("3-4")), "NUMA node 4 cannot be used on this machine"),
        (Partition("web", nodes("4-6")), "NUMA nodes 4-6 cannot be used on this machine"),
        (Partition("web", count=5), "count is 5; NUMA nodes in no other partition: 0-3"),
    ],
)
def test_nodes_that_the_machine_lacks(partition: Partition, problem: str) -> None:
    """Only the pods of that partition are refused: the others may use the nodes that exist."""
    web = replace(partition, exclusive=Exclusive.ALL)
    two = Partition("two", count=2, namespaces=("two",))
    found = laid_out(web, two)
    assert found.entries[0] == PartitionNodes(web, NodeSet(), problem)
    assert sets(found) == {"web": "", "two": "0-1", "default": "0-3"}
    assert found.closed == found.unpinned_nodes == NodeSet()
    # Three of four nodes exist: a count may take them.
    three = laid_out(Partition("web", nodes("3-4")), Partition("all", count=4))
    assert sets(three) == {"web": "", "all": "0-3", "default": "0-3"}


def test_a_count_says_how_many_nodes_other_partitions_leave() -> None:
    found = laid_out(Partition("web", nodes("1-3")), Partition("two", count=2))
    assert found.entries[1].problem == "count is 2; NUMA nodes in no other partition: 0"
    assert found.entries[1].nodes == NodeSet()


def test_an_empty_rest() -> None:
    found = laid_out(
        Partition("a", nodes("0-1"), exclusive=Exclusive.ALL),
        Partition("b", count=2, exclusive=Exclusive.GUARANTEED),
    )
    assert sets(found) == {"a": "0-1", "b": "2-3", "default": ""}
    assert found.rest.problem == "the partitions leave no NUMA node to the other pods"
    assert found.unpinned_nodes == nodes("2-3")


def test_excluded_nodes_are_for_containers_that_are_not_pinned() -> None:
    """Node 3 has memory, and no container is pinned to it."""
    web = Partition("web", nodes("0"), namespaces=("web",), exclusive=Exclusive.ALL)
    found = laid_out(web, usable=nodes("0-2"), memory_nodes=ALL)
    assert sets(found) == {"web": "0", "default": "1-2"}
    assert found.unpinned_nodes == nodes("1-3")


def pod_matches(partition: Partition, namespace: str, **labels: str) -> bool:
    return partition.matches(namespace, labels)


def test_namespaces_are_names_or_patterns() -> None:
    web = Partition("web", nodes("0"), namespaces=("web", "ml-*"))
    assert pod_matches(web, "web")
    assert pod_matches(web, "ml-a")
    assert pod_matches(web, "ml-")
    for other in ("web2", "ml", "xml-a", "WEB", ""):
        assert not pod_matches(web, other)
    assert pod_matches(Partition("all", nodes("0")), "anything")


def test_all_labels_of_the_selector_must_match() -> None:
    web = Partition("web", nodes("0"), selector={"app": "web", "tier": "1"})
    assert pod_matches(web, "ns", app="web", tier="1", other="x")
    assert not pod_matches(web, "ns", app="web")
    assert not pod_matches(web, "ns", app="web", tier="2")
    assert not pod_matches(web, "ns")
    both = replace(web, namespaces=("web",))
    assert pod_matches(both, "web", app="web", tier="1")
    assert not pod_matches(both, "ns", app="web", tier="1")
    assert not pod_matches(both, "web")


def test_the_keys_of_all_selectors() -> None:
    partitions = [
        Partition("a", nodes("0"), selector={"tier": "1", "app": "web"}),
        Partition("b", nodes("1"), namespaces=("b",)),
        Partition("c", nodes("2"), selector={"app": "db"}),
    ]
    assert label_keys_of(partitions) == ("app", "tier")


def test_the_first_partition_that_matches_has_the_pod() -> None:
    found = laid_out(
        Partition("a", nodes("0"), namespaces=("ml-*",)),
        Partition("b", nodes("1"), selector={"app": "web"}),
        Partition("c", nodes("2"), namespaces=("ml-web",)),
    )
    names = {
        (namespace, app): (
            found.of_pod(namespace, {"app": app}).partition.name,
            found.matching(namespace, {"app": app}),
        )
        for namespace, app in product(("ml-web", "ns"), ("web", "db"))
    }
    assert names == {
        ("ml-web", "web"): ("a", ("a", "b", "c")),
        ("ml-web", "db"): ("a", ("a", "c")),
        ("ns", "web"): ("b", ("b",)),
        ("ns", "db"): ("default", ()),
    }


def test_all_keeps_containers_out_that_are_not_pinned() -> None:
    found = laid_out(Partition("web", nodes("2-3"), namespaces=("web",), exclusive=Exclusive.ALL))
    assert found.unpinned_nodes == nodes("0-1")
    assert [unpinned(found, each) for each in ("ns", "web", "kube-system")] == ["0-1", "", ""]


def test_two_closed_partitions_keep_each_other_out() -> None:
    found = laid_out(
        Partition("web", nodes("3"), namespaces=("web",), exclusive=Exclusive.ALL),
        Partition("ml", nodes("2"), namespaces=("ml",), exclusive=Exclusive.ALL),
    )
    assert [unpinned(found, each) for each in ("ns", "web", "ml")] == ["0-1", "0-1,3", "0-2"]


def test_all_nodes_closed_leave_no_empty_set() -> None:
    found = laid_out(
        Partition("web", nodes("0-1"), namespaces=("web",), exclusive=Exclusive.ALL),
        Partition("ml", nodes("2-3"), namespaces=("ml",), exclusive=Exclusive.ALL),
    )
    assert found.unpinned_nodes == NodeSet()
    assert [unpinned(found, each) for each in ("ns", "web", "ml")] == ["", "0-1", "2-3"]


def test_a_partition_confines_its_containers() -> None:
    found = laid_out(
        Partition("web", nodes("3"), namespaces=("web",), exclusive=Exclusive.ALL),
        Partition("ml", nodes("2"), namespaces=("ml",), confine=True),
        Partition("lost", nodes("7"), namespaces=("lost",), confine=True),
    )
    # A partition without nodes confines to none; its containers stay out of closed nodes.
    answers = [unpinned(found, each) for each in ("ns", "web", "ml", "lost")]
    assert answers == ["0-2", "", "2", "0-2"]


def test_kube_system_is_confined_only_by_name() -> None:
    closed = Partition("web", nodes("3"), namespaces=("web",), exclusive=Exclusive.ALL)
    system = Partition("system", nodes("0"), namespaces=("kube-*",), confine=True)
    assert unpinned(laid_out(closed, system), "kube-system") == ""
    assert unpinned(laid_out(closed, system), "kube-other") == "0"
    listed = replace(system, namespaces=("kube-*", "kube-system"))
    assert unpinned(laid_out(closed, listed), "kube-system") == "0"
    rest = Partition("default", namespaces=("kube-system",), confine=True)
    assert unpinned(laid_out(closed, rest), "kube-system") == "0-2"
