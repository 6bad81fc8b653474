"""Resource claims in the accounting."""

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from nri_numamem.memorymanager import State, default_state
from nri_numamem.memorymanager.accounting import assign, assign_exactly, remove_container
from nri_numamem.memorymanager.claims import (
    Claim,
    ClaimAmounts,
    ClaimRejection,
    adopt,
    amounts_of,
    bytes_of_claims,
    format_amounts,
    nodes_of,
    parse_amounts,
    prepare,
    share_of,
    unprepare,
)
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.invariants import check_accounting, check_groups
from nri_numamem.memorymanager.state import AccountingError
from nri_numamem.numa import Machine, NodeSet, NumaNode

MI = 1 << 20
PAGE = 2 * MI
PAGES = "hugepages-2Mi"


def machine_of(count: int = 3, **changes: object) -> Machine:
    """Nodes with 100 MiB for pods and ten pages each."""
    return Machine(tuple(NumaNode(n, 120 * MI, {PAGE: 10}, **changes) for n in range(count)))  # type: ignore[arg-type]


def empty(count: int = 3) -> State:
    return default_state(machine_of(count), {})


def memory(**mebibytes: int) -> ClaimAmounts:
    """Return amounts of memory; `n0=5` is 5 MiB on node 0."""
    return {int(name[1:]): {"memory": size * MI} for name, size in mebibytes.items()}


def prepared(state: State, uid: str, amounts: ClaimAmounts) -> State:
    found = prepare(state, uid, amounts)
    assert isinstance(found, State), found
    assert not check_accounting(found)
    assert not check_groups(found)
    return found


def refused(state: State, uid: str, amounts: ClaimAmounts) -> str:
    found = prepare(state, uid, amounts)
    assert isinstance(found, ClaimRejection)
    return str(found)


def test_amounts_are_the_same_after_a_round_trip_as_text() -> None:
    amounts = {1: {"memory": 5, PAGES: 7}, 0: {"memory": 3}}
    text = format_amounts(amounts)
    assert text == "memory@0=3,memory@1=5,hugepages-2Mi@1=7"
    assert parse_amounts(text) == amounts


@pytest.mark.parametrize(
    "text",
    [
        *("", "memory", "memory@1", "memory=5", "memory@=5", "memory@1=", "cpu@1=5", "memory@1=0"),
        *("memory@-1=5", "memory@1=5,", "memory@1=5,memory@1=6", "memory@¹=5"),
        *(f"memory@1={1 << 63}", "memory@1=" + "9" * 5000),
    ],
)
def test_other_texts_are_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|twice"):
        parse_amounts(text)


def test_a_claim_is_the_sum_of_its_requests() -> None:
    claim = Claim("c", "ns", "name", {"a": memory(n0=5), "b": memory(n0=3, n1=2)})
    assert claim.amounts == memory(n0=8, n1=2)
    assert nodes_of(claim.amounts) == NodeSet([0, 1])
    assert str(claim) == "ns/name"


def test_a_claim_in_use_is_charged_whatever_the_rules() -> None:
    state = adopt(adopt(empty(), "a", memory(n0=70, n1=10)), "b", memory(n0=60))
    assert amounts_of(state, "a") == memory(n0=70, n1=10)
    assert amounts_of(state, "b") == memory(n0=30)
    assert not check_accounting(state)
    lost = adopt(empty(2), "c", memory(n2=5))
    assert lost.assignments["c"][HolderKind.CLAIM][0].numa_affinity == NodeSet([2])


def test_a_claim_of_one_node() -> None:
    amounts = {1: {"memory": 30 * MI, PAGES: 2 * PAGE}}
    state = prepared(empty(), "c", amounts)
    assert amounts_of(state, "c") == amounts
    node = state.machine_state[1]
    assert (node.table("memory").free, node.table(PAGES).free) == (70 * MI, 8 * PAGE)
    assert node.cells == NodeSet([1])
    assert state.machine_state[0] == empty().machine_state[0]


def test_claims_and_containers_share_a_node() -> None:
    state = prepared(empty(), "c", memory(n1=30))
    state = assign(state, "pod", "main", NodeSet([1]), {"memory": 40 * MI})
    state = prepared(state, "d", memory(n1=30))
    assert state.machine_state[1].table("memory").free == 0
    assert refused(state, "e", memory(n1=1)) == (
        "NUMA node 1 has memory 0 free of 1Mi requested, 1Mi short"
    )


def test_a_claim_of_several_nodes_has_exact_amounts() -> None:
    amounts = {0: {"memory": 60 * MI}, 2: {"memory": 30 * MI, PAGES: PAGE}}
    state = prepared(empty(), "c", amounts)
    assert amounts_of(state, "c") == amounts
    group = NodeSet([0, 2])
    assert state.machine_state[0].cells == state.machine_state[2].cells == group
    assert {block.numa_affinity for block in state.blocks("c", HolderKind.CLAIM) or ()} == {group}
    assert unprepare(state, "c").machine_state == empty().machine_state


def test_several_nodes_are_shared_with_nothing() -> None:
    pair = memory(n0=10, n1=10)
    single = prepared(empty(), "c", memory(n1=1))
    expected = "NUMA node 1 has assignments; a claim of several nodes needs empty ones"
    assert refused(single, "d", pair) == expected
    group = prepared(empty(), "c", pair)
    assert refused(group, "d", memory(n1=1)) == (
        "NUMA node 1 is in group 0-1; a claim of one node cannot use it"
    )
    assert "; ".join([expected.replace("1", "0", 1), expected]) == refused(group, "d", pair)
    prepared(group, "d", memory(n2=1))


