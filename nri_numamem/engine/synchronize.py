"""Synchronize: the runtime tells everything that it has, and the books are made anew from it.

The runtime is the truth. What runs with a `cpuset.mems` keeps its place, even where the books
would not have put it; what a pod held between two of its containers is kept while the pod is
still there; a Guaranteed container that runs unpinned (it was created while the plugin was away)
is placed now and updated. Order is by sandbox and container id, so that the same answer always
gives the same books.
"""

from dataclasses import replace

from nri_numamem.engine import podscope, records
from nri_numamem.engine.containers import place, put_on_books, request_for, why_left_alone
from nri_numamem.engine.context import Context
from nri_numamem.engine.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.plan import Plan, Record, Update
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import NodeSet, Rejection, adopt, give_back

Outcome = tuple[EngineState, Plan]


def synchronize(context: Context, state: EngineState, event: Synchronize) -> Outcome:
    """Return the state that the runtime describes, with updates for what is not in place."""
    pods = {pod.sandbox_id: pod for pod in event.pods}
    old = _before(state)
    gone = [holder for holder in old.holders.values() if holder.sandbox_id not in pods]
    fresh = EngineState(context.empty_books(), pods, homes=old.homes_with(gone))
    pinned, unpinned = _ours(context, pods, event.containers)
    found: list[Record] = []
    for pod, container, nodes in pinned:
        fresh, record = _adopt(fresh, pod, container, nodes)
        found.extend(record)
    if old is not state:
        old, record = _still_possible(context, old, fresh)
        found.extend(record)
    fresh = _keep_held(old, fresh)
    fresh, record = podscope.synchronize(context, old, fresh, event.pods)
    found.extend(record)
    updates: list[Update] = []
    for pod, container in unpinned:
        fresh, update, record = _place(context, fresh, pod, container)
        updates.extend(update)
        found.extend(record)
    found.append(records.synchronized(fresh, event, len(pinned), updates))
    return fresh, Plan(updates=tuple(updates), records=tuple(found))


def _before(state: EngineState) -> EngineState:
    """Return what was known: by this process if it has seen containers, else by an earlier one."""
    if state.former is None or state.holders:
        return state
    return replace(state.former, homes=state.homes)


_Pinned = list[tuple[PodSandbox, Container, NodeSet]]
_Unpinned = list[tuple[PodSandbox, Container]]


def _ours(
    context: Context, pods: dict[str, PodSandbox], containers: tuple[Container, ...]
) -> tuple[_Pinned, _Unpinned]:
    pinned: _Pinned = []
    unpinned: _Unpinned = []
    for container in sorted(containers, key=lambda c: (c.sandbox_id, c.container_id)):
        pod = pods.get(container.sandbox_id)
        if container.ended or pod is None or why_left_alone(context, pod, container) is not None:
            continue
        try:
            nodes = NodeSet.parse(container.cpuset_mems)
        except ValueError:
            continue  # set by somebody else; the kernel took what it understood
        if nodes:
            pinned.append((pod, container, nodes))
        else:
            unpinned.append((pod, container))
    return pinned, unpinned


def _adopt(
    state: EngineState, pod: PodSandbox, container: Container, nodes: NodeSet
) -> tuple[EngineState, list[Record]]:
    request = request_for(state, pod, container)
    if request is None:
        return state, []
    state, shortfall = put_on_books(state, pod, container, request, nodes)
    return state, [records.adopted(state, pod, container, request, nodes, shortfall)]


def _place(
    context: Context, state: EngineState, pod: PodSandbox, container: Container
) -> tuple[EngineState, list[Update], list[Record]]:
    request = request_for(state, pod, container)
    if request is None:
        return state, [], []
    others = context.others_of(container)
    ready, placed = place(context, state, pod, container, request, others)
    if isinstance(placed, Rejection):
        record = records.rejected(context, state, pod, container, request, placed, others)
        return state, [], [replace(record, event="runs unpinned, nothing fits", level="warning")]
    key = (pod.uid, container.name)
    holder = Holder(container.container_id, pod.sandbox_id, key)
    state = ready.with_holder(holder, placed.books)
    record = records.admitted(state, pod, container, request, placed, others)
    update = Update(container.container_id, str(placed.nodes))
    return state, [update], [replace(record, event="pinned while running")]


def _still_possible(
    context: Context, former: EngineState, fresh: EngineState
) -> tuple[EngineState, list[Record]]:
    """Give up what an earlier process held where the groups of what runs forbid it.

    Machine and settings may have changed since it was written down, and it is a promise only:
    nothing lives there. Of amounts the books hold what there is, as for everything that is adopted.
    """
    found: list[Record] = []
    books = fresh.books
    for key, holder in sorted(former.holders.items()):
        blocks = former.blocks(key)
        if holder.sandbox_id not in fresh.pods or key in fresh.holders or not blocks:
            continue
        if key[1] == podscope.POOL and key[0] in fresh.books.assignments:
            continue  # made anew on the nodes of the pod's containers
        nodes = blocks[0].numa_affinity
        if context.allows(books, nodes):
            resources = {block.type: block.size for block in blocks}
            books = adopt(books, *key, nodes, resources).state
        else:
            found.append(records.given_up(holder, blocks))
            former = former.without_holder(holder, former.books)
    return former, found


def _keep_held(old: EngineState, fresh: EngineState) -> EngineState:
    """Keep what pods that are still there hold for containers that have ended."""
    for key, holder in sorted(old.holders.items()):
        blocks = old.blocks(key)
        if holder.sandbox_id not in fresh.pods or key in fresh.holders or not blocks:
            continue
        if key[1] == podscope.POOL:
            continue  # made anew when all containers are on the books
        resources = {block.type: block.size for block in blocks}
        books = adopt(fresh.books, *key, blocks[0].numa_affinity, resources).state
        books = give_back(books, *key)
        fresh = fresh.with_holder(replace(holder, ended=True), books)
    return fresh
