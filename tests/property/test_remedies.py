"""Remedies of random refusals: each one works, and where one exists there is one.

A remedy is followed literally: pods end by events, settings change by a restart and a Synchronize,
a smaller pod is created in place of the refused one. The values of the remedy are used, never its
text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from random import Random

import pytest

from nri_numamem.engine.admission.records import TEXT_LIMIT
from nri_numamem.engine.admission.remedy_inputs import trial_context, with_hugepages
from nri_numamem.engine.core import events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.ending_pods import admitting, find_pods
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import PoolUse, Rejection, Reservation
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import (
    CpuSet,
    Exclusive,
    Machine,
    MemoryNodes,
    NodeSet,
    NumaNode,
    Partition,
    WithoutCpus,
)
from nri_numamem.numa.partitions import PartitionsError

MI = 1 << 20
PAGE = 2 * MI
PAGES = "hugepages-2Mi"
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES = ("container", "pod")
NAMESPACES = ("part-a", "part-b", "ns")
"""Of the pods of two partitions, and of the others."""
REFUSALS_PER_SEED = 250


@dataclass(frozen=True, slots=True)
class World:
    """An engine's state on a host, with what runs there; each change makes a new one."""

    context: Context
    state: EngineState
    pods: Mapping[str, events.PodSandbox]
    """Pod uid -> sandbox."""
    containers: Mapping[str, events.Container] = field(default_factory=dict)
    outside: Mapping[int, int] = field(default_factory=dict)
    """Node id -> bytes of 2Mi pages that programs outside of pods use."""
    shows_use: bool = True
    """Whether the cgroups of pods show the pages that they use."""

    def engine(self) -> Engine:
        return Engine.with_state(self.context, self.state)

    def after(self, *happened: events.Event) -> "World":
        engine = self.engine()
        for event in happened:
            engine.apply(event)
        return replace(self, state=engine.state, context=engine.context)

    def without(self, *uids: str) -> "World":
        """Return the world after pods ended."""
        ended = [events.StopPodSandbox(self.pods[uid]) for uid in uids]
        pods = {uid: pod for uid, pod in self.pods.items() if uid not in uids}
        ids = {self.pods[uid].sandbox_id for uid in uids}
        rest = {n: c for n, c in self.containers.items() if c.sandbox_id not in ids}
        return replace(self.after(*ended), pods=pods, containers=rest)

    def with_settings(self, **settings: object) -> "World | None":
        """Return the world after a restart with other settings; None if they are impossible."""
        policy = replace(self.context.policy, **settings)  # type: ignore[arg-type]
        try:
            context = new_context(self.context.machine, policy)
        except ValueError:
            return None
        engine = Engine(context, self.state)
        engine.apply(events.Synchronize(tuple(self.pods.values()), tuple(self.containers.values())))
        return replace(self, state=engine.state, context=context)

    def pool_use(self) -> PoolUse:
        """Return the kernel's figures: pods use all pages that they have."""
        by_pods: dict[str, dict[int, dict[str, int]]] = {}
        for uid, held in self.state.accounting.assignments.items():
            nodes: dict[int, dict[str, int]] = {}
            for blocks in held.values():
                for block in blocks:
                    for node_id, size in block.charges if block.type == PAGES else ():
                        used = nodes.get(node_id, {}).get(PAGES, 0)
                        nodes[node_id] = {PAGES: used + size}
            by_pods[uid] = nodes
        pools: dict[int, dict[str, Pool]] = {}
        for node in self.context.machine.nodes:
            total = node.hugepages.get(PAGE, 0) * PAGE
            used = self.outside.get(node.node_id, 0)
            used += sum(n.get(node.node_id, {}).get(PAGES, 0) for n in by_pods.values())
            pools[node.node_id] = {PAGES: Pool(min(used, total), max(0, total - used))}
        return PoolUse(pools, {}, by_pods if self.shows_use else {})

    def decide(self, event: events.CreateContainer) -> Rejection | None:
        """Decide a creation without looking for remedies; nothing is committed."""
        engine = Engine.with_state(trial_context(self.context), self.state)
        engine.decide(self.seen(event))
        return engine.rejection

    def refuse(self, event: events.CreateContainer) -> Rejection | None:
        """Decide a creation that is refused."""
        engine = self.engine()
        engine.decide(self.seen(event))
        return engine.rejection

    def seen(self, event: events.CreateContainer) -> events.CreateContainer:
        """Return the event with the pools as they are now."""
        return replace(event, pool_use=self.pool_use())

    def create(self, event: events.CreateContainer) -> "World":
        """Create a container; a refused one changes nothing."""
        engine = self.engine()
        applied = engine.apply(self.seen(event))
        if applied.plan.adjustment is None:
            return self
        mems = applied.plan.adjustment.cpuset_mems
        running = replace(event.container, cpuset_mems=mems, cgroup_mems=NodeSet.parse(mems))
        containers = {**self.containers, running.container_id: running}
        return replace(self, state=engine.state, containers=containers)

    def run(self, pod: events.PodSandbox) -> "World":
        after = self.after(events.RunPodSandbox(pod, self.pool_use()))
        return replace(after, pods={**self.pods, pod.uid: pod})


