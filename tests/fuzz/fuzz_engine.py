"""Events in any order, consistent or not, for an engine on a small machine.

The first byte selects one of two runtimes. The consistent runtime sends containers with the nodes
of earlier replies, uses identifiers once and ends pods after their containers; with it the
invariants of groups hold, too, and the plugin may restart from its state file. The inconsistent
runtime draws every field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import check_groups
from nri_numamem.nri import encode
from nri_numamem.numa import NodeSet
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
_REFUSABLE = (events.CreateContainer, events.UpdateContainer)
_CPUS = ("", "0-3", "4-7", "0-15", "2,6", "0-8191", "9999", "-")


def one_input(data: bytes) -> None:
    """Apply the events that the bytes encode."""
    choices = Choices(data)
    is_consistent = choices.flag()
    engine = draw_engine(choices)
    if is_consistent:
        _ConsistentRuntime(choices, engine).play()
        return
    for _ in range(_EVENTS_MOST):
        if not choices:
            break
        _handle(engine, _draw_event(choices))
    state = engine.state
    # A state file with one id for two containers is refused.
    if len(state.keys) == len(state.holders):
        assert snapshot(restore(snapshot(state))) == snapshot(state)


def _handle(engine: Engine, event: events.Event) -> Plan:
    applied = engine.apply(event)
    plan = applied.plan
    check_engine(engine)
    check_records(list(applied.records))
    encode.create_container_response(plan).SerializeToString()
    machine = engine.context.machine.node_set
    mems_of_plan = [update.cpuset_mems for update in plan.updates]
    if plan.adjustment is not None:
        assert plan.refusal is None
        mems_of_plan.append(plan.adjustment.cpuset_mems)
    for mems in mems_of_plan:
        assert mems
        assert NodeSet.parse(mems).issubset(machine)
    assert plan.refusal is None or isinstance(event, _REFUSABLE)
    return plan


def _draw_event(choices: Choices) -> events.Event:
    kind = choices.below(10)
    if kind == 0:
        pods = tuple(_draw_pod(choices) for _ in range(choices.below(4)))
        containers = tuple(_draw_container(choices) for _ in range(choices.below(6)))
        return events.Synchronize(pods, containers, choices.flag())
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
    if kind == 8 and choices.below(3) == 2:
        return events.CpusetsRead((_draw_read(choices), _draw_read(choices)))
    if kind == 8:
        return events.ContainersFound(((pod, container), (pod, _draw_container(choices))))
    return events.CreateContainer(pod, container)


def _draw_pod(choices: Choices) -> events.PodSandbox:
    number = choices.below(4)
    uid = choices.pick(("u0", "u1", "u2", ""))
    parent = choices.pick(_PARENTS)
    # Mostly the kubelet's values; the id may also be that of a container.
    return events.PodSandbox(
        sandbox_id=choices.pick((f"s{number}", f"s{number}", "c0", "")),
        uid=uid,
        namespace="ns",
        name=f"pod-{uid}",
        cgroup_parent=f"{parent}/pod{uid}",
        memory_limit_bytes=_draw_amount(choices),
        hugepage_limits=_draw_pages(choices) or {},
    )


def _draw_container(choices: Choices) -> events.Container:
    devices = choices.below(4)
    return events.Container(
        container_id=choices.pick(("c0", "c1", "c2", "c3", "s0", "")),
        sandbox_id=choices.pick(("s0", "s1", "s2", "s3", "")),
        name=choices.pick(_NAMES),
        memory_limit_bytes=_draw_amount(choices),
        hugepage_limits=_draw_pages(choices),
        hugepages_unified=_draw_pages(choices) or {},
        cpuset_mems=choices.pick(_MEMS),
        cpuset_cpus=choices.pick(_CPUS),
        cpu_shares=choices.pick((None, 1024, 4096)),
        device_nodes=tuple(NodeSet([choices.below(6)]) for _ in range(devices)),
        ended=choices.flag(),
        cgroup_mems=NodeSet.parse(choices.pick(_MEMS[:6])) if choices.below(4) else None,
        cgroup_use=_draw_use(choices),
        has_devices=choices.below(4) == 3,
    )


def _draw_read(choices: Choices) -> events.CpusetRead:
    container_id = choices.pick(("c0", "c1", "c2", "c3"))
    mems = NodeSet.parse(choices.pick(_MEMS[:6]))
    return events.CpusetRead(container_id, mems, _draw_use(choices))


def _draw_use(choices: Choices) -> events.CgroupUse | None:
    amounts = {node: choices.byte() * MI for node in range(choices.below(5))}
    return choices.pick(
        (
            None,
            events.CgroupUse(NodeSet(amounts), amounts),
            events.CgroupUse(NodeSet(), None, has_hugepages=choices.flag()),
        )
    )


def _draw_amount(choices: Choices) -> int | None:
    return choices.pick((None, *_AMOUNTS, choices.byte() * 16 * MI or None))


def _draw_pages(choices: Choices) -> Mapping[int, int] | None:
    count = choices.below(4)
    if count == 3:
        return None
    # 64 KiB is a page size of other machines.
    sizes = (*PAGE_SIZES, 65536)
    return {size: choices.pick((0, size, 8 * size, 2**63 - 1)) for size in sizes[:count] if size}


@dataclass
class _ConsistentRuntime:
    """A runtime whose events are consistent with each other and with the replies."""

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
            assert check_groups(self.engine.state.accounting) == ()

    def _new_id(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def _emit(self, event: events.Event) -> Plan:
        """Apply an event and the updates of its plan."""
        plan = _handle(self.engine, event)
        assert len({update.container_id for update in plan.updates}) == len(plan.updates)
        for update in plan.updates:
            container = self.containers[update.container_id]
            self.containers[update.container_id] = replace(
                container, cpuset_mems=update.cpuset_mems
            )
        return plan

    def _lose(self) -> None:
        """Create a container without an event; a cgroup scan finds it."""
        if self.pods:
            pod = self.choices.pick(list(self.pods.values()))
            found = self._new_id("c")
            memory = self.choices.byte() * 16 * MI
            self.containers[found] = events.Container(found, pod.sandbox_id, f"n-{found}", memory)
            unnamed = replace(self.containers[found], name=found)
            self._emit(events.ContainersFound(((pod, unnamed),)))

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
        plan = self._emit(events.CreateContainer(pod, container))
        if plan.refusal is None:
            mems = plan.adjustment.cpuset_mems if plan.adjustment else ""
            self.containers[container.container_id] = replace(container, cpuset_mems=mems)

    def _stop(self) -> None:
        if self.containers:
            _, container = self.containers.popitem()
            pod = self.pods[container.sandbox_id]
            is_reported = not self.choices.flag()
            kind = events.StopContainer if is_reported else events.RemoveContainer
            self._emit(kind(pod, container))

    def _end(self) -> None:
        if not self.pods:
            return
        pod = self.choices.pick(list(self.pods.values()))
        for container in list(self.containers.values()):
            if container.sandbox_id == pod.sandbox_id:
                del self.containers[container.container_id]
                self._emit(events.StopContainer(pod, container))
        del self.pods[pod.sandbox_id]
        _handle(self.engine, self.choices.pick(_ENDS)(pod))

    def _restart(self) -> None:
        restored = restore(snapshot(self.engine.state))
        assert snapshot(restored) == snapshot(self.engine.state)
        self.engine = Engine(self.engine.context, restored)
        self._synchronize()

    def _synchronize(self) -> None:
        event = events.Synchronize(tuple(self.pods.values()), tuple(self.containers.values()))
        self._emit(event)
        assert self.engine.state.pending == frozenset()
        holders = self.engine.state.holders.values()
        assert all(holder.ended for holder in holders if holder.key[1] == holder.container_id)
        if not self.pods:
            empty = self.engine.context.empty_accounting()
            assert self.engine.state.accounting == empty
