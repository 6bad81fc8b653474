"""Events of pods: what `kubectl describe pod` shows of refused and of unpinned containers.

An Event is written by server-side apply, so that the same request makes and updates it. Its name
follows from the decision: the retries of a refused container update one Event, whose count grows.

- Only so many wait that a host without an API server does not fill the memory; the oldest go first.
- An Event that is an hour old is dropped: the API server keeps Events for that time.
- After a failure all wait, from 1 s to a minute. One that the API server rejects is dropped.
- A failure is one record, until its kind changes or a write succeeds.

Sources: k8s.io/api/core/v1, Event; Kubernetes, "Server-Side Apply".
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

from nri_numamem.engine.records.export import PodEventsFailed, PodEventsWritten
from nri_numamem.engine.records.record import Record
from nri_numamem.export.failures import PAUSE_MAX_S, PAUSE_MIN_S
from nri_numamem.export.requests import (
    FIELD_MANAGER,
    REMEDIES,
    Failure,
    FailureKind,
    failure_of_event,
)

WAITING_LIMIT = 256
KEPT_S = 3600.0
COUNTED_LIMIT = 1024
"""Events whose count is known; the oldest are forgotten."""

_MESSAGE_LIMIT = 1024
"""The API server's limit, in bytes."""
_NAME_LIMIT = 220
"""Of the pod's name in the name of the Event, so that this has at most 253 characters."""


@dataclass(frozen=True, slots=True)
class PodEvent:
    """What happened to a container of a pod."""

    namespace: str
    pod: str
    pod_uid: str
    key: str
    """The decision: equal for those that one Event counts."""
    reason: str
    """A word in CamelCase, as in `NUMAMemoryRejected`."""
    message: str
    time: str
    """When it happened last, as in `2026-01-31T12:00:00Z`."""
    time_s: float
    """The same as Unix time."""
    first_time: str = ""
    """When it happened first; "" for `time`."""
    count: int = 1
    type: str = "Warning"
    """`Warning` or `Normal`."""

    @property
    def name(self) -> str:
        """The name of the Event object."""
        pod = self.pod[:_NAME_LIMIT].rstrip(".-")
        return f"{pod}.{crc32(f'{self.pod_uid}/{self.key}'.encode()):08x}"

    @property
    def path(self) -> str:
        """The path that applies the object."""
        objects = f"/api/v1/namespaces/{self.namespace}/events"
        return f"{objects}/{self.name}?fieldManager={FIELD_MANAGER}&force=true"

    def body(self, node_name: str) -> bytes:
        """Return the object as JSON; `node_name` is the host that reports it."""
        text = self.message.encode()[:_MESSAGE_LIMIT].decode(errors="ignore")
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": self.namespace,
                    "name": self.pod,
                    "uid": self.pod_uid,
                },
                "type": self.type,
                "reason": self.reason,
                "message": text,
                "firstTimestamp": self.first_time or self.time,
                "lastTimestamp": self.time,
                "count": self.count,
                "source": {"component": FIELD_MANAGER, "host": node_name},
                "reportingComponent": FIELD_MANAGER,
                "reportingInstance": node_name,
            },
            separators=(",", ":"),
        ).encode()


@dataclass(frozen=True, slots=True)
class ApplyEvent:
    """Apply this Event."""

    path: str
    body: bytes


class EventWriter:
    """The Events of one host's pods. Its steps are as those of ``writer.Writer``.

    Times are monotonic, but those of Events.
    """

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self._waiting: dict[str, PodEvent] = {}
        """Path -> Event, the oldest first."""
        self._counted: dict[str, tuple[str, int]] = {}
        """Path -> first time and count of its Event, the oldest first."""
        self._sent: PodEvent | None = None
        """The Event of the request in flight."""
        self._next_s = float("-inf")
        self._failure: Failure | None = None
        self._failed_attempts = 0
        self._dropped = 0
        """Events that were not written since the last record of a failure."""

    def offer(self, events: tuple[PodEvent, ...]) -> None:
        """Take new Events, oldest first."""
        for event in events:
            first_time, count = self._counted.pop(event.path, (event.time, 0))
            whole = replace(event, first_time=first_time, count=count + event.count)
            self._counted[event.path] = first_time, whole.count
            self._waiting.pop(event.path, None)
            self._waiting[event.path] = whole
        while len(self._waiting) > WAITING_LIMIT:
            self._drop(next(iter(self._waiting)))
        while len(self._counted) > COUNTED_LIMIT:
            del self._counted[next(iter(self._counted))]

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next step is due; infinite without one."""
        if self._sent is not None or not self._waiting:
            return float("inf")
        return max(0.0, self._next_s - now_s)

    def next_step(self, now_s: float, wall_s: float) -> ApplyEvent | None:
        """Return what to request now; `wall_s` is the Unix time."""
        for path in [p for p, event in self._waiting.items() if wall_s - event.time_s > KEPT_S]:
            self._drop(path)
        if self.wait_s(now_s) > 0.0:
            return None
        self._sent = event = next(iter(self._waiting.values()))
        return ApplyEvent(event.path, event.body(self._node_name))

    def answered(
        self, now_s: float, status: int, document: Mapping[str, object], retry_after_s: float = 0.0
    ) -> Iterator[Record]:
        """Process the answer to the last step."""
        failure = failure_of_event(status, document, retry_after_s)
        if failure is not None:
            yield from self._failed(now_s, failure)
            return
        self._finish_sent()
        if self._failure is not None:
            yield PodEventsWritten(dropped=self._dropped)
        self._failure, self._failed_attempts, self._dropped = None, 0, 0

    def unanswered(self, now_s: float, kind: FailureKind, cause: str) -> Iterator[Record]:
        """Process the failure of the last step, which has no answer."""
        yield from self._failed(now_s, Failure(kind, cause, REMEDIES[kind]))

    def _failed(self, now_s: float, failure: Failure) -> Iterator[Record]:
        if failure.kind in (FailureKind.REJECTED, FailureKind.CONFLICT):
            self._finish_sent()
            self._dropped += 1
        self._sent = None
        pause_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(self._failed_attempts, 10))
        self._failed_attempts += 1
        self._next_s = now_s + max(pause_s, min(failure.retry_after_s, PAUSE_MAX_S))
        before, self._failure = self._failure, failure
        if before is None or before.kind is not failure.kind:
            yield PodEventsFailed(
                failure=failure.kind.value,
                cause=failure.cause,
                remedy=failure.remedy,
                http_status=failure.status or None,
            )

    def _finish_sent(self) -> None:
        """Remove the Event that was sent, unless a newer one of its name waits."""
        sent, self._sent = self._sent, None
        if sent is not None and self._waiting.get(sent.path) == sent:
            del self._waiting[sent.path]

    def _drop(self, path: str) -> None:
        del self._waiting[path]
        self._dropped += 1