def random_machine(random: Random) -> Machine:
    """Two to four nodes of different sizes, with and without pages; perhaps one without CPUs."""
    count = random.randint(2, 4)
    slow = count - 1 if count > 1 and random.random() < 0.3 else None
    has_pages = random.random() < 0.6
    is_movable = random.random() < 0.3
    return Machine(
        tuple(
            NumaNode(
                n,
                random.choice([32, 40, 40, 48]) * MI,
                {PAGE: random.choice([0, 2, 4])} if has_pages else {},
                CpuSet() if n == slow else CpuSet([n]),
                {m: 10 if m == n else 12 if m // 2 == n // 2 else 21 for m in range(count)},
                is_movable_only=is_movable and n == slow,
            )
            for n in range(count)
        )
    )


def random_partitions(random: Random, machine: Machine) -> tuple[Partition, ...]:
    """Return one or two partitions, which leave at least a node to the rest."""
    ids = random.sample(range(len(machine.nodes)), len(machine.nodes))
    found = []
    for name in NAMESPACES[: random.randint(1, 2)]:
        count = random.randint(1, 2)
        if len(ids) > count:
            nodes, ids = NodeSet(ids[:count]), ids[count:]
            kind = random.choice([*Exclusive])
            found.append(Partition(name, nodes, namespaces=(name,), exclusive=kind))
    return (*found,)


def random_world(random: Random, *, has_partitions: bool = False) -> World:
    """Return a host on which the engine placed pods."""
    machine = random_machine(random)
    policy = Policy(
        topology_manager_policy=random.choice(POLICIES),
        topology_manager_scope=random.choice(SCOPES),
        reserved_memory=(Reservation(0, {"memory": MI}),),
        memory_nodes=MemoryNodes(random.choice([*WithoutCpus])),
    )
    if has_partitions:
        policy = replace(policy, partitions=random_partitions(random, machine))
        try:
            new_context(machine, policy)
        except PartitionsError:  # all nodes that are not excluded
            return random_world(random, has_partitions=True)
    context = new_context(machine, policy)
    outside = {
        node.node_id: random.randint(0, node.hugepages.get(PAGE, 0)) * PAGE
        for node in machine.nodes
        if random.random() < 0.4
    }
    world = World(
        context,
        Engine(context).state,
        {},
        outside=outside,
        shows_use=random.random() < 0.8,
    )
    for number in range(random.randint(1, 6)):
        world = with_random_pod(random, world, f"pod{number}")
    return world


def with_random_pod(random: Random, world: World, uid: str) -> World:
    pod, containers = random_pod(random, world, uid)
    world = world.run(pod)
    for container in containers:
        world = world.create(events.CreateContainer(pod, container))
        if random.random() < 0.15 and container.container_id in world.containers:
            world = world.after(events.StopContainer(pod, container))
            rest = {n: c for n, c in world.containers.items() if n != container.container_id}
            world = replace(world, containers=rest)
    if uid not in world.state.accounting.assignments:
        world = world.without(uid)  # the kubelet removed it
    return world


def random_pod(
    random: Random, world: World, uid: str
) -> tuple[events.PodSandbox, list[events.Container]]:
    """Return a Guaranteed pod of one or two containers."""
    nodes = [n for n in world.context.machine.nodes if n.cpus]
    containers = []
    for name in "ab"[: random.choice([1, 1, 2])]:
        pages = {PAGE: random.randint(1, 4) * PAGE} if random.random() < 0.3 else {}
        cpus = str(random.choice(nodes).node_id) if random.random() < 0.25 else ""
        devices: tuple[NodeSet, ...] = ()
        if random.random() < 0.15:
            devices = (NodeSet([random.choice(world.context.machine.nodes).node_id]),)
        containers.append(
            events.Container(
                f"{uid}-{name}",
                f"sandbox-{uid}",
                name,
                random.choice([4, 9, 16, 20, 30, 45, 70]) * MI,
                pages,
                cpuset_cpus=cpus,
                device_nodes=devices,
            )
        )
    memory = sum(c.memory_limit_bytes or 0 for c in containers)
    pages_bytes = sum((c.hugepage_limits or {}).get(PAGE, 0) for c in containers)
    limits = {PAGE: pages_bytes} if pages_bytes else {}
    has_partitions = world.context.policy.partitions
    namespace = random.choice(NAMESPACES) if has_partitions else NAMESPACES[-1]
    parent = f"/kubepods/pod{uid}"
    pod = events.PodSandbox(f"sandbox-{uid}", uid, namespace, uid, parent, memory, limits)
    return pod, containers


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused creation of a container, perhaps of a pod of which others run."""

    world: World
    event: events.CreateContainer
    before: tuple[events.Container, ...]
    """The containers of the pod that were created before."""
    rejection: Rejection

    @property
    def uid(self) -> str:
        return self.event.pod.uid

    @property
    def others(self) -> list[str]:
        """The other pods."""
        return [uid for uid in self.world.pods if uid != self.uid]


def random_refusals(random: Random, *, has_partitions: bool = False) -> Iterator[Refusal]:
    """Yield refusals without end."""
    while True:
        world = random_world(random, has_partitions=has_partitions)
        for number in range(6):
            pod, containers = random_pod(random, world, f"new{number}")
            tried, before = world.run(pod), list[events.Container]()
            for container in containers:
                event = events.CreateContainer(pod, container)
                rejection = tried.decide(event) and tried.refuse(event)
                if rejection is not None:
                    yield Refusal(tried, event, tuple(before), rejection)
                    break
                tried = tried.create(event)
                before.append(container)


def follow(refusal: Refusal, remedy: Remedy) -> Iterator[Rejection | None]:
    """Do what a remedy says; yield the result for each of its alternatives."""
    world, event = refusal.world, refusal.event
    match remedy.kind:
        case Kind.FREE_HUGEPAGES:
            freed = dict(world.outside)
            left = remedy.amounts[PAGES]
            for node_id in remedy.nodes:
                size = min(left, freed.get(node_id, 0))
                freed[node_id] = freed.get(node_id, 0) - size
                left -= size
            yield replace(world, outside=freed).decide(event)
        case Kind.RESERVE_HUGEPAGES:
            (node_id,) = remedy.nodes
            machine = with_hugepages(world.context.machine, node_id, remedy.amounts)
            yield world.after(events.MachineChanged(machine)).decide(event)
        case Kind.MAKE_ROOM | Kind.EMPTY_NODES:
            yield world.without(*pods_on(refusal, remedy.nodes)).decide(event)
        case Kind.REQUEST_LESS:
            yield recreated(refusal, remedy.amounts)
        case Kind.CHANGE_SETTING:
            for value in remedy.values:
                changed = with_setting(world, remedy.setting, value)
                assert changed is not None
                yield changed.decide(event)
        case Kind.END_PODS:
            yield world.without(*remedy.pods).decide(event)


def pods_on(refusal: Refusal, nodes: NodeSet) -> list[str]:
    assignments = refusal.world.state.accounting.assignments
    return [
        uid
        for uid in refusal.others
        if any(
            not block.numa_affinity.isdisjoint(nodes)
            for blocks in assignments.get(uid, {}).values()
            for block in blocks
        )
    ]


def with_setting(world: World, setting: str, value: str) -> World | None:
    match setting:
        case "topologyManagerPolicy":
            return world.with_settings(topology_manager_policy=value)
        case "topologyManagerScope":
            return world.with_settings(topology_manager_scope=value)
    assert setting == "memoryNodes.withoutCpus"
    return world.with_settings(memory_nodes=MemoryNodes(WithoutCpus(value)))


def recreated(refusal: Refusal, amounts: Mapping[str, int]) -> Rejection | None:
    """Return the result if the pod is recreated, with a container that requests `amounts`.

    In pod scope they are the amounts of the pod.
    """
    pod, container = refusal.event.pod, refusal.event.container
    memory, pages = container.memory_limit_bytes or 0, dict(container.hugepage_limits or {})
    of_pod = {"memory": pod.memory_limit_bytes or 0, PAGES: pod.hugepage_limits.get(PAGE, 0)}
    of_container = {"memory": memory, PAGES: pages.get(PAGE, 0)}
    whole = of_pod if refusal.rejection.is_of_pod else of_container
    less = {name: whole[name] - size for name, size in amounts.items()}
    assert any(less.values())
    containers = [*refusal.before, container]
    smaller: list[events.Container] = []
    for each in reversed(containers):
        own = min(less.get("memory", 0), (each.memory_limit_bytes or 0) - 1)
        own_pages = min(less.get(PAGES, 0), (each.hugepage_limits or {}).get(PAGE, 0))
        less = {"memory": less.get("memory", 0) - own, PAGES: less.get(PAGES, 0) - own_pages}
        limits = {PAGE: (each.hugepage_limits or {}).get(PAGE, 0) - own_pages}
        limit = (each.memory_limit_bytes or 0) - own
        smaller.insert(0, replace(each, memory_limit_bytes=limit, hugepage_limits=limits))
    lost = {name: whole[name] - size for name, size in amounts.items()}
    new_pod = replace(
        pod,
        memory_limit_bytes=of_pod["memory"] - lost.get("memory", 0),
        hugepage_limits={PAGE: of_pod[PAGES] - lost.get(PAGES, 0)} if of_pod[PAGES] else {},
    )
    world = refusal.world.without(refusal.uid).run(new_pod)
    for each in smaller[:-1]:
        world = world.create(events.CreateContainer(new_pod, each))
    return world.decide(events.CreateContainer(new_pod, smaller[-1]))


def works_by_brute_force(refusal: Refusal) -> str:
    """Return what makes the container fit, of all kinds of remedies; "" for nothing."""
    world, event = refusal.world, refusal.event
    sets = [*combinations(refusal.others, 1), *combinations(refusal.others, 2), refusal.others]
    for uids in sets:
        if world.without(*uids).decide(event) is None:
            return f"end {uids}"
    for setting, values in (
        ("topologyManagerPolicy", POLICIES),
        ("topologyManagerScope", SCOPES),
        ("memoryNodes.withoutCpus", [*WithoutCpus]),
    ):
        for value in values:
            changed = with_setting(world, setting, value)
            if changed is not None and changed.decide(event) is None:
                return f"{setting} {value}"
    if replace(world, outside={}).decide(event) is None:
        return "free the pages"
    container, pod = event.container, event.pod
    is_of_pod = refusal.rejection.is_of_pod
    memory = (pod if is_of_pod else container).memory_limit_bytes or 0
    pages = (pod.hugepage_limits if is_of_pod else container.hugepage_limits or {}).get(PAGE, 0)
    for quarter, count in product(range(4, 0, -1), range(pages // PAGE, -1, -1)):
        amounts = {"memory": memory * quarter // 4, PAGES: count * PAGE}
        less = {
            n: size for n, size in amounts.items() if 0 < size < {"memory": memory, PAGES: pages}[n]
        }
        if less and (count or not pages) and recreated(refusal, less) is None:
            return f"request {less}"
    return ""


@pytest.mark.parametrize("has_partitions", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_remedies(seed: int, *, has_partitions: bool) -> None:
    random = Random(seed)
    kinds: dict[str, int] = {}
    refusals = random_refusals(random, has_partitions=has_partitions)
    for _ in range(REFUSALS_PER_SEED):
        refusal = next(refusals)
        remedies = [*refusal.rejection.remedies]
        ending = ending_of(refusal)
        for remedy in [*remedies, *([ending] if ending else [])]:
            kinds[remedy.kind] = kinds.get(remedy.kind, 0) + 1
            for result in follow(refusal, remedy):
                assert result is None, (
                    seed,
                    remedy.text,
                    result.message,
                    refusal.rejection.message,
                )
        assert (" remedy: " in refusal.rejection.message) == bool(remedies)
        assert len(refusal.rejection.message_within(TEXT_LIMIT)) <= TEXT_LIMIT
        assert not any(uid in refusal.rejection.message for uid in refusal.world.pods)
        if not remedies:
            found = works_by_brute_force(refusal)
            assert not found, (seed, found, refusal.rejection.message)
        kinds["none"] = kinds.get("none", 0) + (not remedies)
    print(kinds)


def ending_of(refusal: Refusal) -> Remedy | None:
    """Return the pods to end, which commands show; compare them with all subsets of two."""
    world, event = refusal.world, refusal.world.seen(refusal.event)
    return find_pods(
        world.state, event.pool_use, admitting(world.context, event), refusal.others, {}
    )
