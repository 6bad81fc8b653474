"""When the plugin is checked, and which problems count at once.

The plugin has some seconds to notice changes without a message: another machine, pods that ended
without a call, a disk that has room again. Every other condition must hold between any two steps.
"""

from typing import Any

from nri_numamem.daemon.cgroup_scan import SCANS_AFTER_S
from nri_numamem.daemon.cpuset_check import ROUND_S as COMPARED_S
from nri_numamem.daemon.cpuset_check import SLICE_S
from nri_numamem.nri.event_loop import TICK_S
from nri_numamem.numa import NodeSet
from tests.faults import checks, partitions, room
from tests.faults.failure import Failure
from tests.faults.host import allocatable
from tests.faults.life import Life
from tests.faults.node import Container
from tests.laboratory import api_pb2 as api
from tests.sequences.machine import movable

# A slow round of the cgroup check, whose slices begin at ticks, and the tick after it.
_ROUND_S = COMPARED_S * (SLICE_S + TICK_S) / SLICE_S + TICK_S

# Of a pod that does not fit as a whole; one node may have room for its first container.
_STARTS_IN_PART = "so that the pod does not start in part"
_NEEDED = "pods that run in part need"
_EVENLY = "in equal parts on 2 NUMA nodes"


def check(life: Life) -> None:
    """Check the accounting, unless the plugin is disconnected. Raises Failure."""
    if not life.check_connection() or life.host.cannot_log:
        return
    if life.timeouts() > life.known_timeouts and life.proxy is not None:
        life.note("a request timed out: the next Synchronize corrects its effects")
        life.proxy.cut()
        life.restore_connection()
    deadline_s = life.clock.monotonic_s() + life.eventually_s
    while True:
        now, later = _problems(life)
        if not life.check_connection():  # busy machine: the plugin was disconnected meanwhile
            life.restore_connection()
        elif now or (later and life.clock.monotonic_s() > deadline_s):
            raise Failure("\n".join(now or later))
        elif not later:
            life.plugin.count_files()
            return
        life.clock.sleep(life.clock.poll_s)


def _problems(life: Life) -> tuple[list[str], list[str]]:
    """Return problems that may never exist, and problems that must disappear soon."""
    accounting = life.plugin.accounting()
    if accounting is None:
        return [], ["the plugin writes no state_dump"]
    records = life.plugin.journal.records
    exempt = {
        r.get("container_id", "")
        for r in records[_newest_connection(records) :]
        if r["event"].endswith("unpinned_no_capacity")
    }
    exempt |= shown_unpinned(life)
    excluded = life.parameters.settings.excluded(life.seen_machine)
    amounts = allocatable(life.seen_machine, life.parameters.settings.reserved, excluded)
    found = checks.AccountingCheck(life.node, accounting, records, amounts)
    now = [*found.running(), *found.reservations(), *found.kept_memory()]
    now += [*found.excluded(excluded), *found.cpus(life.seen_machine)]
    now += partitions.problems(life.node)
    if not life.host.may_lose_records:
        now += [
            *found.unpinned(exempt),
            *found.capacity(),
            *found.free(),
            *found.shortfalls(),
            *found.pod_limits(),
        ]
    if now:
        now.append(f"accounting: {accounting}")
    unknown = {uid for uid, must in life.unreported_pods.items() if not must}
    later = [*found.tables(), *found.unknown_entries(unknown)]
    if life.parameters.keeps_state and not life.host.is_full:
        later += found.state_file(life.host.state_entries())
    return now, later


def _newest_connection(records: list[dict[str, Any]]) -> int:
    """Return the index of the first record of the newest connection.

    A launched plugin that its runtime killed may connect again before the life notices.
    """
    found = (at for at in reversed(range(len(records))) if records[at]["event"] == "configured")
    return next(found, 0)


def shown_unpinned(life: Life) -> set[str]:
    """Return the ids of containers that must stay unpinned, and of which a record says so."""
    shown = {
        record["container_id"]
        for record in life.plugin.journal.named("cpuset_mems_missing")
        if record["outcome"] == "unpinned"
    }
    return {c.message.id for c in life.node.containers() if c.must_stay_unpinned} & shown


