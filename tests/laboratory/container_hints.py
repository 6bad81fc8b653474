"""What only the kubelet's Memory Manager does: list all hints, handle one pod at a time."""

from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from nri_numamem.engine.core.context import Context
from nri_numamem.memorymanager import Hint, Pod, State
from nri_numamem.memorymanager.blocks import resource_order
from nri_numamem.memorymanager.candidates import candidates_for, is_admissible
from nri_numamem.memorymanager.hints import (
    NO_OTHER_PROVIDERS,
    MergedHints,
    container_hints,
    regenerate_hints,
)
from nri_numamem.memorymanager.state import Request, views
from nri_numamem.numa import NodeSet, Preferences

# full_hints() visits 2^N - 1 sets: 16 nodes take about a second.
FULL_HINTS_NODES = 16

HintMap: TypeAlias = dict[str, tuple[Hint, ...]]
"""Resource name -> hints, in the kubelet's order of resources."""


def hints_for_container(context: Context, accounting: State, pod: Pod, name: str) -> HintMap | None:
    """Return the memory manager's hints for a container: all of them on up to 16 nodes.

    On larger machines only the hints that can decide a merge. None means "no preference". Sets with
    last-resort nodes have hints only if there are no others.
    """
    for view in views(accounting, context.topology.preferences.last_resort):
        hints = _hints(context, view, pod, name)
        if hints is None or any(hints.values()):
            break
    return hints


def _hints(context: Context, accounting: State, pod: Pod, name: str) -> HintMap | None:
    if len(accounting.machine_state) <= FULL_HINTS_NODES:
        return full_hints(accounting, pod, name)
    found = topology_hints(accounting, pod, name, context.topology.preferences)
    return found and {resource: hints for resource, hints in found.items() if hints}


def topology_hints(
    state: State,
    pod: Pod,
    name: str,
    preferences: Preferences,
    others: MergedHints = NO_OTHER_PROVIDERS,
) -> HintMap | None:
    """Return the hints for one container that can decide a merge with `others`.

    None is "no preference": the pod is not Guaranteed, or the container is assigned other amounts
    than it requests. An empty list per resource is "impossible".
    Source: kubelet memorymanager, GetTopologyHints.
    """
    request = pod.container(name).requests
    return _for_each(request, container_hints(state, pod, name, preferences, others))


def full_hints(state: State, pod: Pod, name: str) -> HintMap | None:
    """Return all hints for one container in the kubelet's order, smallest sets first.

    A request that fits nowhere gives an empty map, as in the kubelet. Raises ValueError on a
    machine with more than 16 NUMA nodes.
    """
    if not pod.guaranteed:
        return None
    request = pod.container(name).requests
    blocks = state.blocks(pod.uid, name)
    if blocks is not None:
        return _for_each(request, regenerate_hints(blocks, request))
    if len(state.machine_state) > FULL_HINTS_NODES:
        raise ValueError(
            f"{len(state.machine_state)} NUMA nodes have too many sets to list all hints; "
            f"this works for up to {FULL_HINTS_NODES} nodes"
        )
    candidates = candidates_for(state, pod.uid, request, NodeSet())
    hints = tuple(
        candidates.hint(nodes)
        for size in range(1, len(state.machine_state) + 1)
        for nodes in map(NodeSet, combinations(state.machine_state, size))
        if is_admissible(state, pod.uid, request, nodes)
    )
    return _for_each(request, hints) if hints else {}


def _for_each(request: Request, hints: tuple[Hint, ...] | None) -> HintMap | None:
    if hints is None:
        return None
    return dict.fromkeys(sorted(request, key=resource_order), hints)


def drop_reusable_of_others(state: State, uid: str) -> State:
    """Make the containers of all other pods no longer reusable; their blocks are unchanged.

    The kubelet does so at each allocation, because it handles one pod at a time. Source: kubelet
    memorymanager, updatePodReusableMemory.
    """
    kept = state.reusable.get(uid)
    return replace(state, reusable={} if kept is None else {uid: kept})
