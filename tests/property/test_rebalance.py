"""Rebalancing plans on random machines, compared with a search of all moves and targets."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from random import Random

import pytest

from nri_numamem.engine.admission.placement import place_by_hints
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Rejection, Reservation, State, adopt, remove_containers
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.memorymanager.rebalance import (
    Place,
    Rebalancing,
    Share,
    assignments_of,
    find_plan,
)
from nri_numamem.numa import CpuSet, Machine, MemoryNodes, NodeSet, NumaNode, Strategy
from nri_numamem.numa.memory_nodes import WithoutCpus

MI = 1 << 20
POLICIES = ("best-effort", "restricted", "single-numa-node", "none")


def random_context(random: Random) -> Context:
    """Two to five nodes of different sizes, some with hugepages; perhaps one without CPUs."""
    count = random.randint(2, 5)
    slow = count - 1 if random.random() < 0.3 else None
    nodes = tuple(
        NumaNode(
            node_id,
            random.randint(6, 12) * MI,
            {2 * MI: random.choice([0, 1, 1])},
            CpuSet() if node_id == slow else CpuSet([node_id]),
            {
                other: 10 if other == node_id else 12 + abs(node_id - other)
                for other in range(count)
            },
        )
        for node_id in range(count)
    )
    policy = Policy(
        topology_manager_policy=random.choice(POLICIES),
        reserved_memory=(Reservation(0, {"memory": MI}),),
        memory_nodes=MemoryNodes(random.choice([*WithoutCpus])),
        placement_strategy=random.choice([*Strategy]),
    )
    return new_context(Machine(nodes), policy)


def random_world(random: Random) -> tuple[Context, State, list[Share]]:
    """Return a machine with pods that the plugin placed, or found anywhere."""
    context = random_context(random)
    accounting = context.empty_accounting()
    known = list(accounting.machine_state)
    for number in range(random.randint(3, 6)):
        request = {"memory": random.choice([1, 2, 3, 5]) * MI}
        if random.random() < 0.15:
            request["hugepages-2Mi"] = 2 * MI
        uid = f"pod{number}"
        if random.random() < 0.3:
            nodes = NodeSet(random.choices(known, k=random.choice([1, 1, 1, 2])))
            accounting = adopt(accounting, uid, "c", nodes, request).state
            continue
        placed = place_by_hints(context, accounting, (uid, "c"), request)
        if not isinstance(placed, Rejection):
            accounting = placed.accounting
    return context, accounting, [*random_shares(random, accounting)]


def random_shares(random: Random, accounting: State) -> Iterator[Share]:
    for uid, containers in accounting.assignments.items():
        (nodes,) = {block.numa_affinity for blocks in containers.values() for block in blocks}
        if len(nodes) == 1:
            yield Share(
                uid,
                next(iter(nodes)),
                tuple(map(str, containers)),
                random.choice([None, random.randint(0, 4) * MI]),
                is_consented=random.random() < 0.5,
                obstacle=random.choice(["", "", "", "it has devices"]),
            )


def random_place(random: Random, context: Context) -> Place:
    nodes = [node.node_id for node in context.machine.nodes]
    others = NO_OTHER_PROVIDERS
    if random.random() < 0.3:
        others = OtherProviders((NodeSet([random.choice(nodes)]),))
    request = {"memory": random.randint(5, 18) * MI}
    if random.random() < 0.2:
        request["hugepages-2Mi"] = 2 * MI

    def place(accounting: State) -> NodeSet | None:
        placed = place_by_hints(context, accounting, ("new", "c"), request, others)
        return None if isinstance(placed, Rejection) else placed.nodes

    return place


def moved(accounting: State, shares: Sequence[Share], targets: Sequence[int]) -> State | None:
    """Return the accounting after these moves; None if a target does not hold a share."""
    requests = []
    for share in shares:
        names = assignments_of(accounting, share.uid, share.node_id)
        blocks = [b for name in names for b in accounting.assignments[share.uid][name]]
        requests.append({block.type: block.size for block in blocks})
        accounting = remove_containers(accounting, share.uid, names)
    for share, request, target in zip(shares, requests, targets, strict=True):
        nodes = NodeSet([target])
        if target == share.node_id or not is_admissible(accounting, share.uid, request, nodes):
            return None
        accounting = assign(accounting, share.uid, "c", nodes, request)
    return accounting


def cost_of(accounting: State, shares: Sequence[Share]) -> int:
    total = 0
    for share in shares:
        blocks = accounting.assignments[share.uid]["c"]
        assigned = sum(block.size for block in blocks if block.type == "memory")
        total += assigned if share.resident_bytes is None else share.resident_bytes
    return total


def cheapest_of_all(accounting: State, shares: Sequence[Share], place: Place) -> int | None:
    """Return the cost of the cheapest plan, by trying every one."""
    costs = []
    for count in (1, 2):
        for chosen in combinations(shares, count):
            for targets in product(accounting.machine_state, repeat=count):
                # The order in which shares are assigned has no effect on the result.
                after = moved(accounting, chosen, targets)
                if after is not None and place(after) is not None:
                    costs.append(cost_of(accounting, chosen))
    return min(costs, default=None)


def check(accounting: State, shares: list[Share], place: Place, plan: Rebalancing) -> None:
    movable = [share for share in shares if not share.obstacle]
    consenting = [share for share in movable if share.is_consented]
    best = cheapest_of_all(accounting, consenting, place)
    if best is None:
        best = cheapest_of_all(accounting, movable, place)
    assert plan.is_complete
    assert (plan.cost_bytes if plan.moves else None) == best
    if plan.moves:
        chosen = [move.share for move in plan.moves]
        after = moved(accounting, chosen, [move.target for move in plan.moves])
        assert after is not None
        assert place(after) == plan.nodes
        assert not any(share.obstacle for share in chosen)
        assert not plan.blocking
    else:
        found = cheapest_of_all(accounting, shares, place)
        assert bool(plan.blocking) == (found is not None)
        assert all(share.obstacle for share in plan.blocking)


@pytest.mark.parametrize("seed", range(6))
def test_plans_are_the_cheapest_of_all(seed: int) -> None:
    random = Random(seed)
    planned = 0
    for _ in range(60):
        context, accounting, shares = random_world(random)
        place = random_place(random, context)
        last_resort = context.topology.preferences.last_resort
        plan = find_plan(accounting, shares, place, last_resort=last_resort)
        nodes = place(accounting)
        assert plan.fits_now == (nodes is not None)
        if plan.fits_now:
            assert (plan.moves, plan.nodes) == ((), nodes)
            continue
        random.shuffle(shares)
        assert find_plan(accounting, shares, place, last_resort=last_resort) == plan
        check(accounting, shares, place, plan)
        planned += bool(plan.moves)
    assert planned, "no machine of this seed has a plan"
