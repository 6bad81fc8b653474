"""When the object is written, and with which requests: decisions only, times are monotonic.

- A changed object is written at once, but at most once a second.
- An unchanged one is written again after five minutes, because something else may have changed or
  deleted it. The Node's uid is read before, because a Node can be deleted and registered anew.
- After a failure the pauses double from 1 s to a minute. Failures that only an administrator can
  correct are tried again each minute. A failure is one record, until its kind changes or a write
  succeeds.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.engine.records.export import TopologyWriteFailed, TopologyWritten
from nri_numamem.engine.records.record import Record
from nri_numamem.export.requests import (
    REMEDIES,
    Failure,
    FailureKind,
    failure_of_apply,
    failure_of_node,
    owned_by,
    uid_of,
)

WRITE_S = 1.0
"""Least time between two writes."""
REFRESH_S = 300.0
"""Most time between two writes."""
REFRESH_JITTER_S = 30.0
"""Writes come up to this much earlier, so that hosts of a cluster do not write at the same time."""
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 60.0
PAUSE_JITTER = 0.2
"""Pauses are up to this much longer."""

# An administrator has to act. FORBIDDEN can also end soon: an API server that has just started
# answers so until it has read its roles.
_STEADY = {
    FailureKind.NO_CRD,
    FailureKind.CONFLICT,
    FailureKind.REJECTED,
}


@dataclass(frozen=True, slots=True)
class ReadNode:
    """Read the uid of the Node."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply this body."""

    body: bytes


class Writer:
    """The writes of one host's object; `random` returns a number from 0 up to 1.

    `next_step` returns one step at a time. The caller reports its answer, or the lack of
    one, before the next step.
    """

    def __init__(self, node_name: str, random: Callable[[], float]) -> None:
        self._node_name = node_name
        self._random = random
        self._object: Mapping[str, object] | None = None
        self._content = ""
        """The object as text."""
        self._sent = ""
        """The content of the present or last write."""
        self._written: str | None = None
        """The content that the API server has; None if that is unknown."""
        self._uid = ""
        """Of the Node; "" if it has to be read."""
        self._step: ReadNode | Apply | None = None
        self._next_write_s = float("-inf")
        self._refresh_s = float("-inf")
        self._failure: Failure | None = None
        """Since the last write."""
        self._failed_attempts = 0
        self.was_written = False
        """Whether a write has succeeded."""

    @property
    def problem(self) -> str:
        """Why the object is not written; "" if the last attempt succeeded, or there was none."""
        return "" if self._failure is None else self._failure.cause

    def offer(self, document: Mapping[str, object] | None) -> None:
        """Take the present object; None if there is none, and then nothing is written."""
        self._object = document
        self._content = "" if document is None else json.dumps(document)

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next step is due; infinite without one."""
        if self._step is not None or self._object is None:
            return float("inf")
        is_changed = self._content != self._written
        due_s = self._next_write_s if is_changed else max(self._next_write_s, self._refresh_s)
        return max(0.0, due_s - now_s)

    def next_step(self, now_s: float) -> ReadNode | Apply | None:
        """Return what to request now."""
        if self.wait_s(now_s) > 0.0:
            return None
        if self._content == self._written:  # a refresh
            self._uid, self._written = "", None
        self._step = self._apply(now_s) if self._uid else ReadNode()
        return self._step

    def answered(
        self, now_s: float, status: int, document: Mapping[str, object], retry_after_s: float = 0.0
    ) -> Iterator[Record]:
        """Process the answer to the last step: HTTP status, and the object in its body."""
        step, self._step = self._step, None
        if isinstance(step, ReadNode):
            failure = failure_of_node(status, document, retry_after_s)
            if failure is None:
                self._uid = uid_of(document)
                return  # the write is due at once
        else:
            failure = failure_of_apply(status, document, retry_after_s)
            if failure is None:
                yield from self._succeeded(now_s, is_created=status == 201)
                return
        yield from self._failed(now_s, failure)

    def unanswered(self, now_s: float, kind: FailureKind, cause: str) -> Iterator[Record]:
        """Process the failure of the last step, which has no answer."""
        self._step = None
        yield from self._failed(now_s, Failure(kind, cause, REMEDIES[kind]))

    def _apply(self, now_s: float) -> Apply:
        assert self._object is not None  # noqa: S101 - wait_s() is infinite without one
        self._sent = self._content
        self._next_write_s = now_s + WRITE_S
        return Apply(owned_by(self._object, self._node_name, self._uid))

    def _succeeded(self, now_s: float, *, is_created: bool) -> Iterator[Record]:
        self._written = self._sent
        self._refresh_s = now_s + REFRESH_S - REFRESH_JITTER_S * self._random()
        if is_created and self.was_written:
            # Something deleted the object, perhaps with its Node: the uid may be an old one.
            self._uid, self._written = "", None
        record = TopologyWritten(
            node_name=self._node_name,
            size_bytes=len(self._sent),
            created=is_created,
            failed_attempts=0 if self._failure is None else self._failed_attempts,
            alternate=is_created or self._failure is not None or not self.was_written,
        )
        self._failure, self._failed_attempts, self.was_written = None, 0, True
        yield record

    def _failed(self, now_s: float, failure: Failure) -> Iterator[Record]:
        before, self._failure = self._failure, failure
        pause_s = PAUSE_MAX_S
        if failure.kind not in _STEADY:
            # The exponent is bounded: a host can be without an API server for months.
            pause_s = min(PAUSE_MAX_S, PAUSE_MIN_S * 2 ** min(self._failed_attempts, 10))
        self._failed_attempts += 1
        pause_s *= 1.0 + PAUSE_JITTER * self._random()
        self._next_write_s = now_s + max(pause_s, min(failure.retry_after_s, PAUSE_MAX_S))
        self._written = None  # unknown: a request without an answer may have been executed
        if before is None or _condition(before) != _condition(failure):
            yield TopologyWriteFailed(
                node_name=self._node_name,
                failure=failure.kind.value,
                cause=failure.cause,
                remedy=failure.remedy,
                http_status=failure.status or None,
                field_managers=(*failure.field_managers,),
            )


def _condition(failure: Failure) -> tuple[object, ...]:
    return failure.kind, failure.status, failure.field_managers
