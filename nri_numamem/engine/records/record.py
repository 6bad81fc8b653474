"""Records: what happened and why, the source of log lines, metrics, the history and explanations.

Each event has a class, made by the decorator ``event``: name, level and remedy are attributes of
the class, its docstring is the event's description, and its fields are those of the record. The
annotation of a field has its meaning for operators: ``Annotated[type, "meaning"]``. docs/events.md
is generated from the classes, and ``records.plain`` makes dictionaries of their instances.

A field without a default is always written, as null if it is None. A field with its default value
is left out. The unit is the end of a field's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import UnionType
from typing import (
    Annotated,
    ClassVar,
    Generic,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)


class Level(StrEnum):
    """How much attention an event needs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class AlternateLevel:
    """The level of an event under a condition."""

    level: Level
    condition: str
    """When the event has this level: a clause that completes "if ..."."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Base of a value whose fields are fields of the record that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Flat):
    """What happened and why. Each event has a subclass."""

    event: ClassVar[str] = ""
    """Name of the event, which never changes its meaning between releases."""
    usual_level: ClassVar[Level] = Level.INFO
    alternate_level: ClassVar[AlternateLevel | None] = None
    advice: ClassVar[str] = ""
    """What an operator can do; "" if nothing needs to be done."""
    is_kept: ClassVar[bool] = False
    """Whether the history has the records of this event."""

    alternate: bool = False
    """Whether the record has the alternate level of its event."""
    request_id: str = ""
    """The request that the record belongs to, such as "3-17"; "" outside of requests."""

    @property
    def level(self) -> Level:
        """Level of the record."""
        other = self.alternate_level
        return other.level if self.alternate and other is not None else self.usual_level


_V = TypeVar("_V")


class Later(Generic[_V]):
    """A field's value that is computed when it is first read: by the thread that writes records.

    `compute` depends on values that never change, so it has the same result at any time and on any
    thread. A record that waits keeps those values, so they must be small.
    """

    __slots__ = ("_compute", "_value")

    def __init__(self, compute: Callable[[], _V]) -> None:
        self._compute: Callable[[], _V] | None = compute

    @classmethod
    def of(cls, value: _V) -> "Later[_V]":
        """Return a value that is known already."""
        return cls(lambda: value)

    @property
    def value(self) -> _V:
        """The value. Two threads may compute it at the same time."""
        compute = self._compute
        if compute is not None:
            self._value = compute()
            self._compute = None
        return self._value

    def __eq__(self, other: object) -> bool:
        """Compare the values."""
        return isinstance(other, Later) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the text of the value."""
        return repr(self.value)


EVENTS: dict[str, type[Record]] = {}
"""Name of an event -> its class, of all modules that were imported."""

OUTSIDE = frozenset(("alternate", "request_id"))
"""Attributes of a record that are no fields of it."""

_R = TypeVar("_R", bound=Record)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def event(
    name: str,
    level: Level = Level.INFO,
    *,
    alternate: AlternateLevel | None = None,
    remedy: str = "",
    kept: bool = False,
) -> Callable[[type[_R]], type[_R]]:
    """Make the class of an event; the parameters are attributes of ``Record``."""

    def made(cls: type[_R]) -> type[_R]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        made.event = name
        made.usual_level = level
        made.alternate_level = alternate
        made.advice = remedy
        made.is_kept = kept
        EVENTS[name] = made
        return made

    return made


def become(record: Record, kind: type[_R], **more: object) -> _R:
    """Return a record of another event with the same fields, and with `more`.

    Raises TypeError if the other event lacks one of the fields.
    """
    same = {each.name: getattr(record, each.name) for each in fields(record)}
    return kind(**{**same, "alternate": False, **more})


def summary_of(kind: type[Record]) -> str:
    """Return the description of an event for operators."""
    return " ".join((kind.__doc__ or "").split())


def meanings_of(kind: type) -> dict[str, str]:
    """Return the meaning of each field of an event by name, those of flat values included."""
    found: dict[str, str] = {}
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        if each.name in OUTSIDE:
            continue
        flat = flat_types_of(hints[each.name])
        for one in flat:
            found |= {key: text for key, text in meanings_of(one).items() if key not in found}
        if not flat:
            found[each.name] = _meaning(hints[each.name])
    return found


def flat_types_of(hint: object) -> tuple[type, ...]:
    """Return the flat classes that the values of a field may have; none for other fields."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType, Later) else (hint,)
    return tuple(each for each in parts if isinstance(each, type) and issubclass(each, Flat))


def _meaning(hint: object) -> str:
    parts = (hint, *get_args(hint))
    return next((str(get_args(part)[1]) for part in parts if get_origin(part) is Annotated), "")


Amounts = Mapping[str, int]
"""Resource -> bytes."""
