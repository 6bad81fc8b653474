"""The QoS class of a pod, read from the end of its cgroup parent.

The runtime does not tell the class, but the kubelet writes it into the path. Only the last
component (systemd) or the last two (cgroupfs) are looked at: a root called "my-burstable" must
not fool us. Whatever does not look like the kubelet's is UNKNOWN and left alone.

Source: kubelet pkg/kubelet/cm (qos_container_manager, pod_container_manager); CRI-O gives only the
base name with the systemd driver.
"""

from enum import StrEnum
from functools import lru_cache


class QosClass(StrEnum):
    """The kubelet's QoS classes, and UNKNOWN for whatever another client made."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"
    UNKNOWN = "Unknown"


_LEVELS = {"burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}

# A parent's last level that the kubelet uses for pods of the Guaranteed class.
_ROOT_LEVEL = "kubepods"


# A pod is looked at several times in a row.
@lru_cache(maxsize=64)
def qos_of_cgroup_parent(cgroup_parent: str) -> QosClass:
    """Return the class of the pod whose `cgroup_parent` is given."""
    components = [part for part in cgroup_parent.split("/") if part]
    if not components:
        return QosClass.UNKNOWN
    last = components[-1]
    # systemd escapes "-" inside a level, so "-" always separates levels.
    is_slice = last.endswith(".slice")
    levels = last.removesuffix(".slice").split("-") if is_slice else components
    if len(levels) < 2 or not levels[-1].startswith("pod") or levels[-1] == "pod":
        return QosClass.UNKNOWN
    above = levels[-2]
    if above == _ROOT_LEVEL:
        return QosClass.GUARANTEED
    if above in _LEVELS and len(levels) > 2 and levels[-3] == _ROOT_LEVEL:
        return _LEVELS[above]
    return QosClass.UNKNOWN
