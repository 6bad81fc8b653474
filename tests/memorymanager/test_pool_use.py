"""What others took of the hugepages is withheld from a placement, and put back exactly."""

from dataclasses import replace
from random import Random
from types import ModuleType

import pytest

from nri_numamem.memorymanager import (
    Machine,
    NodeSet,
    NumaNode,
    Outside,
    Pool,
    PoolUse,
    Preferences,
    State,
    adopt,
    check_books,
    default_state,
    outside,
    withhold,
)
from nri_numamem.memorymanager.books import assign
from nri_numamem.memorymanager.choices import choices_for
from nri_numamem.memorymanager.refusal import MESSAGE_LIMIT, reject

PAGES = "hugepages-2Mi"
GI = 1 << 30
N0, N1, N2, N01 = (NodeSet.parse(text) for text in ("0", "1", "2", "0-1"))


@pytest.fixture
def empty(worlds: ModuleType) -> State:
    made = worlds.empty_state({n: {"memory": 100, PAGES: 10} for n in range(3)})
    assert isinstance(made, State)
    return made


def use(*used: int, promised: int = 0, total: int = 10) -> PoolUse:
    """Return the figures of nodes with pools of `total` bytes."""
    pools = {node: {PAGES: Pool(size, total - size)} for node, size in enumerate(used)}
    return PoolUse(pools, {PAGES: promised})


def free(state: State) -> list[int]:
    return [node.table(PAGES).free for node in state.machine_state.values()]


def seen(state: State, figures: PoolUse) -> list[int]:
    """Return what a placement finds free, having checked that nothing is lost by looking."""
    withheld = withhold(state, figures)
    assert withheld.put_back(withheld.state) == state
    for node_id, node in state.machine_state.items():
        assert withheld.state.machine_state[node_id].table("memory") == node.table("memory")
    return free(withheld.state)


def test_without_figures_the_books_alone_decide(empty: State) -> None:
    assert withhold(empty, None).state is empty
    assert withhold(empty, use(0, 0, 0)).state is empty
    assert withhold(empty, PoolUse({}, {})).state is empty
    assert outside(empty, use(0, 0, 0)) == Outside()


def test_pages_that_nobody_asked_for_are_somebody_elses(empty: State) -> None:
    assert seen(empty, use(0, 4, 10)) == [10, 6, 0]
    taken = outside(empty, use(0, 4, 10))
    assert taken == Outside({N1: {PAGES: 4}, N2: {PAGES: 10}})


def test_pods_use_what_they_hold_and_others_the_rest(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(0, 0, 0)) == [4, 10, 10]
    assert seen(state, use(6, 0, 0)) == [4, 10, 10]
    assert seen(state, use(7, 0, 0)) == [3, 10, 10]
    assert seen(state, use(10, 0, 0)) == [0, 10, 10]


def test_where_cgroups_tell_each_pod_counts_by_itself(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 4})
    state = assign(state, "b", "x", N0, {PAGES: 2})
    state = assign(state, "b", "y", N0, {"memory": 1, PAGES: 1})
    # Of six pages in use three are pods', or nobody knows.
    known = {"a": {0: {PAGES: 3}}, "b": {}}
    assert seen(state, use(6, 0, 0)) == [3, 10, 10]
    assert seen(state, replace(use(6, 0, 0), by_pods=known)) == [0, 10, 10]
    # One pod tells: the other's three pages may be those in use.
    known = {"a": {0: {PAGES: 3}}}
    assert seen(state, replace(use(6, 0, 0), by_pods=known)) == [3, 10, 10]
    assert seen(state, replace(use(4, 0, 0), by_pods=known)) == [3, 10, 10]
    known = {"a": {0: {PAGES: 0}}}
    assert seen(state, replace(use(4, 0, 0), by_pods=known)) == [2, 10, 10]
    # Pages beyond what a pod holds are no more its own than anybody's.
    known = {"a": {0: {PAGES: 6}, 9: {PAGES: 1}}, "gone": {0: {PAGES: 1}}}
    assert seen(state, replace(use(8, 0, 0), by_pods=known)) == [0, 10, 10]


def test_what_is_promised_to_pods_is_not_foreign(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(2, 0, 0, promised=4)) == [4, 10, 10]
    assert outside(state, use(2, 0, 0, promised=4)) == Outside()


