"""Pod-level resources: containers of one pod share its memory limit.

``request`` finds the signs of pod-level resources and limits what a new container requests;
``placement`` places it beside the pod's live containers. Here is what follows: containers that get
more nodes because of a new one, and the limit when a container or the pod is resized. What live
containers hold should be the limit: a container that grows takes from those that share, and what
it leaves goes to one of them, as far as its nodes have room.
"""

from dataclasses import replace

from nri_numamem.engine.admission import alignment
from nri_numamem.engine.admission.placement import resize
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.request import live_in_sandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.numa import MEMORY


def extended(
    before: EngineState, after: EngineState, uid: str
) -> tuple[EngineState, tuple[Update, ...]]:
    """Return `after`, and the updates of live containers that have more nodes than in `before`."""
    updates: list[Update] = []
    containers = before.accounting.assignments.get(uid, {})
    if containers is after.accounting.assignments.get(uid):
        return after, ()
    for name, blocks in containers.items():
        holder, now = after.holders.get((uid, name)), after.blocks((uid, name))
        if (
            holder is None
            or holder.ended
            or not now
            or now[0].numa_affinity == blocks[0].numa_affinity
        ):
            continue
        wider = alignment.with_nodes(holder, now[0].numa_affinity)
        after = after.with_holder(wider, after.accounting)
        updates.append(Update(holder.container_id, str(now[0].numa_affinity)))
    if updates:
        sent = {update.container_id for update in updates}
        cpusets = replace(after.cpusets, unconfirmed=after.cpusets.unconfirmed | sent)
        after = after.with_cpusets(cpusets)
    return after, tuple(updates)


def make_room(
    context: Context, state: EngineState, pod: PodSandbox, holder: Holder, size_bytes: int
) -> tuple[EngineState, int]:
    """Return the state before a resize of a live container, and its new memory.

    If the container shares its pod's memory, it gets at most what the others leave of the limit.
    Otherwise those that share it hold less, so that it can grow.
    """
    sharing = _sharing(state, pod)
    if not pod.memory_limit_bytes or not sharing:
        return state, size_bytes
    live, _ = live_in_sandbox(state, pod, holder.key[1])
    remaining = pod.memory_limit_bytes - live.get(MEMORY, 0)
    if holder.is_shared:
        return state, max(0, min(size_bytes, remaining))
    return _shrink(context, state, sharing, size_bytes - remaining), size_bytes


def fill_limit(context: Context, state: EngineState, pod: PodSandbox) -> EngineState:
    """Return the state in which the containers that share a pod's memory hold what is left of it.

    Nothing changes in other pods. A container gets no other nodes; what they lack stays missing.
    """
    sharing = _sharing(state, pod)
    if not pod.memory_limit_bytes or not sharing:
        return state
    live, _ = live_in_sandbox(state, pod, "")
    missing = pod.memory_limit_bytes - live.get(MEMORY, 0)
    if missing <= 0:
        return _shrink(context, state, sharing, -missing)
    key = sharing[0].key
    nodes = state.accounting.assignments[key[0]][key[1]][0].numa_affinity
    accounting = state.accounting
    room = free_bytes(accounting, nodes, MEMORY) + accounting.reusable_bytes(key[0], nodes, MEMORY)
    more = _memory(state, sharing[0]) + min(missing, room)
    return state.with_accounting(resize(context, accounting, key, more).state)


def _sharing(state: EngineState, pod: PodSandbox) -> list[Holder]:
    """Return the live containers of a sandbox that share its memory, the largest first."""
    names = state.accounting.assignments.get(pod.uid, {})
    holders = [h for name in names if (h := state.holders.get((pod.uid, name))) is not None]
    sharing = [h for h in holders if h.is_shared and not h.ended and h.sandbox_id == pod.sandbox_id]
    return sorted(sharing, key=lambda holder: -_memory(state, holder))


def _shrink(
    context: Context, state: EngineState, sharing: list[Holder], size_bytes: int
) -> EngineState:
    """Return the state in which these containers hold `size_bytes` less, if they hold so much."""
    for holder in sharing:
        held = _memory(state, holder)
        less = min(held, size_bytes)
        if less > 0:
            size_bytes -= less
            accounting = resize(context, state.accounting, holder.key, held - less).state
            state = state.with_accounting(accounting)
    return state


def _memory(state: EngineState, holder: Holder) -> int:
    blocks = state.blocks(holder.key) or ()
    return sum(block.size for block in blocks if block.type == MEMORY)
