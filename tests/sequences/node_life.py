"""The life of a node as data, from a seed: a machine, settings, and what happens on it.

Drivers play a life: the engine alone (`on_engine`), the accounting and an oracle (tests/property),
`simulate` (`scenarios`), the daemon on a virtual clock (tests/lives), and processes (tests/faults).
A seed has the same operations in all of them, whatever the plugin decides. An operation names its
pod and container, so a driver skips it if that is impossible: the container was refused, or its pod
is gone.

    StartPod(db), CreateNext(db), CreateNext(db), StartPod(web), Resize(db/app-0 to 512 MiB), ...

Faults are in between. A fault names kinds by preference, and a driver plays the first that it has;
the details follow from the fault's own seed. Operations that follow happen while the fault lasts.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import Machine, NodeSet
from tests.sequences.machine import GI, MI, PAGE_1GI, PAGE_2MI, movable, random_machine
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    Fault,
    ForgetPod,
    Operation,
    PodSpec,
    RemoveContainer,
    Resize,
    Spec,
    StartPod,
)
from tests.sequences.settings import LifeSettings, random_annotations, random_settings

_MOST_PODS = 16
_MOST_BYTES = 16 * GI

# Kind of fault -> its weight. Each driver has some of them.
FAULTS = {
    "request overruns": 12,
    "plugin killed in a request": 11,
    "plugin killed": 7,
    "plugin restarted": 6,
    "rolling update": 8,
    "second instance": 3,
    "plugin stopped": 8,
    "plugin stopped for seconds": 4,
    "reply lost": 12,
    "cut while connecting": 8,
    "runtime killed": 8,
    "runtime killed in a request": 8,
    "runtime stopped": 5,
    "runtime does not read": 6,
    "runtime flaps": 4,
    "start while connecting": 10,
    "disk full": 5,
    "disk frozen": 4,
    "machine changed while away": 4,
    "machine changed": 4,
    "state file damaged": 4,
    "idle": 4,
}


@dataclass(frozen=True)
class NodeLife:
    """A life. Its operations have no end; drivers stop when they have played enough."""

    seed: int
    machine: Machine
    settings: LifeSettings
    is_orderly: bool = True
    """False: pods as no kubelet starts them, too; see `_Pods`."""
    least_bytes: int = 64 * MI
    """The smallest request, and what amounts are multiples of if it is less than 1 MiB."""

    @cached_property
    def has_devices(self) -> bool:
        """Whether containers have devices; the nodes of a running one with devices never change."""
        return not self.seed % 4

    @cached_property
    def has_presets(self) -> bool:
        """Whether another plugin sets the nodes of some containers."""
        return random.Random(f"presets {self.seed}").random() < 0.4

    def operations(self) -> Iterator[Operation]:
        """Yield the operations of normal work."""
        pods = _Pods(self)
        while True:
            yield from pods.any_operation()

    def steps(self, fault_share: float) -> Iterator[Operation | Fault]:
        """Yield the operations, and faults before some of them."""
        for number, operation in enumerate(self.operations()):
            rng = random.Random(f"{self.seed} fault {number}")
            if number > 2 and rng.random() < fault_share:
                by_preference = sorted(FAULTS, key=lambda kind: rng.expovariate(FAULTS[kind]))
                yield Fault(tuple(by_preference), f"{self.seed} details {number}")
            yield operation


def node_life(
    seed: int,
    machine: Machine | None = None,
    settings: LifeSettings | None = None,
    *,
    is_orderly: bool = True,
    least_bytes: int = 64 * MI,
) -> NodeLife:
    """Return the life of a seed; machine and settings follow from it unless they are given."""
    rng = random.Random(seed)
    machine = machine or random_machine(rng)
    return NodeLife(
        seed, machine, settings or random_settings(rng, machine), is_orderly, least_bytes
    )


@dataclass
class _Pod:
    """A pod as it would be if nothing were refused."""

    spec: PodSpec
    done: set[str] = field(default_factory=set)
    """Ended init containers."""
    alive: dict[str, int] = field(default_factory=dict)
    """Container -> its memory limit in bytes."""

    def crashing(self) -> list[str]:
        """Return the containers that may crash or change: those that are no init containers."""
        return [
            spec.name for spec in self.spec.specs if not spec.is_init and spec.name in self.alive
        ]

    def next_spec(self) -> Spec | None:
        """Return the container that runs as init container, or lacks."""
        for spec in self.spec.specs:
            if spec.is_init and spec.name not in self.done:
                return spec
            if not spec.is_init and spec.name not in self.alive:
                return spec
        return None


class _Pods:
    """The pods of a life, and a choice of what happens next.

    In a life that is not orderly sandboxes replace others that still run, pods have other limits
    than the sum of their containers, or none, and containers are created while they run.
    """

    def __init__(self, life: NodeLife) -> None:
        self._life = life
        self._random = random.Random(f"operations {life.seed}")
        self._running: dict[str, _Pod] = {}
        self._ended: list[str] = []
        """Names of pods that may return."""
        self._unreported: list[PodSpec] = []
        """Ended without calls, and listed until the runtime removes them."""
        self._ended_containers: list[tuple[str, str]] = []
        self._started = 0

    def any_operation(self) -> list[Operation]:
        """Return one operation, or a start with the creations that follow at once."""
        choices: dict[Callable[[], list[Operation]], int] = {
            self._start: 26,
            self._create: 34,
            self._crash: 9,
            self._remove_container: 4,
            self._resize: 8,
            self._end: 9,
            self._end_unreported: 5,
            self._forget: 5,
        }
        while True:
            (choice,) = self._random.choices(list(choices), list(choices.values()))
            if operations := choice():
                return operations

    def _start(self) -> list[Operation]:
        rng, is_orderly = self._random, self._life.is_orderly
        if len(self._running) >= _MOST_PODS:
            return []
        self._started += 1
        name, attempt = f"pod-{self._started}", 0
        qos = QosClass.GUARANTEED if rng.random() < 0.8 else QosClass.BURSTABLE
        if self._ended and rng.random() < 0.2:
            name, attempt, qos = rng.choice(self._ended), self._started, QosClass.GUARANTEED
            self._ended.remove(name)
        elif self._running and not is_orderly and rng.random() < 0.3:
            replaced = rng.choice(list(self._running.values())).spec
            name, attempt, qos = replaced.name, self._started, replaced.qos
        specs = self._random_specs(is_guaranteed=qos is QosClass.GUARANTEED)
        inits = [spec.memory_bytes for spec in specs if spec.is_init]
        limit: int | None = max([sum(s.memory_bytes for s in specs if not s.is_init), *inits])
        if not is_orderly and rng.random() < 0.5:
            limit = rng.choice((None, (limit or 0) // 2, 2 * (limit or 0)))
        annotations = random_annotations(rng, tuple(spec.name for spec in specs))
        pod = _Pod(PodSpec(name, qos, specs, attempt, annotations, limit))
        self._running[pod.spec.key] = pod
        creations = [self._create_in(pod) for _ in range(rng.choice((0, 1, 2)))]
        return [StartPod(pod.spec), *creations]

    def _random_specs(self, *, is_guaranteed: bool) -> tuple[Spec, ...]:
        """Return the containers of a pod: init containers first, then one to three others."""
        rng = self._random
        names = [f"init-{number}" for number in range(rng.choice((0, 0, 1, 2)))]
        names += [f"app-{number}" for number in range(rng.choice((1, 1, 2, 3)))]
        return tuple(self._random_spec(name, is_guaranteed=is_guaranteed) for name in names)

    def _random_spec(self, name: str, *, is_guaranteed: bool) -> Spec:
        rng, nodes = self._random, self._life.machine.nodes
        largest = max(node.memory_bytes for node in nodes)
        # Most containers are small; one of ten needs more memory than a node has.
        share = rng.choice((0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.4))
        memory = self._rounded(largest * share * rng.uniform(0.5, 1.0), self._life.least_bytes)
        if not is_guaranteed:
            is_equal = rng.random() < 0.7
            low = memory if is_equal else memory // 2
            return Spec(name, memory, {}, name.startswith("init-"), low)
        pages = {size: 0 for node in nodes for size in node.hugepages}
        if rng.random() < 0.3:
            pages[PAGE_2MI] = rng.choice((2, 16, 64, 200)) * PAGE_2MI
        if PAGE_1GI in pages and rng.random() < 0.1:
            pages[PAGE_1GI] = GI
        return Spec(name, memory, pages, name.startswith("init-"))

    def _rounded(self, size_bytes: float, least_bytes: int) -> int:
        unit = min(MI, self._life.least_bytes)
        return max(least_bytes, min(int(size_bytes), _MOST_BYTES) // unit * unit)

    def _create(self) -> list[Operation]:
        pods = list(self._running.values())
        lacking = [pod for pod in pods if pod.next_spec() is not None]
        # Refused containers are created again.
        found = lacking if lacking and self._random.random() < 0.8 else pods
        return [self._create_in(self._random.choice(found))] if found else []

    def _create_in(self, pod: _Pod) -> Operation:
        rng, spec = self._random, pod.next_spec()
        preset = self._preset(pod.spec)
        if not self._life.is_orderly and rng.random() < 0.2:
            spec = rng.choice(pod.spec.specs)
            pod.alive[spec.name] = spec.memory_bytes
            return CreateNext(pod.spec.key, spec.name, preset=preset)
        if spec is not None and spec.is_init and spec.name in pod.alive:
            self._end_container(pod, spec.name)
            pod.done.add(spec.name)
        elif spec is not None:
            pod.alive[spec.name] = spec.memory_bytes
        return CreateNext(pod.spec.key, fails_later=rng.random() < 0.05, preset=preset)

    def _preset(self, pod: PodSpec) -> NodeSet:
        """Return nodes that another plugin sets, whatever has room there; mostly the lowest."""
        rng, machine = self._random, self._life.machine
        has_policy = any("numamem.io" in name for name in pod.annotations)
        is_possible = self._life.has_presets and pod.is_guaranteed and not has_policy
        if not is_possible or rng.random() < 0.6:
            return NodeSet()
        unused = self._life.settings.excluded(machine) | movable(machine)
        usable = [n.node_id for n in machine.nodes if n.memory_bytes and n.node_id not in unused]
        if rng.random() < 0.2:
            rng.shuffle(usable)
        return NodeSet(usable[: rng.choice((1, 1, 1, 2))])

    def _end_container(self, pod: _Pod, name: str) -> None:
        del pod.alive[name]
        self._ended_containers.append((pod.spec.key, name))

    def _with_apps(self) -> _Pod | None:
        """Return a pod with app containers; the more it has, the more often."""
        pods = [pod for pod in self._running.values() for _ in pod.crashing()]
        return self._random.choice(pods) if pods else None

    def _crash(self) -> list[Operation]:
        pod = self._with_apps()
        if pod is None:
            return []
        name = self._random.choice(pod.crashing())
        self._end_container(pod, name)
        return [EndContainer(pod.spec.key, name)]

    def _remove_container(self) -> list[Operation]:
        ended = self._ended_containers
        return [RemoveContainer(*ended.pop(self._random.randrange(len(ended))))] if ended else []

    def _resize(self) -> list[Operation]:
        pod, rng = self._with_apps(), self._random
        if pod is None:
            return []
        name = rng.choice(pod.crashing())
        factor = rng.choice((0.5, 0.8, 1.1, 1.5))
        wanted = self._rounded(pod.alive[name] * factor, min(MI, self._life.least_bytes))
        pod.alive[name] = wanted
        low = wanted if rng.random() < 0.6 else wanted // 2
        return [Resize(pod.spec.key, name, wanted, low)]

    def _end(self) -> list[Operation]:
        pod = self._ended_pod()
        return [] if pod is None else [EndPod(pod.key)]

    def _end_unreported(self) -> list[Operation]:
        pod = self._ended_pod()
        if pod is None:
            return []
        self._unreported.append(pod)
        return [EndPod(pod.key, is_reported=False, is_swept=self._random.random() < 0.7)]

    def _ended_pod(self) -> PodSpec | None:
        """Remove a running pod, and return it."""
        if not self._running:
            return None
        key = self._random.choice(list(self._running))
        spec = self._running.pop(key).spec
        self._ended_containers = [each for each in self._ended_containers if each[0] != key]
        if spec.is_guaranteed and all(pod.spec.name != spec.name for pod in self._running.values()):
            self._ended.append(spec.name)
        return spec

    def _forget(self) -> list[Operation]:
        found = self._unreported
        if not found:
            return []
        return [ForgetPod(found.pop(self._random.randrange(len(found))).key)]
