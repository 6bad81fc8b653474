"""The memory manager's hints for a container, for people: ``simulate`` shows them."""

from nri_numamem.engine.core.context import Context
from nri_numamem.memorymanager import HintMap, Pod, State, full_hints, topology_hints
from nri_numamem.memorymanager.hints import FULL_HINTS_NODES
from nri_numamem.memorymanager.state import views


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
