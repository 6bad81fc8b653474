"""When the object is written, and with which requests: decisions only, times are monotonic.

- A changed object is written at once, but at most once a second.
- An unchanged one is written again after five minutes, because something else may have changed or
  deleted it. The Node's uid is read before, because a Node can be deleted and registered anew.
- After a failure it is tried again after a pause (``failures``).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.engine.records.export import TopologyWriteFailed, TopologyWritten
from nri_numamem.engine.records.record import Record
from nri_numamem.export.failures import Failures
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
        self._failures = Failures(random)
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
        self.was_written = False
        """Whether a write has succeeded."""

    @property
    def problem(self) -> str:
        """Why the object is not written; "" if the last attempt succeeded, or there was none."""
        return self._failures.problem

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
        failures = self._failures
        record = TopologyWritten(
            node_name=self._node_name,
            size_bytes=len(self._sent),
            created=is_created,
            failed_attempts=failures.attempts,
            alternate=is_created or bool(failures.attempts) or not self.was_written,
        )
        failures.end()
        self.was_written = True
        yield record

    def _failed(self, now_s: float, failure: Failure) -> Iterator[Record]:
        is_new = self._failures.add(failure)
        self._next_write_s = now_s + self._failures.pause_s()
        self._written = None  # unknown: a request without an answer may have been executed
        if is_new:
            yield TopologyWriteFailed(
                node_name=self._node_name,
                failure=failure.kind.value,
                cause=failure.cause,
                remedy=failure.remedy,
                http_status=failure.status or None,
                field_managers=(*failure.field_managers,),
            )
