"""Random lives with even groups: the accounting holds, and a Synchronize restores it."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.annotations import MEMORY_POLICY
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Block, Reservation, State, check_accounting, check_groups
from nri_numamem.memorymanager.blocks import even_parts
from nri_numamem.memorymanager.holder import HolderKey
from nri_numamem.numa import MemoryPolicies, NodeSet, PolicyMode
from tests.engine.conftest import MI, Host, four_nodes

ANNOTATION = "memory-policy.numamem.io"
POLICY = Policy(
    reserved_memory=(Reservation(0, {"memory": 32 * MI}),),
    memory_policies=MemoryPolicies((PolicyMode.INTERLEAVE,), max_nodes=3, min_per_node_bytes=0),
)


def create(random: Random, host: Host, uid: str) -> None:
    """Create a container; each container that is placed evenly has equal parts and N nodes."""
    wanted = random.choice((0, 0, 2, 2, 3))
    pod = host.pods.get(f"sandbox-{uid}")
    if pod is None:
        annotations = {ANNOTATION: f"interleave:{wanted}"} if wanted else {}
        pod = replace(host.run(uid), annotations=annotations)
        host.pods[pod.sandbox_id] = pod
    text = pod.annotation(MEMORY_POLICY, "main")
    devices = random.choice(((), (), (NodeSet([random.randrange(4)]),)))
    container = events.Container(
        f"c{len(host.answers)}",
        pod.sandbox_id,
        random.choice(("main", "other")),
        random.choice((50, 100, 333, 700)) * MI + random.choice((0, 1, 4096)),
        device_nodes=devices,
    )
    name = (uid, container.name)
    holder = host.engine.state.holders.get(name)
    if holder is not None and not holder.ended:
        return
    event = events.CreateContainer(pod, container, policy_request=PolicyRequest(text))
    answer = host.handle(event)
    if answer.refusal is not None:
        return
    assert answer.adjustment is not None
    host.containers[container.container_id] = replace(
        container, cpuset_mems=answer.adjustment.cpuset_mems
    )
    if text:
        nodes = NodeSet.parse(answer.adjustment.cpuset_mems)
        assert len(nodes) == int(text.partition(":")[2])
        (block,) = blocks(host)[name]
        parts = even_parts(nodes, block.type, block.size)
        assert block.charges == tuple(parts.items())


def blocks(host: Host) -> Mapping[HolderKey, tuple[Block, ...]]:
    assignments = host.engine.state.accounting.assignments
    return {(uid, name): found for uid, each in assignments.items() for name, found in each.items()}


def sums(accounting: State) -> dict[NodeSet, int]:
    """Return group -> the sum of its reserved memory."""
    found: dict[NodeSet, int] = {}
    for node in accounting.machine_state.values():
        found[node.cells] = found.get(node.cells, 0) + node.table("memory").reserved
    return found


def step(random: Random, host: Host) -> None:
    running = list(host.containers.values())
    chance = random.random()
    if chance < 0.5 or not running:
        create(random, host, random.choice("abcdef"))
    elif chance < 0.65:
        host.stop(random.choice(running))
    elif chance < 0.8:
        host.resize(random.choice(running), random.choice((20, 150, 400, 1500)) * MI)
    elif chance < 0.9:
        pod = host.pods[random.choice(running).sandbox_id]
        gone = [one for one, each in host.containers.items() if each.sandbox_id == pod.sandbox_id]
        for container_id in gone:
            del host.containers[container_id]
        host.stop_pod(pod)
        host.remove_pod(pod)
    else:
        before = host.engine.state.accounting
        host.synchronize()
        after = host.engine.state.accounting
        assert after.assignments == before.assignments
        assert sums(after) == sums(before)


@pytest.mark.parametrize("seed", range(12))
def test_the_accounting_holds(seed: int) -> None:
    random, host = Random(seed), Host(Engine(new_context(four_nodes(), POLICY)))
    even = 0
    for _ in range(150):
        step(random, host)
        accounting = host.engine.state.accounting
        assert not check_accounting(accounting)
        assert not check_groups(accounting)
        even += any(block.is_even for found in blocks(host).values() for block in found)
    assert even > 20