def test_a_node_without_normal_memory() -> None:
    nodes = (*machine_of(2).nodes, NumaNode(2, 120 * MI, {PAGE: 10}, is_movable_only=True))
    state = default_state(Machine(nodes), {})
    assert refused(state, "c", memory(n2=1)) == (
        "NUMA node 2 has no normal memory and cannot be the only node"
    )
    prepared(state, "c", memory(n1=1, n2=1))


def test_what_the_machine_lacks() -> None:
    assert refused(empty(), "c", memory(n7=1)) == "there is no NUMA node 7 for pods"
    assert refused(empty(), "c", {0: {"hugepages-1Gi": 1 << 30}}) == (
        "NUMA node 0 has hugepages-1Gi 0 free of 1Gi requested, 1Gi short"
    )


def test_prepare_is_idempotent() -> None:
    state = prepared(empty(), "c", memory(n1=30))
    assert prepare(state, "c", memory(n1=30)) is state
    assert refused(state, "c", memory(n1=31)) == (
        "claim c was prepared with other amounts: memory 30Mi on NUMA node 1"
    )
    assert refused(state, "c", memory(n0=30)).startswith("claim c was prepared")


def test_exact_amounts_are_assigned_once() -> None:
    state = prepared(empty(), "c", memory(n1=30))
    with pytest.raises(ValueError, match=r"\(claim\) of c is assigned already"):
        assign_exactly(state, "c", HolderKind.CLAIM, {"memory": {1: MI}})
    with pytest.raises(AccountingError, match="cannot charge"):
        assign_exactly(state, "d", HolderKind.CLAIM, {"memory": {1: 71 * MI}})


def test_unprepare_is_idempotent() -> None:
    state = prepared(empty(), "c", memory(n1=30))
    gone = unprepare(state, "c")
    assert gone == empty()
    assert unprepare(gone, "c") is gone
    assert amounts_of(gone, "c") is None


def test_a_container_of_the_same_name_is_another_holder() -> None:
    state = prepared(empty(), "u", memory(n1=30))
    state = assign(state, "u", "(claim)", NodeSet([1]), {"memory": 5 * MI})
    assert amounts_of(remove_container(state, "u", "(claim)"), "u") == memory(n1=30)


def all_claims() -> Iterator[ClaimAmounts]:
    """Yield claims of one and of two nodes: a part of a node, or all of it."""
    sizes = (0, 40, 100)
    for parts in product(sizes, repeat=3):
        amounts = {n: {"memory": size * MI} for n, size in enumerate(parts) if size}
        if amounts:
            yield amounts


@pytest.mark.parametrize("first", list(all_claims()), ids=str)
def test_all_pairs_of_claims_against_the_rules(first: ClaimAmounts) -> None:
    state = prepared(empty(), "first", first)
    for second in all_claims():
        common = first.keys() & second.keys()
        fits = all(first[n]["memory"] + second[n]["memory"] <= 100 * MI for n in common)
        may_share = not common or (len(first) == 1 and len(second) == 1)
        found = prepare(state, "second", second)
        assert isinstance(found, State) == (fits and may_share), (first, second)


@pytest.mark.parametrize("seed", range(30))
def test_random_lives_keep_the_invariants(seed: int) -> None:
    random, state = Random(seed), empty(4)
    live: dict[str, ClaimAmounts] = {}
    for step in range(60):
        if live and random.random() < 0.4:
            uid = random.choice(sorted(live))
            del live[uid]
            state = unprepare(state, uid)
        else:
            count = random.choice((1, 1, 1, 2, 3))
            nodes = random.sample(range(4), count)
            amounts = {n: {"memory": random.randint(1, 60) * MI} for n in nodes}
            found = prepare(state, f"c{step}", amounts)
            if isinstance(found, State):
                state, live[f"c{step}"] = found, amounts
        assert not check_accounting(state)
        assert not check_groups(state)
        assert {uid: amounts_of(state, uid) for uid in live} == live
    for uid in live:
        state = unprepare(state, uid)
    assert state == empty(4)


def test_the_bytes_of_claims_are_sums_by_node_and_resource() -> None:
    state = prepared(empty(), "a", memory(n0=5, n1=5))
    state = prepared(state, "b", {2: {"memory": 7 * MI, PAGES: PAGE}})
    state = prepared(state, "c", memory(n2=3))
    assert bytes_of_claims(state, ["a", "b", "c", "unknown"]) == {
        (0, "memory"): 5 * MI,
        (1, "memory"): 5 * MI,
        (2, "memory"): 10 * MI,
        (2, PAGES): PAGE,
    }
    assert bytes_of_claims(state, ["a"]) == {(0, "memory"): 5 * MI, (1, "memory"): 5 * MI}


def test_a_share_has_whole_pages() -> None:
    node = empty().machine_state[0]
    assert share_of(node, "memory", 50) == 50 * MI
    assert share_of(node, PAGES, 25) == 2 * PAGE  # of ten
    assert share_of(node, PAGES, 9) == 0
    assert share_of(node, "hugepages-1Gi", 50) == 0
