"""Records of the CPU manager of the kubelet, where CPUs follow memory."""

from nri_numamem.engine.records.common import Error
from nri_numamem.engine.records.record import Level, Record, event


@event(
    "cpus_left_to_kubelet",
    Level.WARNING,
    remedy="set cpuManagerPolicy: none for the kubelet, or cpuFollowsMemory: off",
    kept=True,
)
class CpusLeftToKubelet(Record):
    """The setting cpuFollowsMemory has no effect, because the kubelet's CPU manager is static
    and sets the CPUs of all containers.
    """


@event("cpus_follow_memory", kept=True)
class CpusFollowMemory(Record):
    """The kubelet's CPU manager is no longer static; cpuFollowsMemory has an effect."""


@event(
    "kubelet_cpu_state_unreadable",
    Level.WARNING,
    remedy="check the file, and --kubelet-root",
    kept=True,
)
class KubeletCpuStateUnreadable(Record):
    """The state file of the kubelet's CPU manager, or the list of isolated CPUs, cannot be read.
    Containers whose CPUs the kubelet sets stay unchanged.
    """

    error: Error
