"""Events and fields of placement strategies."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, POD, WARNED_BEFORE

STRATEGY = {
    "strategy": "the placement strategy; absent for lowest-ids",
    "strategy_source": "`annotation` of the pod, or `setting` placementStrategy",
    "equal_nodes": "the NUMA nodes or groups that were equally good, among which the strategy "
    "decided",
}

EVENTS = {
    EventName.PLACEMENT_STRATEGY_IGNORED: EventType(
        "The annotation of a pod does not choose its placement strategy; placementStrategy holds.",
        level=Level.WARNING,
        alternate=AlternateLevel(
            Level.DEBUG, f"podPlacementStrategies.allowed is empty, or {WARNED_BEFORE}"
        ),
        remedy="correct the annotation or the setting podPlacementStrategies, see `cause`",
        fields={**POD, "strategy": "the annotation, as written", **CAUSE},
    ),
}
