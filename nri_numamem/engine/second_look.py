"""Containers that nobody told of, and updates that wait for a reply to go out with.

Some runtimes lose what is created while a plugin synchronizes. A second look at the cgroups finds
it (``nri_numamem.cli.second_look``); here it comes onto the books. Where its `cpuset.mems` is set,
there it stays; else it is placed by the rules, with its cgroup's limit as its request. Its name
is not known, so the container's id stands for it until the next Synchronize tells.

To pin it takes an update, and only replies to some calls carry updates; an unsolicited one can
deadlock the runtime. So its id waits in the state. What is sent are the nodes on the books at
that time, and what ends meanwhile waits no longer. A Synchronize empties the list: its own reply
pins what it tells of.
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine import podscope
from nri_numamem.engine.containers import why_left_alone
from nri_numamem.engine.context import Context
from nri_numamem.engine.events import (
    ContainersFound,
    CreateContainer,
    Event,
    StopContainer,
    UpdateContainer,
)
from nri_numamem.engine.plan import Plan, Record, Update
from nri_numamem.engine.state import EngineState
from nri_numamem.engine.synchronize import adopt_running, place_running
from nri_numamem.memorymanager import NodeSet

# The runtime applies updates within the call, under a lock for all pods, and each may move memory.
_UPDATES_PER_REPLY = 8

_CARRIERS = (CreateContainer, UpdateContainer, StopContainer)

Outcome = tuple[EngineState, Plan]


def containers_found(context: Context, state: EngineState, event: ContainersFound) -> Outcome:
    """Put what was found on the books; what is known by now is passed over, nothing is refused."""
    found: list[Record] = []
    for pod, container in event.found:
        is_known = state.holder(container.container_id) is not None
        if is_known or why_left_alone(context, pod, container) is not None:
            continue
        state = state.with_pod(pod)
        if container.cgroup_mems:
            state, made = adopt_running(state, pod, container, container.cgroup_mems)
            state = podscope.take_from_pool(context, state, pod)
            found.extend(_told(made, "it keeps the nodes that its cgroup has"))
            continue
        state, nodes, made = place_running(context, state, pod, container)
        if nodes is None:
            found.extend(_told(made, "it runs on unpinned, nothing fits"))
            continue
        state = replace(state, pending=state.pending | {container.container_id})
        found.extend(_told(made, "its nodes go out with the next reply that can carry them"))
    return state, Plan(records=tuple(found))


def _told(made: Iterable[Record], then: str) -> list[Record]:
    event = "found running, never told"
    return [Record(event, "warning", {**record.fields, "then": then}) for record in made]


def with_pending(state: EngineState, event: Event, plan: Plan) -> Outcome:
    """Let updates that wait go out with the plan for `event`, if its reply can carry them."""
    if not state.pending:
        return state, plan
    waiting = {found for found in state.pending if _can_be_sent(state, found)}
    waiting.difference_update(update.container_id for update in plan.updates)
    ready: list[str] = []
    if isinstance(event, _CARRIERS) and plan.refusal is None:
        about = event.container.container_id if isinstance(event, CreateContainer) else None
        ready = sorted(waiting - {about})[:_UPDATES_PER_REPLY]
    updates = tuple(Update(found, str(_nodes(state, found))) for found in ready)
    records = tuple(_sent(state, update) for update in updates)
    state = replace(state, pending=frozenset(waiting.difference(ready)))
    plan = replace(plan, updates=(*plan.updates, *updates), records=(*plan.records, *records))
    return state, plan


def _sent(state: EngineState, update: Update) -> Record:
    uid, name = state.keys[update.container_id]
    return Record(
        "pinned while running",
        fields={
            "container": name,
            "pod_uid": uid,
            "container_id": update.container_id,
            "nodes": update.cpuset_mems,
        },
    )


def _can_be_sent(state: EngineState, container_id: str) -> bool:
    """Tell whether the container still runs, on nodes that the machine still has."""
    holder = state.holder(container_id)
    if holder is None or holder.ended:
        return False
    return _nodes(state, container_id).issubset(NodeSet(state.books.machine_state))


def _nodes(state: EngineState, container_id: str) -> NodeSet:
    uid, name = state.keys[container_id]
    return state.books.assignments[uid][name][0].numa_affinity
