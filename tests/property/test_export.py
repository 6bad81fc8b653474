"""What the export shows as available is what the engine would still give to a Guaranteed pod."""

from random import Random

import pytest

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.rebuilt import rebuilt
from nri_numamem.export.amounts import CpuUse, memory_amounts
from nri_numamem.export.noderesourcetopology import Host as ShownHost
from nri_numamem.export.noderesourcetopology import noderesourcetopology
from nri_numamem.memorymanager import PoolUse, Reservation
from nri_numamem.memorymanager.hugepage_pools import Pool
from tests.engine.conftest import MI, PAGE, Host, NewHost
from tests.engine.conftest import new_host as new_host  # noqa: PLC0414 - a fixture
from tests.export.hosts import create
from tests.sequences.on_engine import life_on

RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))


def random_pools(random: Random) -> PoolUse | None:
    if random.random() < 0.5:
        return None
    used = {node: random.randrange(17) for node in range(4)}
    pools = {
        node: {"hugepages-2Mi": Pool(count * PAGE, (16 - count) * PAGE)}
        for node, count in used.items()
    }
    return PoolUse(pools, {"hugepages-2Mi": random.randrange(4) * PAGE})


def run_on_a_group(host: Host, random: Random, step: int) -> None:
    pod = host.run(f"old-{step}", memory=300 * MI)
    mems = random.choice(["0-1", "2-3", "0-2"])
    host.create(pod, "main", 300 * MI, mems=mems, container_id=f"old-{step}")


def nodes_of_new_pod(
    host: Host, node: int, memory: int, pages: int, pools: PoolUse | None
) -> str | None:
    """Return the nodes of a new pod beside a device of a node; None if it is refused."""
    engine = Engine.with_state(host.engine.context, host.engine.state)
    plan = create(engine, "new", memory, pages=pages, node=node, pool_use=pools)
    assert (plan.refusal is None) == (plan.adjustment is not None)
    return None if plan.adjustment is None else plan.adjustment.cpuset_mems


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(15))
def test_each_zone_holds_what_it_shows_and_no_more(
    new_host: NewHost, seed: int, scope: str
) -> None:
    policy = Policy(
        topology_manager_policy="single-numa-node",
        topology_manager_scope=scope,
        reserved_memory=RESERVED,
    )
    host, random = new_host(policy), Random(seed)
    new_host.groups_may_mix = True
    life = life_on(host, seed)
    for step in range(40):
        life.step()
        if step in (5, 25):  # groups are older than the policy
            run_on_a_group(host, random, step)
        if step % 4:
            continue
        pools = random_pools(random)
        zones = memory_amounts(host.engine.context, host.engine.state, pools)
        for node, amounts in zones.items():
            memory = amounts["memory"].available
            pages = amounts["hugepages-2Mi"].available // PAGE
            assert nodes_of_new_pod(host, node, memory + 1, 0, pools) is None
            if memory:
                assert nodes_of_new_pod(host, node, memory, 0, pools) == str(node)
                assert nodes_of_new_pod(host, node, 1, pages + 1, pools) is None
            if memory and pages:
                assert nodes_of_new_pod(host, node, 1, pages, pools) == str(node)


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("seed", range(10))
def test_the_state_file_gives_the_same_object(new_host: NewHost, seed: int, scope: str) -> None:
    policy = Policy(
        topology_manager_policy="single-numa-node",
        topology_manager_scope=scope,
        reserved_memory=RESERVED,
    )
    host = new_host(policy)
    life = life_on(host, seed)
    for _ in range(60):
        life.step()
        context, state = host.engine.context, host.engine.state
        use = CpuUse(dict.fromkeys(state.keys, 250))
        after = rebuilt(context, restore(snapshot(state)), state.pods.values())
        found = noderesourcetopology(ShownHost("w", context, after, None, use))
        assert found == noderesourcetopology(ShownHost("w", context, state, None, use))
