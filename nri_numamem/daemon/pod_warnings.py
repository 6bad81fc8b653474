"""Limits the warnings about what the annotations of a pod choose to one per pod.

Users of a cluster write annotations, and a container may be created again every few seconds. The
first warning of a kind for a pod is logged as such, the others at level debug. The metrics count
all of them, and the history keeps them by its own rules.
"""

from dataclasses import replace

from nri_numamem.daemon.newest import put_newest
from nri_numamem.engine.features.burstable_pods.records import BurstableNotPinned
from nri_numamem.engine.features.memory_policies.records import (
    MemoryPolicyIgnored,
    MemoryPolicyRejected,
)
from nri_numamem.engine.features.network_hints.records import NetworkHintsIncomplete
from nri_numamem.engine.features.placement_strategy.records import PlacementStrategyIgnored
from nri_numamem.engine.records.common import names_of
from nri_numamem.engine.records.record import Record

ONCE_PER_POD = (
    BurstableNotPinned,
    MemoryPolicyIgnored,
    MemoryPolicyRejected,
    NetworkHintsIncomplete,
    PlacementStrategyIgnored,
)
"""Each has the level debug as its alternate level."""

# More than the pods of a large host, with each of the events.
WARNINGS_LIMIT = 4096


class PodWarnings:
    """Knows which pods had which warning."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], None] = {}
        """Event and pod uid; the newest comes last."""

    def filtered(self, record: Record) -> Record:
        """Return the record, with its alternate level if its pod had the same warning before.

        A container without room is no such case: its record says what the NUMA nodes have free.
        """
        if not isinstance(record, ONCE_PER_POD) or record.alternate:
            return record
        names = names_of(record)
        if names is None or (isinstance(record, BurstableNotPinned) and record.message):
            return record
        key = (record.event, names.pod_uid)
        is_repeated = key in self._known
        put_newest(self._known, key, None, WARNINGS_LIMIT)
        return replace(record, alternate=True) if is_repeated else record
