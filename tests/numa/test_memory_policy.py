"""Memory policies: their nodes, and which of them an annotation may choose."""

import pytest

from nri_numamem.numa import (
    MemoryPolicies,
    MemoryPolicy,
    NodeSet,
    PolicyMode,
    mode_and_count,
    policy_of,
)

NODES = NodeSet({0, 1, 3})


@pytest.mark.parametrize(
    "mode", [PolicyMode.INTERLEAVE, PolicyMode.WEIGHTED_INTERLEAVE, PolicyMode.BIND]
)
def test_most_modes_have_all_nodes(mode: PolicyMode) -> None:
    assert policy_of(mode, NODES, NodeSet({1})) == MemoryPolicy(mode, NODES)


def test_local_has_no_nodes() -> None:
    local = PolicyMode.LOCAL
    assert policy_of(local, NODES, NodeSet({1})) == MemoryPolicy(local, NodeSet())


@pytest.mark.parametrize("mode", [PolicyMode.PREFERRED, PolicyMode.PREFERRED_MANY])
@pytest.mark.parametrize(
    ("near", "expected"), [({1, 2}, {1}), ({2}, {0, 1, 3}), (set(), {0, 1, 3})]
)
def test_preferred_nodes_are_near_if_any_is(
    mode: PolicyMode, near: set[int], expected: set[int]
) -> None:
    assert policy_of(mode, NODES, NodeSet(near)) == MemoryPolicy(mode, NodeSet(expected))


def test_a_namespace_default_or_a_mode_switches_policies_on() -> None:
    assert not MemoryPolicies().is_active
    assert not MemoryPolicies(namespaces=("a",), runtimes=("default",)).is_active
    assert MemoryPolicies((PolicyMode.BIND,)).is_active
    assert MemoryPolicies(defaults={"a": PolicyMode.BIND}).is_active


def test_an_annotation_chooses_among_the_modes() -> None:
    policies = MemoryPolicies((PolicyMode.BIND, PolicyMode.LOCAL))
    assert policies.obstacle("any", "bind") == policies.obstacle("", "local") == ""
    text = policies.obstacle("any", "interleave")
    assert text == "memoryPolicy.modes allows only bind, local"
    text = policies.obstacle("any", "Bind")
    assert text.startswith("it is none of interleave, weighted-interleave, bind, preferred, ")


def test_an_annotation_chooses_in_the_namespaces() -> None:
    policies = MemoryPolicies((PolicyMode.BIND,), ("shop", "lab"))
    assert policies.obstacle("lab", "bind") == ""
    text = "memoryPolicy.namespaces does not list the pod's namespace"
    assert policies.obstacle("other", "bind") == text


def test_without_modes_no_annotation_chooses() -> None:
    policies = MemoryPolicies(defaults={"shop": PolicyMode.BIND})
    text = "memoryPolicy.modes is empty, so annotations choose no policy"
    assert policies.obstacle("shop", "bind") == text


def test_an_annotation_requests_a_number_of_nodes_where_it_is_allowed() -> None:
    policies = MemoryPolicies((PolicyMode.INTERLEAVE, PolicyMode.BIND), max_nodes=4)
    assert policies.obstacle("any", "interleave:2") == ""
    assert policies.obstacle("any", "interleave:4") == ""
    assert mode_and_count("interleave:4") == (PolicyMode.INTERLEAVE, 4)
    assert mode_and_count("bind") == (PolicyMode.BIND, 0)
    text = policies.obstacle("any", "interleave:5")
    assert text == "memoryPolicy.maxNodes allows at most 4 NUMA nodes"
    for most in (0, 1):
        policies = MemoryPolicies((PolicyMode.INTERLEAVE,), max_nodes=most)
        cause = f"memoryPolicy.maxNodes is {most}, so annotations request no number of NUMA nodes"
        assert policies.obstacle("any", "interleave:2") == cause


@pytest.mark.parametrize(
    "number", ["", "0", "1", "02", "-2", "two", "2 ", "\u0662", "99999", "2:2"]
)
def test_other_numbers_are_invalid(number: str) -> None:
    policies = MemoryPolicies((PolicyMode.INTERLEAVE,), max_nodes=4)
    text = "N in interleave:N must be a number of NUMA nodes, 2 or more"
    assert policies.obstacle("any", f"interleave:{number}") == text


def test_each_node_needs_a_least_part() -> None:
    policies = MemoryPolicies(min_per_node_bytes=64 << 20)
    assert policies.obstacle_of_size(128 << 20, 2) == ""
    assert policies.obstacle_of_size(16 << 10, 4) == (
        "memoryPolicy.minPerNode requires 64Mi on each NUMA node; the container requests 16Ki for 4"
    )
    assert policies.obstacle_of_size((128 << 20) - 1, 2)
    assert MemoryPolicies(min_per_node_bytes=0).obstacle_of_size(0, 4) == ""
    assert MemoryPolicies().obstacle_of_size(512 << 20, 2) == ""
    assert MemoryPolicies().obstacle_of_size(511 << 20, 2)


def test_only_interleave_takes_a_number_of_nodes() -> None:
    policies = MemoryPolicies(tuple(PolicyMode), max_nodes=4)
    text = "bind takes no number of NUMA nodes, only interleave does"
    assert policies.obstacle("any", "bind:2") == text
    assert "weighted-interleave takes no" in policies.obstacle("any", "weighted-interleave:2")
    assert policies.obstacle("any", "bound:2").startswith("it is none of ")
    text = MemoryPolicies((PolicyMode.BIND,), max_nodes=4).obstacle("any", "interleave:2")
    assert text == "memoryPolicy.modes allows only bind"
