"""Events in any order, real and absurd, into an engine on a small machine.

The first byte decides between two runtimes. The honest one tells the truth: containers have
the places that they were given, identifiers are used once, and pods end after their containers;
then groups of nodes must stay whole as well, and the plugin may be started anew with what it wrote
down. The liar draws every field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from nri_numamem.engine import events
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Plan
from nri_numamem.engine.snapshot import restore, snapshot
from nri_numamem.memorymanager import NodeSet, check_groups
from nri_numamem.nri import adjust
from tests.fuzz.choices import Choices
from tests.fuzz.hosts import MI, NODE_BYTES, PAGE_SIZES, check_engine, check_records, draw_engine

_EVENTS_MOST = 80
_AMOUNTS = (200 * MI, 1, NODE_BYTES, 3 * NODE_BYTES // 2, 2**62, 2**63 - 1)
_PARENTS = ("/kubepods", "/kubepods/burstable", "", "kubepods-pod.slice", "/a/kubepods")
_NAMES = ("main", "side", "init", "")
_MEMS = ("", "0", "1", "0-1", "2-3", "0-1023", "x", "9")
_ENDS: tuple[Callable[[events.PodSandbox], events.Event], ...] = (
    events.StopPodSandbox,
    events.RemovePodSandbox,
    events.PodCgroupGone,
)
_CPUS = ("", "0-3", "4-7", "0-15", "2,6", "0-8191", "9999", "-")


def one_input(data: bytes) -> None:
    """Play the events that the bytes stand for."""
    choices = Choices(data)
    is_honest = choices.flag()
    engine = draw_engine(choices)
    if is_honest:
        _Honest(choices, engine).play()
        return
    for _ in range(_EVENTS_MOST):
        if not choices:
            break
        _handle(engine, _draw_event(choices))
    state = engine.state
    # One id for two containers makes a file that is refused.
    if len(state.keys) == len(state.holders):
        assert snapshot(restore(snapshot(state))) == snapshot(state)


def _handle(engine: Engine, event: events.Event) -> Plan:
    plan = engine.handle(event)
    check_engine(engine)
    check_records(list(plan.records))
    adjust.create_container_response(plan).SerializeToString()
    machine = engine.context.machine.node_set
    given = [update.cpuset_mems for update in plan.updates]
    if plan.adjustment is not None:
        assert plan.refusal is None
        given.append(plan.adjustment.cpuset_mems)
    for mems in given:
        assert mems
        assert NodeSet.parse(mems).issubset(machine)
    assert plan.refusal is None or isinstance(event, events.CreateContainer)
    return plan


def _draw_event(choices: Choices) -> events.Event:
    kind = choices.below(10)
    if kind == 0:
        pods = tuple(_draw_pod(choices) for _ in range(choices.below(4)))
        told = tuple(_draw_container(choices) for _ in range(choices.below(6)))
        return events.Synchronize(pods, told, choices.flag())
    pod = _draw_pod(choices)
    if kind == 1:
        return events.RunPodSandbox(pod)
    if kind <= 4:
        return _ENDS[kind - 2](pod)
    container = _draw_container(choices)
    if kind == 5:
        return events.UpdateContainer(pod, container, _draw_amount(choices))
    if kind == 6:
        return events.StopContainer(pod, container)
    if kind == 7:
        return events.RemoveContainer(pod, container)
    if kind == 8:
        return events.ContainersFound(((pod, container), (pod, _draw_container(choices))))
    return events.CreateContainer(pod, container)


def _draw_pod(choices: Choices) -> events.PodSandbox:
    number = choices.below(4)
    uid = choices.pick(("u0", "u1", "u2", ""))
    parent = choices.pick(_PARENTS)
    # Most are what the kubelet writes; an id that another pod's container has is possible too.
    return events.PodSandbox(
        choices.pick((f"s{number}", f"s{number}", "c0", "")),
        uid,
        "ns",
        f"pod-{uid}",
        f"{parent}/pod{uid}",
        _draw_amount(choices),
        _draw_pages(choices) or {},
    )


def _draw_container(choices: Choices) -> events.Container:
    devices = choices.below(4)
    return events.Container(
        choices.pick(("c0", "c1", "c2", "c3", "s0", "")),
        choices.pick(("s0", "s1", "s2", "s3", "")),
        choices.pick(_NAMES),
        _draw_amount(choices),
        _draw_pages(choices),
        _draw_pages(choices) or {},
        choices.pick(_MEMS),
        choices.pick(_CPUS),
        choices.pick((None, 1024, 4096)),
        tuple(NodeSet([choices.below(6)]) for _ in range(devices)),
        choices.flag(),
        NodeSet.parse(choices.pick(_MEMS[:6])),
    )


def _draw_amount(choices: Choices) -> int | None:
    return choices.pick((None, *_AMOUNTS, choices.byte() * 16 * MI or None))


def _draw_pages(choices: Choices) -> Mapping[int, int] | None:
    count = choices.below(4)
    if count == 3:
        return None
    # 4 KiB and 64 KiB: no pools here, and the latter is a page size of other machines.
    sizes = (*PAGE_SIZES, 65536)
    return {size: choices.pick((0, size, 8 * size, 2**63 - 1)) for size in sizes[:count] if size}


@dataclass
class _Honest:
    """A runtime that tells what is."""

    choices: Choices
    engine: Engine
    pods: dict[str, events.PodSandbox] = field(default_factory=dict)
    containers: dict[str, events.Container] = field(default_factory=dict)
    made: int = 0

    def play(self) -> None:
        for _ in range(_EVENTS_MOST):
            if not self.choices:
                break
            steps = (
                self._create,
                self._run,
                self._stop,
                self._end,
                self._synchronize,
                self._restart,
                self._lose,
            )
            self.choices.pick((*steps[:2], *steps))()
            assert check_groups(self.engine.state.books) == ()

    def _new_id(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def _tell(self, event: events.Event) -> Plan:
        """Tell an event, and do what the answer asks for other containers."""
        plan = _handle(self.engine, event)
        assert len({update.container_id for update in plan.updates}) == len(plan.updates)
        for update in plan.updates:
            container = self.containers[update.container_id]
            self.containers[update.container_id] = replace(
                container, cpuset_mems=update.cpuset_mems
            )
        return plan

    def _lose(self) -> None:
        """Create a container that is not told of, but found."""
        if self.pods:
            pod = self.choices.pick(list(self.pods.values()))
            found = self._new_id("c")
            memory = self.choices.byte() * 16 * MI
            self.containers[found] = events.Container(found, pod.sandbox_id, f"n-{found}", memory)
            unnamed = replace(self.containers[found], name=found)
            self._tell(events.ContainersFound(((pod, unnamed),)))

    def _run(self) -> None:
        uid = self._new_id("u")
        pages = {PAGE_SIZES[0]: self.choices.below(20) * PAGE_SIZES[0]}
        memory = self.choices.pick((None, self.choices.byte() * 32 * MI))
        pod = events.PodSandbox(
            f"s-{uid}", uid, "ns", f"pod-{uid}", f"/kubepods/pod{uid}", memory, pages
        )
        self.pods[pod.sandbox_id] = pod
        assert _handle(self.engine, events.RunPodSandbox(pod)).updates == ()

    def _create(self) -> None:
        if not self.pods:
            return
        pod = self.choices.pick(list(self.pods.values()))
        name = self.choices.pick(("a", "b", "c"))
        if any((c.sandbox_id, c.name) == (pod.sandbox_id, name) for c in self.containers.values()):
            return
        container = events.Container(
            self._new_id("c"),
            pod.sandbox_id,
            name,
            self.choices.byte() * 16 * MI,
            self.choices.pick((None, {PAGE_SIZES[0]: self.choices.below(20) * PAGE_SIZES[0]})),
            cpuset_cpus=self.choices.pick(_CPUS),
            device_nodes=tuple(NodeSet([n]) for n in range(4) if self.choices.flag()),
        )
        plan = self._tell(events.CreateContainer(pod, container))
        if plan.refusal is None:
            mems = plan.adjustment.cpuset_mems if plan.adjustment else ""
            self.containers[container.container_id] = replace(container, cpuset_mems=mems)

    def _stop(self) -> None:
        if self.containers:
            _, container = self.containers.popitem()
            pod = self.pods[container.sandbox_id]
            is_told = not self.choices.flag()
            kind = events.StopContainer if is_told else events.RemoveContainer
            self._tell(kind(pod, container))

    def _end(self) -> None:
        if not self.pods:
            return
        pod = self.choices.pick(list(self.pods.values()))
        for container in list(self.containers.values()):
            if container.sandbox_id == pod.sandbox_id:
                del self.containers[container.container_id]
                self._tell(events.StopContainer(pod, container))
        del self.pods[pod.sandbox_id]
        _handle(self.engine, self.choices.pick(_ENDS)(pod))

    def _restart(self) -> None:
        former = restore(snapshot(self.engine.state))
        assert snapshot(former) == snapshot(self.engine.state)
        self.engine = Engine(self.engine.context, former)
        self._synchronize()

    def _synchronize(self) -> None:
        told = events.Synchronize(tuple(self.pods.values()), tuple(self.containers.values()))
        self._tell(told)
        assert self.engine.state.pending == frozenset()
        holders = self.engine.state.holders.values()
        assert all(holder.ended for holder in holders if holder.key[1] == holder.container_id)
        if not self.pods:
            empty = self.engine.context.empty_books()
            assert self.engine.state.books == empty
