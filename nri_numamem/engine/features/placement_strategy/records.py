"""Records of placement strategies."""

from typing import Annotated

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.fields import pod_names
from nri_numamem.engine.records.common import WARNED_BEFORE, Cause, PodNames
from nri_numamem.engine.records.record import AlternateLevel, Level, Record, event

ANNOTATION, SETTING = "annotation", "setting"


@event(
    "placement_strategy_ignored",
    Level.WARNING,
    alternate=AlternateLevel(
        Level.DEBUG, f"podPlacementStrategies.allowed is empty, or {WARNED_BEFORE}"
    ),
    remedy="correct the annotation or the setting podPlacementStrategies, see `cause`",
)
class PlacementStrategyIgnored(Record):
    """The annotation of a pod does not choose its placement strategy; placementStrategy holds."""

    names: PodNames
    strategy: Annotated[str, "the annotation, as written"]
    cause: Cause


def ignored(pod: PodSandbox, text: str, cause: str, *, is_off: bool) -> PlacementStrategyIgnored:
    """Record a pod whose annotation does not choose its strategy; `is_off` if none may."""
    return PlacementStrategyIgnored(
        names=pod_names(pod), strategy=text, cause=cause, alternate=is_off
    )
