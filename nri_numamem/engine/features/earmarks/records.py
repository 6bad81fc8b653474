"""Records of earmarks."""

from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.records.common import Cause, Nodes
from nri_numamem.engine.records.record import Amounts, Flat, Level, Record, event


@dataclass(frozen=True, slots=True, kw_only=True)
class EarmarkNames(Flat):
    """The fields that describe an earmark."""

    earmark: Annotated[str, "UID of the earmark"]
    beneficiary: Annotated[str, "pod or claim that may use it, or namespace and labels of pods"]
    nodes: Nodes
    set_aside_bytes: Annotated[Amounts, "bytes by resource, on all of its NUMA nodes together"]


@event("earmark_made", kept=True)
class EarmarkMade(Record):
    """Room is set aside on NUMA nodes; other pods cannot use it."""

    names: EarmarkNames
    expires_s: Annotated[int, "Unix time at which the earmark ends"]


@event("earmark_renewed", Level.DEBUG)
class EarmarkRenewed(Record):
    """An earmark ends at another time than before."""

    names: EarmarkNames
    expires_s: Annotated[int, "Unix time at which the earmark ends"]


@event("earmark_rejected", Level.WARNING, remedy="see `cause`", kept=True)
class EarmarkRejected(Record):
    """Room cannot be set aside."""

    names: EarmarkNames
    cause: Cause


@event("earmark_ended", kept=True)
class EarmarkEnded(Record):
    """Room is no longer set aside."""

    names: EarmarkNames
    cause: Cause
    left_bytes: Annotated[Amounts, "bytes by resource that its beneficiary did not use"]


def names_of(earmark: Earmark) -> EarmarkNames:
    """Return the fields that describe an earmark."""
    return EarmarkNames(
        earmark=earmark.uid,
        beneficiary=str(earmark.beneficiary),
        nodes=earmark.room.nodes,
        set_aside_bytes=dict(earmark.room.amounts),
    )
