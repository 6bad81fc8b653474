"""The setting `burstablePods`: which containers of Burstable pods are pinned."""

from nri_numamem.config.setting import BOOLEAN, NAMESPACES, Group, Kind, Setting, choices
from nri_numamem.config.values import SettingsError, SettingsPath, show
from nri_numamem.memorymanager.burstable import (
    GUARANTEED_OOM_SCORE_ADJ,
    BurstablePods,
    Evidence,
)

OOM_SCORE_ADJ_LEAST = GUARANTEED_OOM_SCORE_ADJ + 1
"""Guaranteed pods end last."""
OOM_SCORE_ADJ_MOST = 999
"""The kubelet's highest value of a Burstable container."""

_OOM_SCORE_ADJ = f"whole number from {OOM_SCORE_ADJ_LEAST} to {OOM_SCORE_ADJ_MOST}"


def _read_score(path: SettingsPath, value: object) -> int:
    if type(value) is not int or not OOM_SCORE_ADJ_LEAST <= value <= OOM_SCORE_ADJ_MOST:
        raise SettingsError(path, f"{show(value)} is out of range", f"write a {_OOM_SCORE_ADJ}")
    return value


def _check(path: SettingsPath, found: BurstablePods) -> None:
    if Evidence.LIMITS in found.evidence and not found.namespaces:
        problem = f"{Evidence.LIMITS} in evidence is a statement about listed namespaces"
        raise SettingsError((*path, "namespaces"), problem, "list the namespaces")


_KEYS = (
    Setting(
        "evidence",
        "evidence",
        choices(Evidence, "evidence", f"write a list of {', '.join(Evidence)}"),
        "What shows that the memory request of a container in a Burstable pod is its limit, so "
        "that the container is pinned like those of Guaranteed pods. `memory-reservation` is its "
        "`memory.low` or `memory.min`, which the kubelet's feature MemoryQoS sets. `annotation` is "
        "the pod's annotation `memory.numamem.io: guaranteed`. `limits` states that in the listed "
        "namespaces each memory limit is also the request. When empty, no such container is "
        "pinned. [burstable-pods.md](burstable-pods.md) describes who needs it, and the risk.",
    ),
    Setting(
        "namespaces",
        "namespaces",
        NAMESPACES,
        "The namespaces whose containers may be pinned. When empty, all namespaces; `limits` in "
        "`evidence` needs a list.",
    ),
    Setting(
        "oomScoreAdj",
        "oom_score_adj",
        Kind(_OOM_SCORE_ADJ, _read_score),
        "The `oom_score_adj` of pinned containers, where it is lower than the kubelet's. When a "
        "node is full, the kernel then kills other pods first. Containers of Guaranteed pods have "
        "-997. It needs NRI 0.7 or newer, and a container gets it when it is created.",
    ),
    Setting(
        "requireFreeMemory",
        "require_free_memory",
        BOOLEAN,
        "With `true`, a container is pinned only to NUMA nodes on which its memory limit is free "
        "or reclaimable when it is created, since containers that are not pinned use memory there "
        "too. Otherwise it starts unpinned.",
    ),
)

BURSTABLE_PODS = Group("burstablePods", _KEYS, "burstable_pods", BurstablePods, _check)
