"""Hugepages that are used outside of pods are masked for a placement, and unmasked after it."""

from dataclasses import replace
from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    NonPodHugepages,
    PoolUse,
    State,
    adopt,
    check_accounting,
    default_state,
    mask_unavailable_hugepages,
    non_pod_hugepages,
)
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.memorymanager.rejection import MESSAGE_LIMIT, reject
from nri_numamem.numa import Machine, NodeSet, NumaNode, Preferences

PAGES = "hugepages-2Mi"
GI = 1 << 30
N0, N1, N2, N01 = (NodeSet.parse(text) for text in ("0", "1", "2", "0-1"))


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 100, PAGES: 10} for n in range(3)})
    assert isinstance(made, State)
    return made


def use(*used: int, rsvd: int = 0, total: int = 10) -> PoolUse:
    """Return the figures of nodes with pools of `total` bytes."""
    pools = {node: {PAGES: Pool(size, total - size)} for node, size in enumerate(used)}
    return PoolUse(pools, {PAGES: rsvd})


def free(state: State) -> list[int]:
    return [node.table(PAGES).free for node in state.machine_state.values()]


def seen(state: State, figures: PoolUse) -> list[int]:
    """Return the free bytes while masked, and check that unmasking restores the state."""
    masked = mask_unavailable_hugepages(state, figures)
    assert masked.unmask(masked.state) == state
    for node_id, node in state.machine_state.items():
        assert masked.state.machine_state[node_id].table("memory") == node.table("memory")
    return free(masked.state)


def test_a_use_that_is_taken_to_have_ended(empty: State) -> None:
    def left(*ended: tuple[NodeSet, str]) -> list[int]:
        return free(mask_unavailable_hugepages(empty, use(4, 6, 0, rsvd=2), ended).state)

    any_node = NodeSet()
    assert left() == [4, 2, 8]
    assert left((N0, PAGES)) == [8, 2, 8]
    assert left((N0, PAGES), (N1, PAGES)) == [8, 8, 8]
    assert left((any_node, PAGES)) == [6, 4, 10]
    assert left((N0, PAGES), (any_node, PAGES)) == [10, 4, 10]
    assert left((N0, "hugepages-1Gi"), (N01, PAGES)) == left()


def test_pages_of_pods_stay_unavailable_when_other_use_ends(empty: State) -> None:
    """The pod uses fewer pages than it has reserved, and others use more than the rest."""
    state = adopt(empty, "a", "c", N0, {PAGES: 6}).state
    figures = replace(use(9, 0, 0), by_pods={"a": {0: {PAGES: 2}}})
    assert free(mask_unavailable_hugepages(state, figures).state)[0] == 0
    assert free(mask_unavailable_hugepages(state, figures, [(N0, PAGES)]).state)[0] == 4


def test_with_unused_pools_nothing_is_masked(empty: State) -> None:
    assert mask_unavailable_hugepages(empty, use(0, 0, 0)).state is empty
    assert mask_unavailable_hugepages(empty, PoolUse({}, {})).state is empty
    assert non_pod_hugepages(empty, use(0, 0, 0)) == NonPodHugepages()


def test_used_pages_without_assignments_are_used_outside_of_pods(empty: State) -> None:
    assert seen(empty, use(0, 4, 10)) == [10, 6, 0]
    taken = non_pod_hugepages(empty, use(0, 4, 10))
    assert taken == NonPodHugepages({N1: {PAGES: 4}, N2: {PAGES: 10}})


def test_use_beyond_the_reserved_bytes_is_outside_of_pods(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(0, 0, 0)) == [4, 10, 10]
    assert seen(state, use(6, 0, 0)) == [4, 10, 10]
    assert seen(state, use(7, 0, 0)) == [3, 10, 10]
    assert seen(state, use(10, 0, 0)) == [0, 10, 10]


def test_pods_with_known_use_count_one_by_one(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 4})
    state = assign(state, "b", "x", N0, {PAGES: 2})
    state = assign(state, "b", "y", N0, {"memory": 1, PAGES: 1})
    # Six pages are in use: three by pods, or by which processes is unknown.
    known = {"a": {0: {PAGES: 3}}, "b": {}}
    assert seen(state, use(6, 0, 0)) == [3, 10, 10]
    assert seen(state, replace(use(6, 0, 0), by_pods=known)) == [0, 10, 10]
    # The use of one pod is known: the other pages in use may be those of the other pod.
    known = {"a": {0: {PAGES: 3}}}
    assert seen(state, replace(use(6, 0, 0), by_pods=known)) == [3, 10, 10]
    assert seen(state, replace(use(4, 0, 0), by_pods=known)) == [3, 10, 10]
    known = {"a": {0: {PAGES: 0}}}
    assert seen(state, replace(use(4, 0, 0), by_pods=known)) == [2, 10, 10]
    # Pages of a pod beyond its assignment count as used outside of pods.
    known = {"a": {0: {PAGES: 6}, 9: {PAGES: 1}}, "gone": {0: {PAGES: 1}}}
    assert seen(state, replace(use(8, 0, 0), by_pods=known)) == [0, 10, 10]


