"""The differences between the kubelet and the plugin, by the identifiers of the docs page.

`docs/kubelet-differences.md` explains each of them, and `cases.json` has its smallest example.
"""

from enum import StrEnum


class Difference(StrEnum):
    """A difference that explains deviations in random lives; the model has a rule for each."""

    NOTHING_FITS = "nothing-fits-is-impossible"
    GROUPS_STAY_WHOLE = "groups-stay-whole"
    POD_IS_PLACED_AS_A_WHOLE = "pod-is-placed-as-a-whole"
    ONE_LIST_PER_REQUEST = "one-hint-list-per-request"
    RETURNING_POD_IS_CHARGED = "returning-pod-is-charged"
    CLOSEST_WITHOUT_MERGE = "closest-set-without-merge"
    EXACT_RELEASE = "exact-release"
    INIT_ONLY_RESOURCES = "pod-sum-has-init-resources"
    MISSING_PAGE_SIZE = "missing-page-size-is-empty"
    HINTS_ARE_DROPPED = "best-effort-drops-hints"
    PREVIOUS_NODES = "returning-pod-gets-previous-nodes"
    POD_BEFORE_CPUS = "pod-is-placed-before-its-cpus"
    ENDED_CONTAINERS = "ended-containers-keep-memory"
    CPUS_FIRST = "cpus-are-chosen-before-memory"
    ROOM_FOR_POD = "equal-nodes-leave-room-for-the-pod"
    ONE_BY_ONE = "containers-start-one-by-one"


OF_MANAGERS = (
    Difference.NOTHING_FITS,
    Difference.GROUPS_STAY_WHOLE,
    Difference.POD_IS_PLACED_AS_A_WHOLE,
    Difference.ONE_LIST_PER_REQUEST,
    Difference.RETURNING_POD_IS_CHARGED,
    Difference.CLOSEST_WITHOUT_MERGE,
    Difference.EXACT_RELEASE,
    Difference.INIT_ONLY_RESOURCES,
    Difference.MISSING_PAGE_SIZE,
)
"""Differences of the plugin's Memory Manager and Topology Manager."""

OF_ENGINE = tuple(Difference)
"""Differences of the whole plugin."""
