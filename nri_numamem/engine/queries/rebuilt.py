"""The accounting of a restored state: what the plugin had when it wrote its snapshot.

A snapshot has the containers with their blocks, and no tables. The plugin never needs them: its
first Synchronize computes them from the runtime's containers. A command that shows the state, or
tries a placement on it, has no runtime and computes them here. Within a group of nodes, the split
of the charged bytes among its nodes may differ from the plugin's; their sum is the same.
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine.core import claims, shortfalls
from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import adopt_again, mark_reusable
from nri_numamem.memorymanager.holder import HolderKey, HolderKind


def rebuilt(
    context: Context, restored: EngineState, pods: Iterable[PodSandbox] = ()
) -> EngineState:
    """Return a restored state with the accounting of all its containers, and with these pods."""
    begin = replace(
        restored,
        accounting=claims.charged(context.empty_accounting(), restored.claims.values()),
        pods={pod.sandbox_id: pod for pod in pods},
        holders={},
        keys={},
    )
    bulk = BulkUpdate(begin)
    for holder in sorted(restored.holders.values(), key=lambda each: _order(restored, each)):
        blocks = restored.blocks(holder.key)
        if not blocks:
            continue
        uid, name = holder.key
        before = bulk.pod_view(uid)
        accounting = adopt_again(before.accounting, uid, name, blocks)
        if holder.ended:
            accounting = mark_reusable(accounting, uid, name)
        bulk.replace_pod(uid, before, before.with_holder(holder, accounting))
    return shortfalls.charged(bulk.finish())


def _order(restored: EngineState, holder: Holder) -> tuple[bool, int, HolderKey]:
    """Order as in a Synchronize: running containers first; of these, those on fewer nodes."""
    is_reservation = holder.ended or holder.key[1] is HolderKind.POD
    blocks = restored.blocks(holder.key) or ()
    return is_reservation, len(blocks[0].numa_affinity) if blocks else 0, holder.key
