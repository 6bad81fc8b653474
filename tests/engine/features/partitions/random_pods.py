"""Random operations on engines with partitions; what they answer is compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import CpuSet
from tests.engine.conftest import MI, PAGE, Answer, Host
from tests.engine.features.partitions.twins import NODE_MI, PAGES, Twins


def outcome(answer: Answer) -> object:
    """Return what the runtime sees, without the text of a refusal."""
    return answer.adjustment, answer.refusal is None, answer.updates


@dataclass
class RandomPod:
    pod: PodSandbox
    sizes: Mapping[str, int | None]
    """Container -> bytes of memory; None without a limit."""
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
        amounts = {name: int(rng.choice(shares) * NODE_MI) * MI for name in names}
        pages = rng.choice((0, 0, 1, 2)) * PAGE
        limit = rng.choice((sum(amounts.values()),) * 3 + (None,))
        sizes: dict[str, int | None] = {**amounts}
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
        if limit is not None and rng.random() < 0.2:
            sizes[rng.choice(names)] = None  # it shares what the others leave of the limit
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
            before = host.engine.state
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
            self._twins.check_creation(host, before, each.pod)
        assert len({str(outcome(answer)) for answer in answers}) == 1
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
            size = int(self._rng.choice((0.2, 0.4, 0.7, 1.2)) * NODE_MI) * MI
            answers = [
                host.resize(host.containers[each.running[name]], size)
                for host in self._twins.both(each.pod.namespace)
            ]
            assert len({str(outcome(answer)) for answer in answers}) == 1

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
        for host in self._twins.hosts():
            for container_id in away & host.containers.keys():
                _change(host, container_id, "")
            answer = host.synchronize()
            found = {one.container_id: one.cpuset_mems for one in answer.updates}
            for container_id, mems in found.items():
                _change(host, container_id, mems)
            updates.append(found)
        together = {i: mems for found in updates[1:] for i, mems in found.items()}
        assert updates[0] == together or not updates[1:]


def _change(host: Host, container_id: str, mems: str) -> None:
    known: Container = host.containers[container_id]
    host.containers[container_id] = replace(known, cpuset_mems=mems)
