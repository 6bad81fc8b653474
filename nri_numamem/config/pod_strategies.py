"""The setting `podPlacementStrategies`: which strategies the annotations of pods may choose."""

from nri_numamem.config.lists import read_list, read_names
from nri_numamem.config.values import SettingsError, SettingsPath, read_choice, read_mapping
from nri_numamem.numa.pod_strategies import PodStrategies
from nri_numamem.numa.preferences import Strategy

POD_STRATEGIES = "podPlacementStrategies"
ALLOWED, NAMESPACES = "allowed", "namespaces"

_STRATEGIES = tuple(Strategy)


def read_pod_strategies(value: object) -> PodStrategies:
    """Return the setting of a parsed document; raise SettingsError for the first invalid value."""
    path = (POD_STRATEGIES,)
    mapping = read_mapping(path, value, (ALLOWED, NAMESPACES))
    return PodStrategies(
        allowed=_read_strategies((*path, ALLOWED), mapping.get(ALLOWED)),
        namespaces=read_names((*path, NAMESPACES), mapping.get(NAMESPACES), "a namespace"),
    )


def pod_strategies_document(settings: PodStrategies) -> dict[str, object]:
    """Return the document from which read_pod_strategies() makes an equal value."""
    document: dict[str, object] = {
        ALLOWED: [strategy.value for strategy in settings.allowed],
        NAMESPACES: list(settings.namespaces),
    }
    return {key: value for key, value in document.items() if value}


def _read_strategies(path: SettingsPath, value: object) -> tuple[Strategy, ...]:
    remedy = f"write a list of strategies: {', '.join(_STRATEGIES)}"
    words = read_list(path, value, remedy)
    for index, word in enumerate(words):
        if word is None:
            raise SettingsError((*path, index), "no strategy", remedy)
    found = {read_choice((*path, index), word, _STRATEGIES) for index, word in enumerate(words)}
    return tuple(strategy for strategy in _STRATEGIES if strategy in found)
