"""Records of the whole allocation state, and of the kernel's hugepage pools beside it.

The allocation state has the keys of the kubelet's state file.
"""

from collections.abc import Mapping
from typing import cast

from nri_numamem.engine.admission.alignment import misaligned_containers
from nri_numamem.engine.core.fields import provider_hints
from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager import NonPodHugepages, PoolUse, State, non_pod_hugepages
from nri_numamem.memorymanager.state_json import state_json


def accounting_record(accounting: State) -> Record:
    """Return the whole allocation state as one record."""
    return Record(
        EventName.STATE_DUMP,
        cast("Mapping[str, RecordValue]", state_json(accounting)),
    )


def state_record(state: EngineState) -> Record:
    """Return the whole allocation state, and which running containers are misaligned."""
    misaligned: dict[str, dict[str, RecordValue]] = {}
    for holder, remote in misaligned_containers(state):
        uid, name = holder.key
        misaligned.setdefault(uid, {})[name] = provider_hints(remote)
    record = accounting_record(state.accounting)
    return Record(record.event, {**record.fields, "misaligned": dict(misaligned)})


def restored_record(restored: EngineState) -> Record:
    """Return how much an earlier process left."""
    ended_pods = len(restored.previous_nodes)
    fields = {"containers": len(restored.holders), "ended_pods": ended_pods}
    return Record(EventName.STATE_RESTORED, fields)


def pools_record(accounting: State, use: PoolUse) -> Record:
    """Return the kernel's hugepage pools beside the assigned hugepages, per NUMA node."""
    used: dict[str, RecordValue] = {}
    free: dict[str, RecordValue] = {}
    assigned: dict[str, RecordValue] = {}
    for node_id, pools in use.pools.items():
        node = accounting.machine_state.get(node_id)
        used[str(node_id)] = {resource: pool.used for resource, pool in pools.items()}
        free[str(node_id)] = {resource: pool.free for resource, pool in pools.items()}
        assigned[str(node_id)] = {name: node.table(name).reserved if node else 0 for name in pools}
    fields: dict[str, RecordValue] = {
        "used_bytes": used,
        "free_bytes": free,
        "rsvd_bytes": dict(use.rsvd),
        "assigned_bytes": assigned,
        "used_by_pods_bytes": _used_by_pods(use),
    }
    return Record(
        EventName.HUGEPAGE_POOLS,
        {**fields, **_non_pod_hugepages(non_pod_hugepages(accounting, use))},
    )


def non_pod_hugepages_record(found: NonPodHugepages) -> Record:
    """Record that processes outside of pods use hugepages, or that they no longer do."""
    if found == NonPodHugepages():
        return Record(EventName.NON_POD_HUGEPAGES_CLEARED)
    return Record(EventName.NON_POD_HUGEPAGES_FOUND, _non_pod_hugepages(found))


def _used_by_pods(use: PoolUse) -> RecordValue:
    """Return the known use of all pods: {node: {resource: bytes}}."""
    sums: dict[int, dict[str, int]] = {}
    for nodes in use.by_pods.values():
        for node_id, sizes in nodes.items():
            on_node = sums.setdefault(node_id, {})
            for resource, size_bytes in sizes.items():
                on_node[resource] = on_node.get(resource, 0) + size_bytes
    return {str(node_id): dict(sizes) for node_id, sizes in sorted(sums.items())}


def _non_pod_hugepages(found: NonPodHugepages) -> dict[str, RecordValue]:
    fields: dict[str, RecordValue] = {
        "non_pod_bytes": {str(nodes): dict(sizes) for nodes, sizes in found.used.items()}
    }
    if found.rsvd:
        fields["non_pod_rsvd_bytes"] = dict(found.rsvd)
    return fields
