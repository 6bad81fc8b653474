"""Synchronize: the runtime tells everything that it has, and the books are made anew from it.

The runtime is the truth. What runs with a `cpuset.mems` keeps its place, even where the books
would not have put it; what a pod held between two of its containers is kept while the pod is
still there; a Guaranteed container that runs unpinned (it was created while the plugin was away)
is placed now and updated. Order is by sandbox and container id, so that the same answer always
gives the same books.

Where the runtime shows another `cpuset.mems` than the cgroup has, an update was lost on one of
the two ways, and is sent again. What the engine gave before decides which one is right; if it
does not know, the runtime's habit does. containerd writes an update down before it reaches the
cgroup, where it can be missed while the container starts. CRI-O never writes it down, so after
its restart only the cgroup shows it.
"""

from dataclasses import replace

from nri_numamem.engine import podscope, records
from nri_numamem.engine.containers import place, put_on_books, request_for, why_left_alone
from nri_numamem.engine.context import Context
from nri_numamem.engine.draft import Draft
from nri_numamem.engine.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.plan import Plan, Record, Update
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import NodeSet, Rejection, adopt, give_back
from nri_numamem.values import valueclass

Outcome = tuple[EngineState, Plan]


def synchronize(context: Context, state: EngineState, event: Synchronize) -> Outcome:
    """Return the state that the runtime describes, with updates for what is not in place."""
    pods = {pod.sandbox_id: pod for pod in event.pods}
    old = _before(state)
    is_former = old is not state
    pinned, unpinned = _ours(context, old, pods, event)
    old = _without_found(old, event)
    gone = [holder for holder in old.holders.values() if holder.sandbox_id not in pods]
    fresh = EngineState(context.empty_books(), pods, homes=old.homes_with(gone))
    found: list[Record] = []
    updates: list[Update] = []
    draft = Draft(fresh)
    for its in pinned:
        before = draft.part(its.pod.uid)
        after, update, record = _adopt(context, before, its)
        draft.put(its.pod.uid, before, after)
        updates.extend(update)
        found.extend(record)
    fresh = draft.finish()
    if is_former:
        old, record = _still_possible(context, old, fresh)
        found.extend(record)
    fresh = _keep_held(old, fresh)
    fresh, record = podscope.synchronize(context, old, fresh, event.pods)
    found.extend(record)
    draft = Draft(fresh)
    for pod, container in unpinned:
        before = draft.part(pod.uid)
        after, update, record = _place(context, before, pod, container)
        draft.put(pod.uid, before, after)
        updates.extend(update)
        found.extend(record)
    fresh = draft.finish()
    found.append(records.synchronized(fresh, event, len(pinned), updates))
    # A runtime refuses a reply that names a container twice.
    once = {update.container_id: update for update in updates}
    return fresh, Plan(updates=tuple(once.values()), records=tuple(found))


def _before(state: EngineState) -> EngineState:
    """Return what was known: by this process if it has seen containers, else by an earlier one."""
    if state.former is None or state.holders:
        return state
    return replace(state.former, homes=state.homes)


def _without_found(old: EngineState, event: Synchronize) -> EngineState:
    """Forget the containers that were found without a name, and are told by their names now."""
    for container in event.containers:
        holder = None if container.ended else old.holder(container.container_id)
        if holder is not None and holder.key[1] == holder.container_id:
            old = old.without_holder(holder, old.books)
    return old


@valueclass(frozen=True, slots=True)
class _Pinned:
    """A container that has its nodes."""

    pod: PodSandbox
    container: Container
    nodes: NodeSet
    why: str
    """Why they are sent again; "" when there is no need."""


_Unpinned = list[tuple[PodSandbox, Container]]


def _ours(
    context: Context, old: EngineState, pods: dict[str, PodSandbox], event: Synchronize
) -> tuple[list[_Pinned], _Unpinned]:
    pinned: list[_Pinned] = []
    unpinned: _Unpinned = []
    for container in sorted(event.containers, key=lambda c: (c.sandbox_id, c.container_id)):
        pod = pods.get(container.sandbox_id)
        if container.ended or pod is None or why_left_alone(context, pod, container) is not None:
            continue
        try:
            told = NodeSet.parse(container.cpuset_mems)
        except ValueError:
            continue  # set by somebody else; the kernel took what it understood
        nodes, why = _wanted(old, event, container, told)
        if nodes:
            pinned.append(_Pinned(pod, container, nodes, why))
        else:
            unpinned.append((pod, container))
    return pinned, unpinned


