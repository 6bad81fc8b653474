"""What is known of the containers that were refused last: an id, and how often to show a refusal.

The kubelet retries a refused container, and repeats a refused resize about every second, as long as
the pod's specification has it. Kubernetes merges events of equal text. So the text of a refusal has
the id of the request in which the container was refused first for this reason, and the records of
the retries have it as `refusal_id`.

The first refusal of a resize is logged. Refusals of the same amount for the same container are
logged again after growing intervals, with the number of those in between. The history does so with
all refusals. The metrics count all of them.
"""

from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias, TypeVar

from nri_numamem.engine.core.events import CreateContainer, Event, UpdateContainer
from nri_numamem.engine.core.fields import PREFIX
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records.common import ContainerNames, names_of
from nri_numamem.engine.records.containers import NotManaged, Rejected, Unplaced
from nri_numamem.engine.records.pods import PodRejected
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ContainerEnded, Resized, ResizeRejected
from nri_numamem.nri.poller import Clock

# The first interval between records of a refusal in the log. The kubelet's first retries of a
# container, which are in the history as well, come after 10 to 15 s.
LOG_INTERVAL_S = 60.0
HISTORY_INTERVAL_S = 10.0
LAST_INTERVAL_S = 3600.0

# More than the containers of a large host that are refused at one time.
LIMIT = 1024

_Repeated: TypeAlias = Unplaced | ResizeRejected | PodRejected | NotManaged | MemoryPolicyRejected
_REPEATED = (Unplaced, ResizeRejected, PodRejected, NotManaged, MemoryPolicyRejected)
"""What the kubelet's retries repeat."""

_Container: TypeAlias = tuple[str, str]
"""Pod uid and name of a container; without a name for the whole pod."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What is refused: a container in one kind of request, for one reason of the kubelet."""

    container: _Container
    kind: type[Event]
    reason: str


@dataclass(frozen=True, slots=True)
class _Shown:
    """The refusal of a container that was shown last."""

    what: tuple[str, str]
    """What makes two refusals equal."""
    at_s: float
    interval_s: float
    repeat_count: int = 0
    """Equal refusals since then."""


class _Intervals:
    """When refusals that repeat the last one of a container are shown."""

    def __init__(self, clock: Clock, first_s: float) -> None:
        self._clock = clock
        self._first_s = first_s
        self._shown: dict[_Container, _Shown] = {}
        """The one that was shown last comes last."""

    def forget(self, record: Record) -> None:
        """Show the next refusal of the record's container."""
        if self._shown:
            self._shown.pop(_container_of(record), None)

    def filtered(self, record: _Repeated) -> Record | None:
        """Return the record of a refusal with the number of those since the last one.

        None if it is not to be shown.
        """
        container, what, now_s = _container_of(record), _what(record), self._clock.monotonic_s()
        known = self._shown.get(container)
        if known is None or known.what != what:
            put_newest(self._shown, container, _Shown(what, now_s, self._first_s), LIMIT)
            return record
        if now_s - known.at_s < known.interval_s:
            self._shown[container] = replace(known, repeat_count=known.repeat_count + 1)
            return None
        interval_s = min(2 * known.interval_s, LAST_INTERVAL_S)
        put_newest(self._shown, container, _Shown(what, now_s, interval_s), LIMIT)
        return replace(record, repeat_count=known.repeat_count)


class Refusals:
    """The last LIMIT refused containers."""

    def __init__(self, clock: Clock) -> None:
        self._ids: dict[_Request, str] = {}
        """Oldest refusal first."""
        self._log = _Intervals(clock, LOG_INTERVAL_S)
        self._history = _Intervals(clock, HISTORY_INTERVAL_S)

    def id_of(self, event: Event, reason: str, request_id: str) -> str:
        """Return the id for a refusal: `request_id`, or that of the container's first one."""
        if not isinstance(event, CreateContainer | UpdateContainer):
            return request_id
        request = _Request((event.pod.uid, event.container.name), type(event), reason)
        found = self._ids.get(request, request_id)
        put_newest(self._ids, request, found, LIMIT)
        return found

    def admitted(self, event: Event) -> None:
        """Forget the ids of a container, since its creation or resize is not refused."""
        if self._ids and isinstance(event, CreateContainer | UpdateContainer):
            key = ((event.pod.uid, event.container.name), type(event))
            for request in [r for r in self._ids if (r.container, r.kind) == key]:
                del self._ids[request]

    def for_log(self, record: Record) -> Record | None:
        """Return the record to be logged; None for a refused resize that was logged just now."""
        if isinstance(record, Resized):
            self._log.forget(record)
        if not isinstance(record, ResizeRejected):
            return record
        return self._log.filtered(record)

    def for_history(self, record: Record) -> Record | None:
        """Return the record for the history; None for a refusal that it just got."""
        if isinstance(record, _REPEATED):
            return self._history.filtered(record)
        if not isinstance(record, ContainerEnded):
            self._history.forget(record)
        return record


def _container_of(record: Record) -> _Container:
    """Return the pod uid and the container of a record; "" for what it does not name."""
    names = names_of(record)
    container = names.container if isinstance(names, ContainerNames) else ""
    return ("" if names is None else names.pod_uid, container)


def _what(record: _Repeated) -> tuple[str, str]:
    """Return what makes two refusals of a container equal."""
    match record:
        case ResizeRejected():
            text = str(record.request_bytes)
        case NotManaged() | MemoryPolicyRejected():
            text = record.cause
        case _:
            text = record.message
    return (record.event, text)


def with_refusal_id(record: Record, refusal_id: str) -> Record:
    """Return the record with the id of a container's first refusal, if it is of a refusal."""
    if not isinstance(record, Rejected | ResizeRejected):
        return record
    return replace(record, refusal_id=refusal_id)


def with_id(text: str, refusal_id: str) -> str:
    """Return the text of a refusal with the id at the end of its first clause."""
    if not refusal_id:
        return text
    head, colon, tail = text.removeprefix(PREFIX).partition(": ")
    return f"{PREFIX}{head} [{refusal_id}]{colon}{tail}"


_K = TypeVar("_K")
_V = TypeVar("_V")


def put_newest(entries: dict[_K, _V], key: _K, value: _V, limit: int) -> None:
    """Store an entry as the newest one, which comes last; drop the oldest beyond `limit`."""
    entries.pop(key, None)
    entries[key] = value
    for oldest in list(islice(entries, max(0, len(entries) - limit))):
        del entries[oldest]
