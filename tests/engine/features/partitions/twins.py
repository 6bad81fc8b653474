"""An engine with partitions, and one engine for each kind of pods.

The engine of a kind has no partitions, and its machine has only the nodes of that kind. If the
nodes of two kinds are disjoint, both engines must answer alike, and account alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuSet, Exclusive, Machine, NodeSet, NumaNode, Partition
from tests.engine.conftest import MI, PAGE, Host

PAGES = "hugepages-2Mi"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
REST = "other"
"""The namespace of the pods that no partition matches; those of a partition have its name."""
NODE_MI = 48


def machine_of(rng: Random, count: int) -> Machine:
    """Return nodes of different sizes, of which 0-1 and 2-3 are close."""
    return Machine(
        tuple(
            NumaNode(
                n,
                rng.choice((NODE_MI - 8, NODE_MI)) * MI,
                {PAGE: rng.choice((2, 4))},
                CpuSet((2 * n, 2 * n + 1)),
                {m: 10 if m == n else 12 if m // 2 == n // 2 else 21 for m in range(count)},
            )
            for n in range(count)
        )
    )


def part_of(machine: Machine, nodes: NodeSet) -> Machine:
    """Return a machine that has only these nodes."""
    return Machine(
        tuple(
            replace(node, distances={n: d for n, d in node.distances.items() if n in nodes})
            for node in machine.nodes
            if node.node_id in nodes
        )
    )


def reserved(machine: Machine) -> tuple[Reservation, ...]:
    return tuple(Reservation(node.node_id, {"memory": MI}) for node in machine.nodes)


def exclusive_partitions(rng: Random, count: int) -> tuple[Partition, ...]:
    """Return one or two exclusive partitions, which leave at least one node to the rest."""
    ids = rng.sample(range(count), count)
    sizes = rng.choice([s for s in ((1,), (2,), (3,), (1, 1), (1, 2), (2, 1)) if sum(s) < count])
    found = []
    for number, size in enumerate(sizes):
        nodes, ids = NodeSet(ids[:size]), ids[size:]
        kind = rng.choice((Exclusive.GUARANTEED, Exclusive.ALL))
        name = f"part-{number}"
        found.append(Partition(name, nodes, namespaces=(name,), exclusive=kind))
    return tuple(found)


@dataclass
class Twins:
    """The engine with partitions, and by namespace the engine of each kind of pods."""

    whole: Host
    parts: Mapping[str, Host]

    @classmethod
    def of(cls, machine: Machine, policy: Policy) -> "Twins":
        whole = Host(
            Engine(new_context(machine, replace(policy, reserved_memory=reserved(machine))))
        )
        nodes = {each.name: each.nodes for each in policy.partitions}
        taken = NodeSet(n for each in nodes.values() for n in each)
        parts = {}
        for name, own in {**nodes, REST: machine.node_set - taken}.items():
            part = part_of(machine, own)
            alone = replace(policy, partitions=(), reserved_memory=reserved(part))
            parts[name] = Host(Engine(new_context(part, alone)))
        return cls(whole, parts)

    def both(self, namespace: str) -> tuple[Host, ...]:
        """Return the hosts that get the operations of a namespace."""
        return self.whole, self.parts[namespace]

    def hosts(self) -> tuple[Host, ...]:
        return self.whole, *self.parts.values()

    def check_creation(self, host: Host, before: EngineState, pod: PodSandbox) -> None:
        """Check what a creation changed."""

    def check(self) -> None:
        """Compare the accounting of each kind of pods."""
        state = self.whole.engine.state
        for namespace, part in self.parts.items():
            alone = part.engine.state
            for node_id, node in alone.accounting.machine_state.items():
                assert state.accounting.machine_state[node_id] == node
            uids = {p.uid for p in self.whole.pods.values() if p.namespace == namespace}
            assigned = state.accounting.assignments
            assert {u: a for u, a in assigned.items() if u in uids} == alone.accounting.assignments
            waiting = {uid: found for uid, found in state.outstanding.items() if uid in uids}
            assert waiting == alone.outstanding


class Alone(Twins):
    """Only the engine with partitions, of which the rest may use some nodes."""

    def both(self, namespace: str) -> tuple[Host, ...]:
        return (self.whole,)

    def hosts(self) -> tuple[Host, ...]:
        return (self.whole,)

    def check(self) -> None:
        """Check that all pods are on their nodes."""
        state, pods = self.whole.engine.state, self.whole.pods.values()
        for pod in pods:
            nodes = self.nodes_of(pod.namespace)
            for blocks in state.accounting.assignments.get(pod.uid, {}).values():
                assert all(block.numa_affinity.issubset(nodes) for block in blocks)

    def nodes_of(self, namespace: str) -> NodeSet:
        """Return the nodes by the settings: of a partition its own, of the rest all others."""
        partitions = self.whole.engine.context.policy.partitions
        taken = NodeSet()
        for each in partitions:
            if each.name == namespace:
                return each.nodes
            if each.exclusive is not Exclusive.NONE:
                taken |= each.nodes
        return self.whole.engine.context.machine.node_set - taken

    def check_creation(self, host: Host, before: EngineState, pod: PodSandbox) -> None:
        """Check that a pod that begins takes nothing that begun pods need."""
        after, context = host.engine.state, host.engine.context
        has_begun = any(isinstance(n, str) for n in before.accounting.assignments.get(pod.uid, {}))
        has_begun |= pod.sandbox_id in before.cpusets.without_assignment
        is_created = before.holders != after.holders
        if has_begun or not is_created or context.places_pods or not context.rejects:
            return
        own = self.nodes_of(pod.namespace)
        for nodes in {self.nodes_of(each.namespace) for each in host.pods.values()}:
            is_around = own.issubset(nodes) and pod.memory_limit_bytes is not None
            for name, size in self._needed(after, nodes).items():
                free = _free(after, nodes, name)
                is_less = free < _free(before, nodes, name)
                is_inside = nodes.issubset(own) and nodes != own
                assert size <= free or not (is_around or (is_inside and is_less))

    def _needed(self, state: EngineState, nodes: NodeSet) -> dict[str, int]:
        """Return what begun pods need that may use these nodes only."""
        needed = {"memory": 0, PAGES: 0}
        for pod in self.whole.pods.values():
            if self.nodes_of(pod.namespace).issubset(nodes):
                for name, size in state.outstanding.get(pod.uid, {}).items():
                    needed[name] += size
        return needed


def _free(state: EngineState, nodes: NodeSet, name: str) -> int:
    machine = state.accounting.machine_state
    return sum(machine[n].table(name).free for n in nodes)