def test_what_is_promised_to_others_may_end_on_any_node(empty: State) -> None:
    state = assign(empty, "a", "x", N0, {PAGES: 6})
    assert seen(state, use(2, 0, 0, promised=7)) == [1, 7, 7]
    assert outside(state, use(2, 0, 0, promised=7)) == Outside({}, {PAGES: 3})
    assert seen(state, use(2, 9, 0, promised=7)) == [1, 0, 7]
    both = Outside({N1: {PAGES: 9}}, {PAGES: 3})
    assert outside(state, use(2, 9, 0, promised=7)) == both


def test_a_group_has_its_pages_on_any_of_its_nodes(empty: State) -> None:
    """The books charge the lowest node first, the kernel takes from the nearest."""
    state = assign(empty, "a", "x", N01, {PAGES: 12})
    assert free(state) == [0, 8, 10]
    assert seen(state, use(2, 10, 0)) == [0, 8, 10]
    assert seen(state, use(5, 10, 0)) == [0, 5, 10]
    assert outside(state, use(5, 10, 0)) == Outside({N01: {PAGES: 3}})
    assert seen(state, use(10, 10, 0)) == [0, 0, 10]


def test_within_a_group_the_node_that_is_used_most_gives_first(empty: State) -> None:
    state = assign(empty, "a", "x", N01, {"memory": 1, PAGES: 0})
    assert seen(state, use(0, 4, 0)) == [10, 6, 10]
    assert seen(state, use(4, 0, 0)) == [6, 10, 10]
    assert seen(state, use(0, 10, 0, promised=3)) == [7, 0, 7]


def test_groups_that_overlap_count_together(empty: State) -> None:
    state = assign(empty, "a", "x", NodeSet([1, 2]), {PAGES: 1})
    state = adopt(state, "b", "x", N01, {PAGES: 1}).state
    assert seen(state, use(10, 10, 2)) == [0, 0, 8]


def test_nodes_that_the_machine_lost_count_for_nothing(empty: State) -> None:
    state = adopt(empty, "a", "x", NodeSet([0, 7]), {PAGES: 4}).state
    assert seen(state, use(4, 0, 0)) == [6, 10, 10]


def test_the_hosts_own_share_is_no_difference() -> None:
    machine = Machine((NumaNode(0, 100, {1024: 10}),))
    state = default_state(machine, {0: {"hugepages-1Ki": 4 * 1024}})
    for used, left in ((0, 6), (4, 6), (5, 5), (10, 0)):
        pool = Pool(used * 1024, (10 - used) * 1024)
        withheld = withhold(state, PoolUse({0: {"hugepages-1Ki": pool}}, {}))
        assert withheld.state.machine_state[0].table("hugepages-1Ki").free == left * 1024
    promised = PoolUse({0: {"hugepages-1Ki": Pool(0, 10 * 1024)}}, {"hugepages-1Ki": 4 * 1024})
    assert withhold(state, promised).state is state
    assert outside(state, promised) == Outside()


def test_a_pool_that_shrank_or_vanished_is_noticed(empty: State) -> None:
    assert seen(empty, use(0, 0, 0, total=7)) == [7, 7, 7]
    assert seen(empty, use(0, 0)) == [10, 10, 0]


def test_pools_that_the_books_do_not_know_change_nothing(empty: State) -> None:
    other = PoolUse({0: {"hugepages-1Gi": Pool(5, 5)}, 9: {PAGES: Pool(3, 3)}}, {})
    assert withhold(empty, PoolUse({9: {"hugepages-1Gi": Pool(3, 3)}}, {})).state is empty
    assert free(withhold(empty, other).state) == [0, 0, 0]


def room(state: State, figures: PoolUse, group: NodeSet, untouched: int) -> int:
    """Say the rule in other words: what a group can be given, by books and kernel."""
    tables = [state.machine_state[n].table(PAGES) for n in group]
    pools = [figures.pools[n][PAGES] for n in group]
    own = sum(t.reserved for t in tables)
    promised = max(0, own - sum(p.used for p in pools))
    foreign = max(0, figures.promised[PAGES] - untouched)
    kernel = sum(p.free for p in pools) - promised - foreign
    return max(0, min(sum(t.free for t in tables), kernel))


