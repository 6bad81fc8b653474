"""The search for a rebalancing plan, on machines whose requests take any admissible node set."""

from collections.abc import Iterable, Mapping
from itertools import combinations

from nri_numamem.memorymanager import (
    Container,
    ContainerKind,
    Pod,
    Rejection,
    State,
    adopt,
    default_state,
)
from nri_numamem.memorymanager.rebalance import Place, Rebalancing, Share, find_plan
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.topologymanager import Topology, admit

GI = 1 << 30


def machine(count: int, size: int = 10) -> State:
    nodes = (NumaNode(n, size * GI, {}) for n in range(count))
    return default_state(Machine(tuple(nodes)), {})


def with_pods(state: State, pods: Mapping[str, tuple[str, int]]) -> State:
    """Add pods: uid -> (nodes, GiB)."""
    for uid, (nodes, size) in pods.items():
        state = adopt(state, uid, "c", NodeSet.parse(nodes), {"memory": size * GI}).state
    return state


class Request:
    """A request in GiB, and how often it was tried."""

    def __init__(self, size: int) -> None:
        self.trials = 0
        container = Container("c", ContainerKind.APP, {"memory": size * GI})
        self._pod = Pod("new", guaranteed=True, containers=(container,))

    def place(self, state: State) -> NodeSet | None:
        self.trials += 1
        placed = admit(state, self._pod, "c", Topology())
        return None if isinstance(placed, Rejection) else placed.nodes


def of(uid: str, node: int, resident: int | None = None, **facts: object) -> Share:
    size = None if resident is None else resident * GI
    return Share(uid, node, ("c",), size, **facts)  # type: ignore[arg-type]


def moves(plan: Rebalancing) -> list[tuple[str, int, int]]:
    return [(move.share.uid, move.share.node_id, move.target) for move in plan.moves]


def test_one_pod_moves_to_the_first_node_with_room() -> None:
    state = with_pods(machine(3), {"a": ("0", 6), "b": ("1", 8), "c": ("2", 6)})
    plan = find_plan(state, [of("a", 0, 3), of("b", 1, 1), of("c", 2, 2)], Request(9).place)
    assert (moves(plan), plan.nodes, plan.cost_bytes) == ([], NodeSet(), 0)
    state = with_pods(machine(3), {"a": ("0", 6), "b": ("1", 8), "c": ("2", 4)})
    # b is the smallest, but fits on no other node.
    plan = find_plan(state, [of("a", 0, 3), of("b", 1, 1), of("c", 2, 2)], Request(9).place)
    assert (moves(plan), plan.nodes, plan.cost_bytes) == ([("c", 2, 0)], NodeSet([2]), 2 * GI)
    assert plan.moves[0].assigned_bytes == 4 * GI


def test_a_small_pod_leaves_a_node_that_a_group_needs() -> None:
    state = with_pods(machine(3), {"a": ("1", 1), "b": ("2", 6)})
    plan = find_plan(state, [of("a", 1), of("b", 2)], Request(18).place)
    assert (moves(plan), plan.nodes) == ([("a", 1, 2)], NodeSet([0, 1]))
    # Its resident bytes are unknown, so what it holds counts.
    assert plan.cost_bytes == GI


def test_two_pods_move_where_one_is_not_enough() -> None:
    state = with_pods(machine(2), {"a": ("0", 3), "b": ("0", 3), "c": ("1", 4)})
    shares = [of("a", 0, 2), of("b", 0, 1)]
    plan = find_plan(state, shares, Request(10).place)
    assert moves(plan) == [("b", 0, 1), ("a", 0, 1)]
    assert plan.cost_bytes == 3 * GI
    assert moves(find_plan(state, shares, Request(10).place, max_moves=1)) == []


def test_pods_that_consent_come_first() -> None:
    state = with_pods(machine(3), {"a": ("0", 5), "b": ("1", 5), "c": ("2", 4)})
    cheap, willing = of("a", 0, 1), of("b", 1, 5, is_consented=True)
    assert moves(find_plan(state, [cheap, willing], Request(9).place)) == [("b", 1, 0)]
    assert moves(find_plan(state, [cheap, of("b", 1, 5)], Request(9).place)) == [("a", 0, 1)]


def test_of_equally_small_pods_the_one_with_less_assigned_memory_moves() -> None:
    state = with_pods(machine(3), {"a": ("0", 5), "b": ("1", 4), "c": ("2", 5)})
    plan = find_plan(state, [of(uid, node, 1) for node, uid in enumerate("abc")], Request(9).place)
    assert moves(plan) == [("b", 1, 0)]


def test_what_fits_needs_no_plan() -> None:
    state = with_pods(machine(2), {"a": ("0", 5)})
    plan = find_plan(state, [of("a", 0)], Request(9).place)
    assert plan == Rebalancing(nodes=NodeSet([1]), fits_now=True)