def test_pages_reserved_by_pods_are_not_non_pod(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(2, 0, 0, rsvd=4)) == [4, 10, 10]
    assert non_pod_hugepages(state, use(2, 0, 0, rsvd=4)) == NonPodHugepages()


def test_pages_reserved_by_other_processes_may_be_on_any_node(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(2, 0, 0, rsvd=7)) == [1, 7, 7]
    assert non_pod_hugepages(state, use(2, 0, 0, rsvd=7)) == NonPodHugepages({}, {PAGES: 3})
    assert seen(state, use(2, 9, 0, rsvd=7)) == [1, 0, 7]
    both = NonPodHugepages({N1: {PAGES: 9}}, {PAGES: 3})
    assert non_pod_hugepages(state, use(2, 9, 0, rsvd=7)) == both


def test_the_pages_of_a_group_may_be_on_any_of_its_nodes(empty: State) -> None:
    """The accounting charges the lowest node first, the kernel allocates on the nearest."""
    state = assign(empty, "a", "x", N01, {PAGES: 12})
    assert free(state) == [0, 8, 10]
    assert seen(state, use(2, 10, 0)) == [0, 8, 10]
    assert seen(state, use(5, 10, 0)) == [0, 5, 10]
    assert non_pod_hugepages(state, use(5, 10, 0)) == NonPodHugepages({N01: {PAGES: 3}})
    assert seen(state, use(10, 10, 0)) == [0, 0, 10]


def test_within_a_group_the_most_used_node_is_masked_first(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"memory": 1, PAGES: 0})
    assert seen(state, use(0, 4, 0)) == [10, 6, 10]
    assert seen(state, use(4, 0, 0)) == [6, 10, 10]
    assert seen(state, use(0, 10, 0, rsvd=3)) == [7, 0, 7]


def test_overlapping_groups_count_as_one(empty: State) -> None:
    state = assign(empty, "a", "x", NodeSet([1, 2]), {PAGES: 1})
    state = adopt(state, "b", "x", N01, {PAGES: 1}).state
    assert seen(state, use(10, 10, 2)) == [0, 0, 8]


def test_nodes_that_the_machine_does_not_have_any_more_are_ignored(empty: State) -> None:
    state = adopt(empty, "a", "x", NodeSet([0, 7]), {PAGES: 4}).state
    assert seen(state, use(4, 0, 0)) == [6, 10, 10]


def test_reserved_pages_of_the_host_are_not_masked() -> None:
    machine = Machine((NumaNode(0, 100, {1024: 10}),))
    state = default_state(machine, {0: {"hugepages-1Ki": 4 * 1024}})
    for used, left in ((0, 6), (4, 6), (5, 5), (10, 0)):
        pool = Pool(used * 1024, (10 - used) * 1024)
        masked = mask_unavailable_hugepages(state, PoolUse({0: {"hugepages-1Ki": pool}}, {}))
        assert masked.state.machine_state[0].table("hugepages-1Ki").free == left * 1024
    rsvd = PoolUse({0: {"hugepages-1Ki": Pool(0, 10 * 1024)}}, {"hugepages-1Ki": 4 * 1024})
    assert mask_unavailable_hugepages(state, rsvd).state is state
    assert non_pod_hugepages(state, rsvd) == NonPodHugepages()


def test_a_smaller_or_missing_pool_is_masked(empty: State) -> None:
    assert seen(empty, use(0, 0, 0, total=7)) == [7, 7, 7]
    assert seen(empty, use(0, 0)) == [10, 10, 0]


def test_pools_that_the_state_does_not_have_change_nothing(empty: State) -> None:
    other = PoolUse({0: {"hugepages-1Gi": Pool(5, 5)}, 9: {PAGES: Pool(3, 3)}}, {})
    assert (
        mask_unavailable_hugepages(empty, PoolUse({9: {"hugepages-1Gi": Pool(3, 3)}}, {})).state
        is empty
    )
    assert free(mask_unavailable_hugepages(empty, other).state) == [0, 0, 0]


def available(state: State, figures: PoolUse, group: NodeSet, unfaulted: int) -> int:
    """Return the available bytes of a group by another formula."""
    tables = [state.machine_state[n].table(PAGES) for n in group]
    pools = [figures.pools[n][PAGES] for n in group]
    own = sum(t.reserved for t in tables)
    rsvd = max(0, own - sum(p.used for p in pools))
    non_pod = max(0, figures.rsvd[PAGES] - unfaulted)
    kernel = sum(p.free for p in pools) - rsvd - non_pod
    return max(0, min(sum(t.free for t in tables), kernel))


@pytest.mark.parametrize("seed", range(40))
def test_available_bytes_of_groups_in_random_states(empty: State, seed: int) -> None:
    random = Random(seed)
    state = empty
    for name in "abcd":
        nodes = random.choice([N0, N1, N2, N01, NodeSet([1, 2])])
        if not any(state.machine_state[n].number_of_assignments for n in nodes):
            state = assign(state, name, "x", nodes, {"memory": 1, PAGES: random.randint(0, 9)})
    figures = use(*(random.randint(0, 10) for _ in range(3)), rsvd=random.randint(0, 12))
    groups = {node.cells for node in state.machine_state.values()}

    def unfaulted(group: NodeSet) -> int:
        own = sum(state.machine_state[n].table(PAGES).reserved for n in group)
        return max(0, own - sum(figures.pools[n][PAGES].used for n in group))

    found = seen(state, figures)
    for group in groups:
        expected = available(state, figures, group, sum(map(unfaulted, groups)))
        assert sum(found[n] for n in group) == expected


