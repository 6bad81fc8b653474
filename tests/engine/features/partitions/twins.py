"""Random pods on an engine with partitions, and on one engine for each kind of pods.

The engine of a kind has no partitions, and its machine has only the nodes of that kind. If the
nodes of two kinds are disjoint, both engines must answer alike, and account alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import PoolUse, Reservation
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet, Exclusive, Machine, NodeSet, NumaNode, Partition
from tests.engine.conftest import MI, PAGE, Answer, Host

PAGES = "hugepages-2Mi"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
REST = "other"
"""The namespace of the pods that no partition matches; those of a partition have its name."""
_NODE_MI = 48


def machine_of(rng: Random, count: int) -> Machine:
    """Return nodes of different sizes, of which 0-1 and 2-3 are close."""
    return Machine(
        tuple(
            NumaNode(
                n,
                rng.choice((_NODE_MI - 8, _NODE_MI)) * MI,
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

    def both(self, namespace: str) -> tuple[Host, Host]:
        return self.whole, self.parts[namespace]

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


def outcome(answer: Answer) -> object:
    """Return what the runtime sees, without the text of a refusal."""
    return answer.adjustment, answer.refusal is None, answer.updates


@dataclass
class RandomPod:
    pod: PodSandbox
    sizes: Mapping[str, int]
    """Container -> bytes of memory."""
    pages: int = 0
    """Bytes of hugepages of each container."""
    running: dict[str, str] = field(default_factory=dict)
    """Container -> id."""

    def lacking(self) -> list[str]:
        return [name for name in self.sizes if name not in self.running]


class RandomPods:
    """Plays random operations on twins; both must answer alike."""

    def __init__(self, rng: Random, twins: Twins) -> None:
        self._rng, self._twins = rng, twins
        self._pods: list[RandomPod] = []
        self._count = 0
        self.admitted = self.refused = 0

    def play(self, steps: int) -> None:
        choices = {
            self._start: 4,
            self._create: 12,
            self._end_container: 2,
            self._resize: 4,
            self._end_pod: 2,
            self._synchronize: 1,
        }
        for _ in range(steps):
            (operation,) = self._rng.choices(list(choices), list(choices.values()))
            operation()
            self._twins.check()

    def _start(self) -> None:
        rng, self._count = self._rng, self._count + 1
        namespace = rng.choice(list(self._twins.parts))
        shares = (0.1, 0.2, 0.3, 0.5, 0.8, 1.3)
        names = ("a", "b", "c")[: rng.choice((1, 1, 2, 3))]
        sizes = {name: int(rng.choice(shares) * _NODE_MI) * MI for name in names}
        pages = rng.choice((0, 0, 1, 2)) * PAGE
        limit = rng.choice((sum(sizes.values()),) * 3 + (None,))
        pods = []
        for host in self._twins.both(namespace):
            pods += [
                host.run(
                    f"p{self._count}",
                    hugepages={PAGE: pages * len(names)} if pages else {},
                    memory=limit,
                    namespace=namespace,
                )
            ]
        assert pods[0] == pods[1]
        self._pods.append(RandomPod(pods[0], sizes, pages))

    def _create(self) -> None:
        rng = self._rng
        found = [each for each in self._pods if each.lacking()]
        if not found:
            return
        each = rng.choice(found)
        name = each.lacking()[0]
        self._count += 1
        container_id = f"c{self._count}"
        part = self._twins.parts[each.pod.namespace]
        nodes = part.engine.context.machine.node_set
        near = rng.sample([*nodes], rng.randint(1, len(nodes)))
        cpus = str(CpuSet(2 * n for n in near)) if rng.random() < 0.3 else ""
        devices = [str(rng.choice(near))] if rng.random() < 0.2 else []
        pools = self._pools() if each.pages and rng.random() < 0.5 else {}
        answers = []
        for host in self._twins.both(each.pod.namespace):
            ids = host.engine.context.machine.node_set
            answers += [
                host.create(
                    host.pods[each.pod.sandbox_id],
                    name,
                    each.sizes[name],
                    hugepages={PAGE: each.pages} if each.pages else None,
                    container_id=container_id,
                    cpus=cpus,
                    devices=devices,
                    pool_use=PoolUse({n: p for n, p in pools.items() if n in ids}, {}, {})
                    if pools
                    else None,
                )
            ]
        assert outcome(answers[0]) == outcome(answers[1])
        if container_id in self._twins.whole.containers:
            each.running[name] = container_id
            self.admitted += answers[0].adjustment is not None
        self.refused += answers[0].refusal is not None

    def _pools(self) -> dict[int, dict[str, Pool]]:
        """Return pools of which programs outside of pods use a part."""
        found = {}
        for node in self._twins.whole.engine.context.machine.nodes:
            total = node.hugepages[PAGE] * PAGE
            used = self._rng.randint(0, node.hugepages[PAGE]) * PAGE
            found[node.node_id] = {PAGES: Pool(used, total - used)}
        return found

    def _any_running(self) -> Iterator[tuple[RandomPod, str]]:
        found = [(each, name) for each in self._pods for name in each.running]
        if found:
            yield self._rng.choice(found)

    def _end_container(self) -> None:
        for each, name in self._any_running():
            container_id = each.running.pop(name)
            for host in self._twins.both(each.pod.namespace):
                host.stop(host.containers[container_id])

    def _resize(self) -> None:
        for each, name in self._any_running():
            size = int(self._rng.choice((0.2, 0.4, 0.7, 1.2)) * _NODE_MI) * MI
            answers = [
                host.resize(host.containers[each.running[name]], size)
                for host in self._twins.both(each.pod.namespace)
            ]
            assert outcome(answers[0]) == outcome(answers[1])

    def _end_pod(self) -> None:
        if not self._pods:
            return
        each = self._pods.pop(self._rng.randrange(len(self._pods)))
        for host in self._twins.both(each.pod.namespace):
            for container_id in each.running.values():
                host.containers.pop(container_id)
            host.stop_pod(each.pod)
            host.remove_pod(each.pod)

    def _synchronize(self) -> None:
        """Restart the plugin's connection; some containers were created while it was away."""
        ids = [i for each in self._pods for i in each.running.values()]
        away = {i for i in ids if self._rng.random() < 0.2}
        updates = []
        for host in (self._twins.whole, *self._twins.parts.values()):
            for container_id in away & host.containers.keys():
                _change(host, container_id, "")
            answer = host.synchronize()
            found = {one.container_id: one.cpuset_mems for one in answer.updates}
            for container_id, mems in found.items():
                _change(host, container_id, mems)
            updates.append(found)
        together = {i: mems for found in updates[1:] for i, mems in found.items()}
        assert updates[0] == together


def _change(host: Host, container_id: str, mems: str) -> None:
    known: Container = host.containers[container_id]
    host.containers[container_id] = replace(known, cpuset_mems=mems)
