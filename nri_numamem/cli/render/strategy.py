"""Which placement strategy decided, and why the choice won."""

from collections.abc import Mapping

from nri_numamem.engine.core.text import escape
from nri_numamem.engine.features.placement_strategy.records import ANNOTATION
from nri_numamem.numa import Strategy

_ADVANTAGES: Mapping[str, str] = {
    Strategy.PACK: "least free memory",
    Strategy.SPREAD: "most free memory",
    Strategy.BALANCED_WITH_CPUS: "best balance of memory and CPU requests",
}
_SHOWN = 8


def strategy_text(fields: Mapping[str, object]) -> str:
    """Return the text for the record of a placement."""
    name, equal = fields.get("strategy"), fields.get("equal_nodes")
    is_own = fields.get("strategy_source") == ANNOTATION
    who = f"{escape(str(name))}, by {'the annotation' if is_own else 'placementStrategy'}"
    if not isinstance(equal, list) or not equal:
        return f"{who}; no other NUMA nodes were equally good"
    sets = ", ".join(escape(str(nodes)) for nodes in equal[:_SHOWN])
    more = f" and {len(equal) - _SHOWN} more" if len(equal) > _SHOWN else ""
    return f"{who}: {_ADVANTAGES.get(str(name), 'first')} of the equal nodes {sets}{more}"
