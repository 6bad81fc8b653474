"""The QoS class of a pod, read from the end of its cgroup parent.

The runtime does not send the class, but the kubelet writes it into the path. Only the last
component (systemd) or the last components (cgroupfs) count, because the name of a root may contain
the name of a class. A path that is not the kubelet's gives UNKNOWN.

Source: kubelet pkg/kubelet/cm (qos_container_manager, pod_container_manager); CRI-O sends only
the base name with the systemd driver.
"""

from nri_numamem.memorymanager import QosClass

_LEVELS = {"burstable": QosClass.BURSTABLE, "besteffort": QosClass.BEST_EFFORT}

# The kubelet's root level, directly below which pods of the Guaranteed class are.
_ROOT_LEVEL = "kubepods"


def qos_of_cgroup_parent(cgroup_parent: str) -> QosClass:
    """Return the class of the pod with this `cgroup_parent`."""
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