def _wanted(
    old: EngineState, event: Synchronize, container: Container, told: NodeSet
) -> tuple[NodeSet, str]:
    """Return the nodes that a container shall have, and why they are sent again, or ""."""
    actual = container.cgroup_mems
    if not actual or actual == told:
        return told, ""
    if not told:
        return actual, "the runtime does not know them"
    holder = old.holder(container.container_id)
    blocks = old.blocks(holder.key) if holder is not None else None
    known = blocks[0].numa_affinity if blocks else None
    if known in (told, actual):
        return known, "they were given to the container before"
    if event.keeps_updates:
        return told, "the update did not reach the cgroup"
    return actual, "the runtime shows those of the creation"


def _adopt(
    context: Context, state: EngineState, its: _Pinned
) -> tuple[EngineState, list[Update], list[Record]]:
    state, record = adopt_running(state, its.pod, its.container, its.nodes)
    if not (its.why and record and its.nodes.issubset(context.machine.node_set)):
        return state, [], record
    update = Update(its.container.container_id, str(its.nodes))
    sent = records.sent_again(its.pod, its.container, its.nodes, its.why)
    return state, [update], [*record, sent]


def adopt_running(
    state: EngineState, pod: PodSandbox, container: Container, nodes: NodeSet
) -> tuple[EngineState, list[Record]]:
    """Put a container on the books where it runs; no record: it is none of our business."""
    request = request_for(state, pod, container)
    if request is None:
        return state, []
    state, shortfall = put_on_books(state, pod, container, request, nodes)
    return state, [records.adopted(state, pod, container, request, nodes, shortfall)]


def _place(
    context: Context, state: EngineState, pod: PodSandbox, container: Container
) -> tuple[EngineState, list[Update], list[Record]]:
    state, nodes, record = place_running(context, state, pod, container)
    if nodes is None:
        event, level = "runs unpinned, nothing fits", "warning"
        return state, [], [replace(found, event=event, level=level) for found in record]
    update = Update(container.container_id, str(nodes))
    return state, [update], [replace(found, event="pinned while running") for found in record]


def place_running(
    context: Context, state: EngineState, pod: PodSandbox, container: Container
) -> tuple[EngineState, NodeSet | None, list[Record]]:
    """Find nodes for a container that runs without, and put it on the books there.

    Without nodes nothing fits, or, without a record, it is none of our business.
    """
    request = request_for(state, pod, container)
    if request is None:
        return state, None, []
    others = context.others_of(container)
    ready, placed = place(context, state, pod, container, request, others)
    if isinstance(placed, Rejection):
        record = records.rejected(context, state, pod, container, request, placed, others)
        return state, None, [record]
    key = (pod.uid, container.name)
    holder = Holder(container.container_id, pod.sandbox_id, key)
    state = ready.with_holder(holder, placed.books)
    return state, placed.nodes, [records.admitted(state, pod, container, request, placed, others)]


def _still_possible(
    context: Context, former: EngineState, fresh: EngineState
) -> tuple[EngineState, list[Record]]:
    """Give up what an earlier process held where the groups of what runs forbid it.

    Machine and settings may have changed since it was written down, and it is a promise only:
    nothing lives there. Of amounts the books hold what there is, as for everything that is adopted.
    """
    found: list[Record] = []
    draft = Draft(fresh)
    for key, holder in sorted(former.holders.items()):
        blocks = former.blocks(key)
        if holder.sandbox_id not in fresh.pods or key in fresh.holders or not blocks:
            continue
        if key[1] == podscope.POOL and key[0] in fresh.books.assignments:
            continue  # made anew on the nodes of the pod's containers
        nodes = blocks[0].numa_affinity
        before = draft.part(key[0])
        if context.allows(before.books, nodes):
            resources = {block.type: block.size for block in blocks}
            books = adopt(before.books, *key, nodes, resources).state
            draft.put(key[0], before, before.with_books(books))
        else:
            found.append(records.given_up(holder, blocks))
            former = former.without_holder(holder, former.books)
    return former, found


def _keep_held(old: EngineState, fresh: EngineState) -> EngineState:
    """Keep what pods that are still there hold for containers that have ended."""
    draft = Draft(fresh)
    for key, holder in sorted(old.holders.items()):
        blocks = old.blocks(key)
        if holder.sandbox_id not in fresh.pods or key in fresh.holders or not blocks:
            continue
        if key[1] == podscope.POOL:
            continue  # made anew when all containers are on the books
        before = draft.part(key[0])
        resources = {block.type: block.size for block in blocks}
        books = adopt(before.books, *key, blocks[0].numa_affinity, resources).state
        books = give_back(books, *key)
        draft.put(key[0], before, before.with_holder(replace(holder, ended=True), books))
    return draft.finish()
