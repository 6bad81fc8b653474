"""Plays the operations of a life on the engine, with the host of tests/engine."""

from dataclasses import dataclass, field

from nri_numamem.engine.core import events
from tests.engine.conftest import Answer, Host
from tests.sequences.node_life import NodeLife, node_life
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    ForgetPod,
    OfPod,
    Operation,
    PodSpec,
    RemoveContainer,
    Resize,
    Spec,
    StartPod,
    pod_hugepages,
)
from tests.sequences.settings import namespace_of


@dataclass
class _Pod:
    spec: PodSpec
    sandbox: events.PodSandbox
    done: set[str] = field(default_factory=set)
    """Ended init containers."""
    containers: dict[str, str] = field(default_factory=dict)
    """Name -> id of the newest container that runs."""

    def next_spec(self) -> Spec | None:
        """Return the init container that is not done, or the first container that lacks."""
        for spec in self.spec.specs:
            if spec.is_init and spec.name not in self.done:
                return spec
            if not spec.is_init and spec.name not in self.containers:
                return spec
        return None


class EngineDriver:
    """Plays a life step by step; container specs contain what the plan sets."""

    def __init__(self, host: Host, life: NodeLife, *, has_presets: bool = False) -> None:
        self.host = host
        self._created = 0
        self._life = life
        self._operations = life.operations()
        self._has_presets = has_presets
        self._pods: dict[str, _Pod] = {}
        self._ended: dict[tuple[str, str], events.Container] = {}

    def step(self) -> Operation:
        """Play the next operation that is possible, and return it."""
        while True:
            operation = next(self._operations)
            if self.play(operation):
                return operation

    def play(self, operation: Operation) -> bool:
        """Play an operation; return False if it is not possible."""
        if isinstance(operation, StartPod):
            return self._start(operation.pod)
        pod = self._pods.get(operation.pod)
        return pod is not None and self._play_in(pod, operation)

    def _play_in(self, pod: _Pod, operation: OfPod) -> bool:
        match operation:
            case CreateNext():
                return self._create(pod, operation)
            case EndPod(is_reported=True):
                self.host.stop_pod(pod.sandbox)
                self._forget(pod)
            case EndPod():
                self._drop_containers(pod)
                self.host.handle(events.PodCgroupGone(pod.sandbox))
            case ForgetPod():
                self._forget(pod)
            case RemoveContainer(key, name):
                ended = self._ended.pop((key, name), None)
                return ended is not None and bool(self.host.remove(ended))
            case EndContainer(container=name) | Resize(container=name):
                return self._change(pod, name, operation)
        return True

    def _change(self, pod: _Pod, name: str, operation: EndContainer | Resize) -> bool:
        running = self.host.containers.get(pod.containers.get(name, ""))
        if running is None:
            return False
        if isinstance(operation, Resize):
            self.host.resize(running, operation.memory_bytes)
        else:
            self._stop(pod, name)
        return True

    def _start(self, spec: PodSpec) -> bool:
        if any(pod.spec.key == spec.key for pod in self._pods.values()):
            return False
        pages = {size: limit for size, limit in pod_hugepages(spec.specs).items() if limit}
        level = "" if spec.is_guaranteed else "burstable/"
        sandbox = self.host.run(
            spec.name,
            level,
            pages,
            sandbox=f"sandbox-{spec.key}",
            memory=spec.memory_limit_bytes,
            namespace=namespace_of(spec.name, self._life.settings),
        )
        self._pods[spec.key] = _Pod(spec, sandbox)
        return True

    def _create(self, pod: _Pod, operation: CreateNext) -> bool:
        spec = pod.next_spec()
        if operation.container:
            (spec,) = (each for each in pod.spec.specs if each.name == operation.container)
        elif spec is not None and spec.name in pod.containers:
            pod.done.add(spec.name)
            self._stop(pod, spec.name)
            return True
        if spec is None:
            return False
        self._created += 1
        container_id = f"c{self._created}"
        mems = str(operation.preset) if self._has_presets else ""
        answer: Answer = self.host.create(
            pod.sandbox,
            spec.name,
            spec.memory_bytes,
            hugepages=spec.hugepages if self.host.shows_hugepages else None,
            mems=mems,
            container_id=container_id,
        )
        if answer.refusal is None:
            pod.containers[spec.name] = container_id
            if operation.fails_later:
                self.host.remove(self._stop(pod, spec.name))
        return True

    def _stop(self, pod: _Pod, name: str) -> events.Container:
        container = self.host.containers[pod.containers.pop(name)]
        self.host.stop(container)
        self._ended[pod.spec.key, name] = container
        return container

    def _drop_containers(self, pod: _Pod) -> None:
        """Let the runtime report no containers of a pod any more."""
        pod.containers.clear()
        for container in list(self.host.containers.values()):
            if container.sandbox_id == pod.sandbox.sandbox_id:
                del self.host.containers[container.container_id]

    def _forget(self, pod: _Pod) -> None:
        self._drop_containers(pod)
        self.host.remove_pod(pod.sandbox)
        del self._pods[pod.spec.key]


def life_on(host: Host, seed: int) -> EngineDriver:
    """Return what plays the life of a seed on the host's machine; it is not orderly."""
    return EngineDriver(host, node_life(seed, host.engine.context.machine, is_orderly=False))