def test_pods_that_must_not_move_are_named() -> None:
    state = with_pods(machine(2), {"a": ("0", 5), "b": ("1", 5)})
    fixed = of("a", 0, 1, obstacle="hugepages")
    plan = find_plan(state, [fixed, of("b", 1, 2, obstacle="devices")], Request(9).place)
    assert plan == Rebalancing(blocking=(fixed,))
    # One that may move is preferred, whatever its size.
    assert moves(find_plan(state, [fixed, of("b", 1, 4)], Request(9).place)) == [("b", 1, 0)]
    # Nothing can be done for a request that is too large.
    assert find_plan(state, [fixed], Request(99).place) == Rebalancing()


def test_last_resort_nodes_are_the_last_targets() -> None:
    state = with_pods(machine(3), {"a": ("2", 5), "b": ("1", 4), "c": ("0", 4)})
    found = find_plan(state, [of("a", 2)], Request(9).place)
    assert moves(found) == [("a", 2, 0)]
    found = find_plan(state, [of("a", 2)], Request(9).place, last_resort=NodeSet([0]))
    assert moves(found) == [("a", 2, 1)]


def test_a_pod_on_a_node_that_is_excluded_is_no_help() -> None:
    state = adopt(machine(1), "a", "c", NodeSet([7]), {"memory": GI}).state
    request = Request(99)
    assert find_plan(state, [of("a", 7)], request.place) == Rebalancing()
    assert request.trials == 1


def test_the_search_gives_up() -> None:
    state = with_pods(machine(2), {"a": ("0", 5), "b": ("1", 5)})
    plan = find_plan(state, [of("a", 0)], Request(9).place, max_trials=2)
    assert plan == Rebalancing(is_complete=False)
    # The movable ones were tried, so only the reason is missing.
    fixed = of("b", 1, obstacle="devices")
    plan = find_plan(state, [of("a", 0, 1), fixed], Request(19).place, max_trials=2)
    assert plan == Rebalancing()


def crowded(nodes: int, pods: int) -> tuple[State, list[Share]]:
    """Return a machine with equal pods on each node, which leave 1 GiB of it."""
    state = machine(nodes, 2 * pods + 1)
    placed = {f"p{node}-{n}": (str(node), 2) for node in range(nodes) for n in range(pods)}
    return with_pods(state, placed), [of(uid, int(node)) for uid, (node, _) in placed.items()]


def test_many_pods() -> None:
    state, shares = crowded(16, 3)
    request = Request(4)
    # Two pods of a node would make room, but no other node has room for them.
    assert find_plan(state, shares, request.place) == Rebalancing()
    pairs = len(shares) * (len(shares) - 1) // 2
    pairs_of_nodes = 16 * 15 // 2
    assert request.trials <= 2 + 16 + pairs_of_nodes + len(shares) + pairs
    request = Request(4)
    assert not find_plan(state, shares, request.place, max_trials=100).is_complete
    assert request.trials == 100


def test_a_search_without_hope_is_short() -> None:
    state, shares = crowded(16, 3)
    request = Request(16 * 7 + 1)
    assert find_plan(state, shares, request.place) == Rebalancing()
    assert request.trials == 2
    # A node is not enough for it, nor are two; so no two pods are.
    request = Request(3 * 7)
    assert find_plan(state, shares, request.place) == Rebalancing()
    assert request.trials == 2 + 16 + 16 * 15 // 2


def test_sets_come_in_the_order_of_their_costs() -> None:
    costs = [3, 0, 5, 3, 8, 1]
    tried: list[tuple[int, ...]] = []
    state = machine(6)
    for node, _ in enumerate(costs):
        state = with_pods(state, {f"p{node}": (str(node), 6)})

    def place(accounting: State) -> NodeSet | None:
        missing = tuple(n for n in range(6) if f"p{n}" not in accounting.assignments)
        tried.append(missing)
        return NodeSet([0]) if len(missing) > 3 else None

    assert not find_plan(state, [of(f"p{n}", n, c) for n, c in enumerate(costs)], place).moves
    wanted = [*_sets(costs)]
    assert tried[2:] == [tuple(sorted(found)) for found in wanted]


def _sets(costs: Iterable[int]) -> Iterable[tuple[int, ...]]:
    order = sorted((cost, f"p{n}", n) for n, cost in enumerate(costs))
    ranked = [
        (sum(order[i][0] for i in chosen), len(chosen), chosen)
        for size in (1, 2)
        for chosen in combinations(range(len(order)), size)
    ]
    return [tuple(order[i][2] for i in chosen) for _, _, chosen in sorted(ranked)]


def test_equal_arguments_give_equal_plans() -> None:
    state, shares = crowded(3, 4)
    state = with_pods(state, {})
    request: Place = Request(3).place
    plan = find_plan(state, shares, request)
    assert find_plan(state, shares[::-1], request) == plan
