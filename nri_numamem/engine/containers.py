"""What happens to one container: created, updated, stopped, removed.

Each function takes the state and an event and returns the next state and the plan. A container
of a pod that is not Guaranteed is left alone entirely. What a container held stays with its pod
when it ends; the pod's end releases it (pods.py).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from nri_numamem.engine import podscope, records, resizes
from nri_numamem.engine.context import Context, Placed
from nri_numamem.engine.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RemoveContainer,
    StopContainer,
    UpdateContainer,
)
from nri_numamem.engine.plan import Adjustment, HugepageRoute, Plan, Update
from nri_numamem.engine.providers import Others
from nri_numamem.engine.qos import QosClass, qos_of_cgroup_parent
from nri_numamem.engine.request import HugepageSource, Request, held, request_of
from nri_numamem.engine.sequel import AtOnce, Outcome, Sequel
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import (
    MEMORY,
    Block,
    NodeSet,
    Rejection,
    adopt,
    give_back,
    withhold,
)
from nri_numamem.memorymanager.pool_use import Withheld


def create_container(context: Context, state: EngineState, event: CreateContainer) -> Outcome:
    """Give a Guaranteed container its NUMA nodes, or refuse it with the reason."""
    pod, container = event.pod, event.container
    why = why_left_alone(context, pod, container)
    if why is not None:
        return state, Plan(records=(records.left_alone(pod, container, why),))
    request = request_for(state, pod, container)
    if request is None:
        why = "it has no memory limit, so its request is unknown"
        return state.with_pod(pod), Plan(records=(records.left_alone(pod, container, why),))
    if container.cpuset_mems:
        return _adopt_preset(context, state.with_pod(pod), event, request)
    return _admit(context, state, event, request)


def why_left_alone(context: Context, pod: PodSandbox, container: Container) -> str | None:
    """Say why a container is none of our business; None when it is."""
    if not context.is_static:
        return "memoryManagerPolicy is None"
    qos = qos_of_cgroup_parent(pod.cgroup_parent)
    if qos is not QosClass.GUARANTEED:
        if qos is QosClass.UNKNOWN:
            return f"no QoS class in the cgroup parent {pod.cgroup_parent!r}"
        return f"its pod is {qos}"
    if not (pod.uid and container.name):
        return "the runtime does not tell its pod's uid and its name"
    return None


def request_for(state: EngineState, pod: PodSandbox, container: Container) -> Request | None:
    """Return what a container asks for, given what the others of its pod hold."""
    if not pod.hugepage_limits:  # it matters only for a sum of the pod
        return request_of(pod, container, {})
    return request_of(pod, container, held(_others(state, pod.uid, container.name)))


def _others(state: EngineState, uid: str, name: str) -> Mapping[str, tuple[Block, ...]]:
    """Return what the pod's other live containers hold, by name."""
    return {
        other: blocks
        for other, blocks in state.books.assignments.get(uid, {}).items()
        if other != name and not _ended(state, uid, other)
    }


def _ended(state: EngineState, uid: str, name: str) -> bool:
    holder = state.holders.get((uid, name))
    return holder is None or holder.ended


def _adopt_preset(
    context: Context, state: EngineState, event: CreateContainer, request: Request
) -> AtOnce:
    """Respect a `cpuset.mems` that somebody set before us: on the books, never claimed."""
    pod, container = event.pod, event.container
    try:
        nodes = NodeSet.parse(container.cpuset_mems)
    except ValueError:
        why = f"its cpuset.mems {container.cpuset_mems!r} is no list of NUMA nodes"
        return state, Plan(records=(records.left_alone(pod, container, why, "warning"),))
    next_state, shortfall = put_on_books(state, pod, container, request, nodes)
    next_state = podscope.take_from_pool(context, next_state, pod)
    plan = Plan(records=(records.adopted(next_state, pod, container, request, nodes, shortfall),))
    return next_state, plan


def put_on_books(
    state: EngineState, pod: PodSandbox, container: Container, request: Request, nodes: NodeSet
) -> tuple[EngineState, Mapping[str, int]]:
    """Enter a container that has its nodes already; also says what did not fit, in bytes."""
    adopted = adopt(state.books, pod.uid, container.name, nodes, request.resources)
    return state.with_holder(_holder(pod, container), adopted.state), adopted.shortfall


def _admit(
    context: Context, state: EngineState, event: CreateContainer, request: Request
) -> Outcome:
    """Place a container in what the books call free and the kernel has."""
    pod, container = event.pod, event.container
    others = context.others_of(container)
    withheld = withhold(state.books, event.pool_use)
    seen = state.with_books(withheld.state) if withheld.amounts else state
    ready, placed = place(context, seen, pod, container, request, others)
    if isinstance(placed, Rejection):
        record = records.rejected(context, seen, pod, container, request, placed, others)
        if not context.rejects:
            record = replace(record, event="left alone, nothing fits")
            return state.with_pod(pod), Plan(records=(record,))
        text = records.refusal_text(pod, container, placed, others)
        return state.with_pod(pod), Plan(refusal=text, records=(record,))
    sequel = Sequel(state, partial(_enter, ready, event, request, others, placed, withheld))
    return sequel, Plan(_adjustment(request, placed.nodes), records=sequel)


