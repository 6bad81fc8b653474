"""On random machines no memory policy would fail a creation, or use a node that it must not use."""

from random import Random

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import HostReservation
from nri_numamem.nri.encode import create_container_response
from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryNodes,
    MemoryPolicies,
    NodeSet,
    NumaNode,
    PolicyMode,
    WithoutCpus,
)
from tests.laboratory import api_pb2 as api
from tests.laboratory.results import apply_adjustment, check_memory_policy

GI = 1 << 30
MODES = tuple(PolicyMode)


def random_machine(random: Random) -> Machine:
    """Return a machine whose first node has CPUs and memory."""
    ids = [0, *sorted(random.sample(range(1, 12), random.randint(0, 5)))]
    return Machine(
        tuple(
            NumaNode(
                n,
                random.choice((0, 2 * GI, 8 * GI)) if n else 4 * GI,
                cpus=CpuSet(range(4 * n, 4 * n + 4))
                if not n or random.random() < 0.7
                else CpuSet(),
            )
            for n in ids
        )
    )


def random_creation(random: Random, machine: Machine, uid: str) -> events.CreateContainer:
    level = random.choice(("", "", "burstable/"))
    pod = events.PodSandbox(f"s{uid}", uid, "ns", f"p{uid}", f"/kubepods/{level}pod{uid}")
    ids = [node.node_id for node in machine.nodes]
    mems = str(NodeSet(random.sample(ids, random.randint(1, len(ids)))))
    device = NodeSet(random.sample(ids, 1))
    container = events.Container(
        f"c{uid}",
        pod.sandbox_id,
        "main",
        random.choice((None, GI, 3 * GI, 9 * GI)),
        cpuset_mems=random.choice(("", "", mems)),
        device_nodes=random.choice(((), (device,))),
    )
    request = PolicyRequest(random.choice(MODES))
    return events.CreateContainer(pod, container, policy_request=request)


@pytest.mark.parametrize("seed", range(10))
def test_every_policy_is_valid_on_the_nodes_of_its_container(seed: int) -> None:
    random, policies = Random(seed), 0
    for _ in range(20):
        machine = random_machine(random)
        policy = Policy(
            host_reservation=HostReservation(eviction_hard={"memory.available": "0"}),
            memory_nodes=MemoryNodes(random.choice(tuple(WithoutCpus))),
            memory_policies=MemoryPolicies(MODES),
        )
        engine = Engine(new_context(machine, policy))
        for number in range(8):
            event = random_creation(random, machine, str(number))
            plan = engine.decide(event)
            engine.commit()
            data = create_container_response(plan).SerializeToString()
            adjust = api.CreateContainerResponse.FromString(data).adjust
            if not adjust.linux.HasField("memory_policy"):
                continue
            policies += 1
            container = api.Container()
            container.linux.resources.cpu.mems = event.container.cpuset_mems
            apply_adjustment(container, adjust, hugetlb=False)
            check_memory_policy(container, adjust.linux.memory_policy)
            nodes = NodeSet.parse(adjust.linux.memory_policy.nodes)
            mems = container.linux.resources.cpu.mems
            assert nodes.issubset(NodeSet.parse(mems) if mems else machine.node_set)
            if not mems:
                assert nodes.isdisjoint(engine.context.classification.excluded)
    assert policies > 50
