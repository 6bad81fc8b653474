"""Records of the whole allocation state, and of the kernel's hugepage pools beside it.

The allocation state has the keys of the kubelet's state file.
"""

from dataclasses import replace

from nri_numamem.engine.admission.alignment import misaligned_containers
from nri_numamem.engine.core.fields import provider_hints
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.common import Hints
from nri_numamem.engine.records.files import StateRestored
from nri_numamem.engine.records.machine import (
    HugepagePools,
    NonPodHugepagesCleared,
    NonPodHugepagesFound,
    OutsideOfPods,
    StateDump,
)
from nri_numamem.engine.records.record import Amounts
from nri_numamem.memorymanager import NonPodHugepages, PoolUse, State, non_pod_hugepages
from nri_numamem.memorymanager.state_json import state_json


def accounting_record(accounting: State) -> StateDump:
    """Return the whole allocation state as one record."""
    shown = state_json(accounting)
    return StateDump(entries=shown["entries"], machineState=shown["machineState"])


def state_record(state: EngineState) -> StateDump:
    """Return the whole allocation state, and which running containers are misaligned."""
    misaligned: dict[str, dict[str, Hints]] = {}
    for holder, remote in misaligned_containers(state):
        of_pod = misaligned.setdefault(holder.key[0], {})
        of_pod[holder.container_name] = provider_hints(remote)
    return replace(accounting_record(state.accounting), misaligned=misaligned)


def restored_record(restored: EngineState) -> StateRestored:
    """Return how much an earlier process left."""
    ended_pods = len(restored.previous_nodes)
    return StateRestored(containers=len(restored.holders), ended_pods=ended_pods)


def pools_record(accounting: State, use: PoolUse) -> HugepagePools:
    """Return the kernel's hugepage pools beside the assigned hugepages, per NUMA node."""
    used, free, assigned = dict[int, Amounts](), dict[int, Amounts](), dict[int, Amounts]()
    for node_id, pools in use.pools.items():
        node = accounting.machine_state.get(node_id)
        used[node_id] = {resource: pool.used for resource, pool in pools.items()}
        free[node_id] = {resource: pool.free for resource, pool in pools.items()}
        assigned[node_id] = {name: node.table(name).reserved if node else 0 for name in pools}
    return HugepagePools(
        used_bytes=used,
        free_bytes=free,
        rsvd_bytes=use.rsvd,
        assigned_bytes=assigned,
        used_by_pods_bytes=_used_by_pods(use),
        outside=_outside(non_pod_hugepages(accounting, use)),
    )


def non_pod_hugepages_record(
    found: NonPodHugepages,
) -> NonPodHugepagesFound | NonPodHugepagesCleared:
    """Record that processes outside of pods use hugepages, or that they no longer do."""
    if found == NonPodHugepages():
        return NonPodHugepagesCleared()
    return NonPodHugepagesFound(outside=_outside(found))


def _used_by_pods(use: PoolUse) -> dict[int, Amounts]:
    """Return the known use of all pods: {node: {resource: bytes}}."""
    sums: dict[int, dict[str, int]] = {}
    for nodes in use.by_pods.values():
        for node_id, sizes in nodes.items():
            on_node = sums.setdefault(node_id, {})
            for resource, size_bytes in sizes.items():
                on_node[resource] = on_node.get(resource, 0) + size_bytes
    return dict(sorted(sums.items()))


def _outside(found: NonPodHugepages) -> OutsideOfPods:
    used = {str(nodes): sizes for nodes, sizes in found.used.items()}
    return OutsideOfPods(non_pod_bytes=used, non_pod_rsvd_bytes=found.rsvd)