@pytest.mark.parametrize("seed", range(60))
def test_available_bytes_if_each_pod_uses_all_that_it_reserved(empty: State, seed: int) -> None:
    """Random pods and processes with known use, and the kernel's figures of them."""
    random = Random(seed)
    state, used = empty, [0, 0, 0]
    by_pods: dict[str, dict[int, dict[str, int]]] = {}
    node_sets = random.choice([[N0, N1, N2], [N01, N2], [N0, NodeSet([1, 2])]])
    for uid in "abcde":
        nodes, size = random.choice(node_sets), random.randint(0, 5)
        if sum(state.machine_state[n].table(PAGES).free for n in nodes) < size:
            continue
        state = assign(state, uid, "x", nodes, {"memory": 1, PAGES: size})
        by_pods[uid] = {n: {PAGES: 0} for n in nodes}
        for _ in range(random.randint(0, size)):
            node = random.choice([n for n in nodes if used[n] < 10])
            by_pods[uid][node][PAGES] += 1
            used[node] += 1
    others = [random.randint(0, 10 - pages) for pages in used]
    reserved = [state.machine_state[n].table(PAGES).reserved for n in range(3)]
    non_pod = random.randint(0, 4)
    rsvd = sum(reserved) - sum(used) + non_pod
    figures = use(*map(sum, zip(used, others, strict=True)), rsvd=rsvd)
    found = seen(state, replace(figures, by_pods=by_pods))
    for nodes in {node.cells for node in state.machine_state.values()}:
        remaining = sum(10 - reserved[n] - others[n] for n in nodes) - non_pod
        assert sum(found[n] for n in nodes) == max(0, remaining)


@pytest.mark.parametrize("seed", range(20))
def test_a_placement_in_the_masked_state_remains_after_unmasking(empty: State, seed: int) -> None:
    random = Random(seed)
    figures = use(*(random.randint(0, 10) for _ in range(3)), rsvd=random.randint(0, 5))
    masked = mask_unavailable_hugepages(empty, figures)
    nodes = random.choice([N0, N01, N2])
    size = min(3, sum(masked.state.machine_state[n].table(PAGES).free for n in nodes))
    after = masked.unmask(assign(masked.state, "a", "x", nodes, {PAGES: size}))
    assert check_accounting(after) == ()
    assert sum(free(after)) == 30 - size


def test_hidden_nodes_come_back_with_their_pages(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {PAGES: 2 * GI} for n in range(3)})
    masked = mask_unavailable_hugepages(state, use(GI, GI, GI, total=2 * GI)).without(N01)
    assert [*masked.without(N0).hidden] == [0, 1]
    after = masked.unmask(assign(masked.state, "a", "x", N2, {PAGES: GI}))
    assert [*after.machine_state] == [0, 1, 2]
    assert free(after) == [2 * GI, 2 * GI, GI]


# The text of a rejection


def refuse(state: State, figures: PoolUse, size: int) -> str:
    request = {"memory": GI, PAGES: size}
    accounting = mask_unavailable_hugepages(state, figures).state
    candidates = candidates_for(accounting, "new", request, NodeSet())
    rejection = reject(accounting, "new", request, candidates, Preferences(), "Reason", "Sentence")
    return rejection.message


def test_a_rejection_names_pages_used_outside_of_pods(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI, PAGES: 2 * GI} for n in range(2)})
    figures = use(GI // 2, 3 * GI // 2, total=2 * GI)
    assert refuse(state, figures, 2 * GI) == (
        "requested memory 1Gi, hugepages-2Mi 2Gi; fits on 1 empty NUMA node; "
        "without topology constraints it would fit on NUMA nodes 0-1; "
        "NUMA node 0: memory 4Gi free of 4Gi allocatable (6Gi less 2Gi hugepages), "
        "hugepages-2Mi 1.5Gi free of 2Gi allocatable "
        "(512Mi used outside of pods), hugepages-2Mi 512Mi short; "
        "NUMA node 1: memory 4Gi free of 4Gi allocatable (6Gi less 2Gi hugepages), "
        "hugepages-2Mi 512Mi free of 2Gi allocatable "
        "(1.5Gi used outside of pods), hugepages-2Mi 1.5Gi short; "
        "Sentence"
    )


def test_a_rejection_on_many_nodes_names_the_sum(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI + n, PAGES: 2 * GI} for n in range(32)})
    figures = use(*(GI + n * GI // 64 for n in range(32)), total=2 * GI)
    message = refuse(state, figures, 100 * GI)
    assert len(message) <= MESSAGE_LIMIT
    assert "; 39.75Gi of hugepages-2Mi used outside of pods; free memory, hugepages" in message