def _enter(
    state: EngineState,
    event: CreateContainer,
    request: Request,
    others: Others,
    placed: Placed,
    withheld: Withheld,
) -> AtOnce:
    """Put a container that was placed in `state` on its books."""
    pod, container = event.pod, event.container
    books = withheld.put_back(placed.books)
    state = state.with_pod(pod).with_holder(_holder(pod, container), books)
    record = records.admitted(state, pod, container, request, placed, others)
    return state, Plan(records=(record,))


def place(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    others: Others,
) -> tuple[EngineState, Placed | Rejection]:
    """Place a container: near its pod's hugepages if these are shared, else by the rules."""
    near = _near(state, pod, container, request)
    if near is not None and not (context.is_strict and others.is_apart_from(near)):
        key = (pod.uid, container.name)
        placed = context.place_on(state.books, key, request.resources, near)
        if not isinstance(placed, Rejection):
            return state, placed
    return podscope.place(context, state, pod, container.name, request.resources, others)


def _near(
    state: EngineState, pod: PodSandbox, container: Container, request: Request
) -> NodeSet | None:
    """Return the nodes of the hugepages that the pod's containers share, if they do.

    Only the pod's sum is known then: the first container took it, and the others had better be
    able to reach those pages.
    """
    if request.hugepage_source is not HugepageSource.POD:
        return None
    for blocks in _others(state, pod.uid, container.name).values():
        for block in blocks:
            if block.type.startswith("hugepages-"):
                return block.numa_affinity
    return None


def _holder(pod: PodSandbox, container: Container) -> Holder:
    return Holder(container.container_id, pod.sandbox_id, (pod.uid, container.name))


def _adjustment(request: Request, nodes: NodeSet) -> Adjustment:
    source, limits = request.hugepage_source, request.hugepage_limits
    # What is unified already was set by somebody before us; to claim it again would fail the
    # creation.
    if not limits or source is HugepageSource.UNIFIED:
        return Adjustment(str(nodes))
    is_shown = source is HugepageSource.CONTAINER
    route = HugepageRoute.LIMITS if is_shown else HugepageRoute.UNIFIED
    return Adjustment(str(nodes), limits, route)


def update_container(context: Context, state: EngineState, event: UpdateContainer) -> AtOnce:
    """Enter a new memory limit; more nodes go out as an update, and what fits nowhere is refused.

    A container that goes on unrefused (RunUnpinned) is a warning, and the books hold as much as
    there is, as after a Synchronize. To ask for less is never refused.
    """
    holder, new = state.holder(event.container.container_id), event.memory_limit_bytes
    before = None if holder is None else state.blocks(holder.key)
    if holder is None or holder.ended or not before or new is None:
        return state, Plan()
    if Block(before[0].numa_affinity, MEMORY, new) in before:
        return state, Plan()
    done = context.resize(state.books, holder.key, new)
    if context.rejects and MEMORY in done.shortfall and new > _memory_of(before):
        text = resizes.refusal_text(state, event.pod, holder, new, done)
        record = resizes.refused(state, event.pod, holder, before, done)
        return state, Plan(refusal=text, records=(record,))
    next_state = podscope.take_from_pool(context, replace(state, books=done.state), event.pod)
    updates: tuple[Update, ...] = ()
    if done.nodes != before[0].numa_affinity:
        updates = (Update(holder.container_id, str(done.nodes)),)
    record = resizes.resized(next_state, event.pod, holder, before, done)
    return next_state, Plan(updates=updates, records=(record,))


def _memory_of(blocks: tuple[Block, ...]) -> int:
    return sum(block.size for block in blocks if block.type == MEMORY)


def stop_container(_context: Context, state: EngineState, event: StopContainer) -> AtOnce:
    """Let the pod keep what its container held."""
    return _end(state, event.pod, event.container)


def remove_container_event(_context: Context, state: EngineState, event: RemoveContainer) -> AtOnce:
    """Do the same for a container whose stop was never told; else nothing."""
    return _end(state, event.pod, event.container)


def _end(state: EngineState, pod: PodSandbox, container: Container) -> AtOnce:
    holder = state.holder(container.container_id)
    if holder is None or holder.ended:
        return state, Plan()
    books = give_back(state.books, *holder.key)
    next_state = state.with_holder(replace(holder, ended=True), books)
    return next_state, Plan(records=(records.ended(next_state, pod, holder),))
