"""The setting `burstablePods`: which containers of Burstable pods are pinned."""

from nri_numamem.config.lists import read_list, read_names
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_choice,
    read_go_bool,
    read_mapping,
    show,
)
from nri_numamem.memorymanager.burstable import (
    GUARANTEED_OOM_SCORE_ADJ,
    BurstablePods,
    Evidence,
)

BURSTABLE_PODS = "burstablePods"
EVIDENCE, NAMESPACES = "evidence", "namespaces"
OOM_SCORE_ADJ, REQUIRE_FREE_MEMORY = "oomScoreAdj", "requireFreeMemory"

EVIDENCES = tuple(Evidence)

OOM_SCORE_ADJ_LEAST = GUARANTEED_OOM_SCORE_ADJ + 1
"""Guaranteed pods end last."""
OOM_SCORE_ADJ_MOST = 999
"""The kubelet's highest value of a Burstable container."""


def read_burstable_pods(value: object) -> BurstablePods:
    """Return the setting of a parsed document; raise SettingsError for the first invalid value."""
    path = (BURSTABLE_PODS,)
    keys = (EVIDENCE, NAMESPACES, OOM_SCORE_ADJ, REQUIRE_FREE_MEMORY)
    mapping = read_mapping(path, value, keys)
    evidence = _read_evidence((*path, EVIDENCE), mapping.get(EVIDENCE))
    namespaces = read_names((*path, NAMESPACES), mapping.get(NAMESPACES), "a namespace")
    if Evidence.LIMITS in evidence and not namespaces:
        problem = f"{Evidence.LIMITS} in {EVIDENCE} is a statement about listed namespaces"
        raise SettingsError((*path, NAMESPACES), problem, "list the namespaces")
    is_required = read_go_bool(
        (*path, REQUIRE_FREE_MEMORY), mapping.get(REQUIRE_FREE_MEMORY), default=True
    )
    score = _read_score((*path, OOM_SCORE_ADJ), mapping.get(OOM_SCORE_ADJ))
    return BurstablePods(evidence, namespaces, score, is_required)


def burstable_pods_document(settings: BurstablePods) -> dict[str, object]:
    """Return the document from which read_burstable_pods() makes an equal value."""
    document: dict[str, object] = {
        EVIDENCE: [each.value for each in settings.evidence],
        NAMESPACES: list(settings.namespaces),
        OOM_SCORE_ADJ: settings.oom_score_adj,
        REQUIRE_FREE_MEMORY: settings.require_free_memory,
    }
    return {key: value for key, value in document.items() if value not in (None, [])}


def _read_evidence(path: SettingsPath, value: object) -> tuple[Evidence, ...]:
    remedy = f"write a list of {', '.join(EVIDENCES)}"
    found: set[str] = set()
    for index, word in enumerate(read_list(path, value, remedy)):
        if word is None:
            raise SettingsError((*path, index), "no evidence", remedy)
        found.add(read_choice((*path, index), word, EVIDENCES))
    return tuple(each for each in EVIDENCES if each in found)


def _read_score(path: SettingsPath, value: object) -> int | None:
    if value is None:
        return None
    least, most = OOM_SCORE_ADJ_LEAST, OOM_SCORE_ADJ_MOST
    if type(value) is not int or not least <= value <= most:
        remedy = f"write a whole number from {least} to {most}"
        raise SettingsError(path, f"{show(value)} is out of range", remedy)
    return value
