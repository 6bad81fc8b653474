"""What is true of an engine's state between two events; a violation is a bug of the plugin.

The checks are fit for production: each takes some milliseconds with 500 pods, and returns at most
MAX_VIOLATIONS lines.
"""

from collections import Counter

from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods import outstanding
from nri_numamem.engine.records.containers import Admitted
from nri_numamem.memorymanager import check_accounting, check_groups, check_shortfalls
from nri_numamem.memorymanager.invariants import MAX_VIOLATIONS


def check_sums(state: EngineState) -> tuple[str, ...]:
    """Return one line for each sum that differs from what it is the sum of."""
    accounting = state.accounting
    return check_accounting(accounting) or check_shortfalls(accounting) or _outstanding(state)


def check_placements(before: EngineState, after: EngineState) -> tuple[str, ...]:
    """Return one line for each group that placements since `before` mixed with another one.

    The rules of placement mix no groups, but what something else pinned, and a machine with other
    nodes, can. So nothing is returned with a container that was not placed by the rules, nor after
    a change of the nodes, nor if the groups were mixed before. Both states are of one connection.
    """
    nodes = before.accounting.machine_state.keys(), after.accounting.machine_state.keys()
    if nodes[0] != nodes[1] or not all(map(_are_all_admitted, (before, after))):
        return ()
    return () if check_groups(before.accounting) else check_groups(after.accounting)


def _are_all_admitted(state: EngineState) -> bool:
    pinned = state.reasons.pinned
    running = (holder for holder in state.holders.values() if not holder.ended)
    are_known = all(holder.container_id in pinned for holder in running)
    return are_known and all(reason.event == Admitted.event for reason in pinned.values())


def _outstanding(state: EngineState) -> tuple[str, ...]:
    """Compare the outstanding amounts of pods; not of pods with several sandboxes.

    Which of these counts depends on the order of events.
    """
    expected = outstanding.computed(state).outstanding
    if expected is state.outstanding:
        return ()
    sandboxes = Counter(pod.uid for pod in state.pods.values())
    lines = [
        f"{uid}: outstanding {dict(state.outstanding.get(uid, {}))}, but limit and blocks give "
        f"{dict(expected.get(uid, {}))}"
        for uid in sorted(state.outstanding.keys() | expected.keys())
        if sandboxes[uid] <= 1 and state.outstanding.get(uid) != expected.get(uid)
    ]
    return tuple(lines[:MAX_VIOLATIONS])