@pytest.mark.parametrize("seed", range(40))
def test_in_any_life_the_sum_of_a_group_is_right(empty: State, seed: int) -> None:
    random = Random(seed)
    state = empty
    for name in "abcd":
        nodes = random.choice([N0, N1, N2, N01, NodeSet([1, 2])])
        if not any(state.machine_state[n].number_of_assignments for n in nodes):
            state = assign(state, name, "x", nodes, {"memory": 1, PAGES: random.randint(0, 9)})
    figures = use(*(random.randint(0, 10) for _ in range(3)), promised=random.randint(0, 12))
    groups = {node.cells for node in state.machine_state.values()}

    def untouched(group: NodeSet) -> int:
        own = sum(state.machine_state[n].table(PAGES).reserved for n in group)
        return max(0, own - sum(figures.pools[n][PAGES].used for n in group))

    found = seen(state, figures)
    for group in groups:
        expected = room(state, figures, group, sum(map(untouched, groups)))
        assert sum(found[n] for n in group) == expected


@pytest.mark.parametrize("seed", range(60))
def test_what_is_seen_is_what_is_left_when_every_pod_uses_what_it_holds(
    empty: State, seed: int
) -> None:
    """A world in which everybody's use is known beforehand, and what of it the kernel shows."""
    random = Random(seed)
    state, used = empty, [0, 0, 0]
    by_pods: dict[str, dict[int, dict[str, int]]] = {}
    places = random.choice([[N0, N1, N2], [N01, N2], [N0, NodeSet([1, 2])]])
    for uid in "abcde":
        nodes, size = random.choice(places), random.randint(0, 5)
        if sum(state.machine_state[n].table(PAGES).free for n in nodes) < size:
            continue
        state = assign(state, uid, "x", nodes, {"memory": 1, PAGES: size})
        by_pods[uid] = {n: {PAGES: 0} for n in nodes}
        for _ in range(random.randint(0, size)):
            node = random.choice([n for n in nodes if used[n] < 10])
            by_pods[uid][node][PAGES] += 1
            used[node] += 1
    others = [random.randint(0, 10 - pages) for pages in used]
    held = [state.machine_state[n].table(PAGES).reserved for n in range(3)]
    foreign = random.randint(0, 4)
    promised = sum(held) - sum(used) + foreign
    figures = use(*map(sum, zip(used, others, strict=True)), promised=promised)
    found = seen(state, replace(figures, by_pods=by_pods))
    for nodes in {node.cells for node in state.machine_state.values()}:
        left = sum(10 - held[n] - others[n] for n in nodes) - foreign
        assert sum(found[n] for n in nodes) == max(0, left)


@pytest.mark.parametrize("seed", range(20))
def test_what_was_placed_meanwhile_is_on_the_books(empty: State, seed: int) -> None:
    random = Random(seed)
    figures = use(*(random.randint(0, 10) for _ in range(3)), promised=random.randint(0, 5))
    withheld = withhold(empty, figures)
    nodes = random.choice([N0, N01, N2])
    size = min(3, sum(withheld.state.machine_state[n].table(PAGES).free for n in nodes))
    after = withheld.put_back(assign(withheld.state, "a", "x", nodes, {PAGES: size}))
    assert check_books(after) == ()
    assert sum(free(after)) == 30 - size


# The words of a refusal


def refuse(state: State, figures: PoolUse, size: int) -> str:
    request = {"memory": GI, PAGES: size}
    books = withhold(state, figures).state
    choices = choices_for(books, "new", request, NodeSet())
    return reject(books, request, choices, Preferences(), "Reason", "Sentence").message


def test_a_refusal_names_what_others_took(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI, PAGES: 2 * GI} for n in range(2)})
    figures = use(GI // 2, 3 * GI // 2, total=2 * GI)
    assert refuse(state, figures, 2 * GI) == (
        "requested memory 1Gi, hugepages-2Mi 2Gi; one empty NUMA node would do; "
        "by itself it would fit on NUMA nodes 0-1; "
        "NUMA node 0: memory 4Gi free of 4Gi, hugepages-2Mi 1.5Gi free of 2Gi "
        "(512Mi taken outside of pods), unused; "
        "NUMA node 1: memory 4Gi free of 4Gi, hugepages-2Mi 512Mi free of 2Gi "
        "(1.5Gi taken outside of pods), unused; Sentence"
    )


def test_a_refusal_on_many_nodes_names_their_sum(worlds: ModuleType) -> None:
    state = worlds.empty_state({n: {"memory": 4 * GI + n, PAGES: 2 * GI} for n in range(32)})
    figures = use(*(GI + n * GI // 64 for n in range(32)), total=2 * GI)
    message = refuse(state, figures, 100 * GI)
    assert len(message) <= MESSAGE_LIMIT
    assert "; 39.75Gi of hugepages-2Mi taken outside of pods; NUMA nodes 0-31: " in message
