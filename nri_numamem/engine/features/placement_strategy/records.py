"""Records of placement strategies."""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.fields import Fields, pod_fields
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet, Strategy

ANNOTATION, SETTING = "annotation", "setting"


def ignored(pod: PodSandbox, text: str, cause: str, *, is_off: bool) -> Record:
    """Record a pod whose annotation does not choose its strategy; `is_off` if none may."""
    fields: Fields = {**pod_fields(pod), "strategy": text, "cause": cause}
    return Record(EventName.PLACEMENT_STRATEGY_IGNORED, fields, alternate=is_off)


def with_strategy(
    record: Record, strategy: Strategy, source: str, equal: Iterable[NodeSet]
) -> Record:
    """Return the record of a placement with its strategy, and the sets that this compared."""
    fields: Fields = {"strategy": strategy.value, "strategy_source": source}
    sets = [str(nodes) for nodes in equal]
    if sets:
        fields["equal_nodes"] = list(sets)
    return replace(record, fields={**record.fields, **fields})