def check_refusal(life: Life, text: str, container: Container) -> None:
    """Check the text of a refusal, and that no node had room. Raises Failure."""
    if "numamem: " not in text or not container.pod.is_guaranteed:
        raise Failure(f"unexpected text of a refusal: {text}")
    is_kept_free = _NEEDED in text and life.parameters.settings.partitions
    if life.host.cannot_log or life.parameters.settings.places_pods or is_kept_free:
        return
    if _STARTS_IN_PART in text:
        # Containers that run unpinned are not in the accounting.
        if any(one.mems for one in container.pod.alive()):
            raise Failure(f"{text}: but the pod has containers that run")
        return
    accounting = life.plugin.accounting() if life.connected else None
    if accounting is None:
        return
    given = _seen_by(accounting, container), container, life.node, movable(life.seen_machine)
    free: int | NodeSet | None = None
    if _EVENLY not in text:
        free = room.single_node_with_room(*given)
    elif life.parameters.settings.policy in ("none", "best-effort"):
        # With another policy, hints for other nodes may exclude two nodes that have room.
        free = room.two_nodes_with_room(*given)
    if free is not None:
        raise Failure(f"{text}: but node {free} has room: {accounting}")


def _seen_by(accounting: dict[str, Any], container: Container) -> dict[str, Any]:
    """Return the accounting of the nodes that the partition of a container has."""
    state, allowed = accounting["machineState"], container.pod.allowed_nodes
    return {"machineState": {node: state[node] for node in state if int(node) in allowed}}


def check_unpinned(life: Life) -> None:
    """Check, right after a Synchronize, that no node has room for unpinned containers."""
    if life.parameters.settings.places_pods:
        return
    accounting, shown = life.plugin.accounting(), shown_unpinned(life)
    for container in life.node.containers():
        is_ours = container.pod.is_guaranteed and container.message.id not in shown
        if accounting is not None and is_ours and not container.mems:
            free = room.single_node_with_room(
                _seen_by(accounting, container),
                container,
                life.node,
                movable(life.seen_machine),
            )
            if free is not None:
                name = f"{container.pod.message.name}/{container.spec.name}"
                raise Failure(f"{name} runs without nodes, and node {free} has room: {accounting}")


def check_history(life: Life) -> None:
    """Check that the history shows all living containers where the accounting has them.

    `explain` shows the last entry. The history is written within seconds.
    """
    if not life.parameters.keeps_state or life.host.cannot_log:
        return
    deadline_s = life.clock.monotonic_s() + life.eventually_s
    while problem := _problem_of_history(life):
        if life.clock.monotonic_s() > deadline_s:
            raise Failure(problem)
        life.clock.sleep(life.clock.poll_s)


def _problem_of_history(life: Life) -> str:
    accounting, entries = life.plugin.accounting(), life.plugin.history()
    if accounting is None or entries is None:
        return ""
    shown = {
        str(fields.get("container_id")): str(fields["nodes"])
        for event, fields in entries
        if "nodes" in fields and event != "memory_policy_set"
    }
    assigned = {block.key: block.nodes for block in checks.blocks_of(accounting)}
    for container in life.node.containers():
        nodes, last = assigned.get(container.key), shown.get(container.message.id)
        if nodes is not None and container.mems and str(nodes) != last:
            name = f"{container.pod.message.name}/{container.spec.name}"
            return f"{name} is recorded on nodes {nodes}, and the history has it on {last}"
    return ""


def check_cgroups(life: Life) -> None:
    """Check that the cgroups of all containers have the nodes of the accounting, in the end.

    A cgroup without nodes is repaired with later replies, so this makes some calls. Where a repair
    would move too much, a record must say that the container is unpinned. After a reconnect the
    plugin looks within 30 s; otherwise, and in each eighth life, it takes its slow rounds.
    """
    has_reconnected = life.proxy is not None and life.seed % 8
    life.clock.sleep(SCANS_AFTER_S[-1] + 5.0 if has_reconnected else _ROUND_S)
    living = [container for container in life.node.containers() if container.pod.is_guaranteed]
    for _ in living:
        one = living[0]
        reply = life.call("UpdateContainer", one.pod.message, one.message, api.LinuxResources())
        life.node.update(list(api.UpdateContainerResponse.FromString(reply.payload).update))
        life.clock.sleep(2.0)
    accounting = life.plugin.accounting()
    assert accounting is not None
    assigned = {block.key: block.nodes for block in checks.blocks_of(accounting)}
    shown = shown_unpinned(life)
    without_room = {
        record["container_id"]
        for event in ("unpinned_no_capacity", "running_unpinned_no_capacity")
        for record in life.plugin.journal.named(event)
    }
    for container in living:
        nodes = assigned.get(container.key)
        mems = NodeSet.parse(container.cgroup_mems)
        is_shown = not mems and container.message.id in shown
        # Such a container may have the name of an ended one, whose nodes stay reserved.
        if not mems and container.message.id in without_room:
            continue
        if nodes is None or nodes == mems or is_shown:
            continue
        name = f"{container.pod.message.name}/{container.spec.name}"
        raise Failure(f"the cgroup of {name} has {mems or 'no nodes'}, recorded is {nodes}")
