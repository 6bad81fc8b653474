"""Which placement strategy decided, and why the choice won."""

from collections.abc import Mapping, Sequence

from nri_numamem.engine.core.text import escape
from nri_numamem.engine.features.placement_strategy.records import ANNOTATION
from nri_numamem.numa import NodeSet, Strategy

_ADVANTAGES: Mapping[str, str] = {
    Strategy.PACK: "least free memory",
    Strategy.SPREAD: "most free memory",
    Strategy.BALANCED_WITH_CPUS: "best balance of memory and CPU requests",
}
_SHOWN = 8


def strategy_text(strategy: str, source: str, equal: Sequence[NodeSet]) -> str:
    """Return the text for a placement; `source` is "annotation" or "setting"."""
    chooser = "the annotation" if source == ANNOTATION else "placementStrategy"
    who = f"{escape(strategy)}, by {chooser}"
    if not equal:
        return f"{who}; no other NUMA nodes were equally good"
    sets = ", ".join(map(str, equal[:_SHOWN]))
    more = f" and {len(equal) - _SHOWN} more" if len(equal) > _SHOWN else ""
    return f"{who}: {_ADVANTAGES.get(strategy, 'first')} of the equal nodes {sets}{more}"
