"""When a host's ResourceSlice is written, and with which requests: decisions only.

The kubelet deletes all slices of its Node when it starts, and those of a driver 30 s after it has
lost the driver. So the slice is written after the kubelet has registered the driver, and read each
10 s after that: a slice that is missing, or that something else has changed, is written anew.

- A slice with other devices has the next generation, and is written at most once a second.
- An API server without DRAConsumableCapacity accepts the slice and leaves fields out of it; claims
  would then get whole NUMA nodes. Such a slice is deleted. Later attempts are dry runs until an
  answer has the fields.
- Where claims are to count for the Node (KEP-5517), an API server refuses the slice of a Node whose
  kubelet does not declare the feature. The slice is then written without the mapping.
- After a failure it is tried again after a pause (``failures``). Times are monotonic.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from nri_numamem.engine.records.export import (
    DriverRefused,
    DriverRegistered,
    SliceWriteFailed,
    SliceWritten,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.export.failures import Failures
from nri_numamem.export.requests import (
    DROPPED,
    FIELD_MANAGER,
    REMEDIES,
    Failure,
    FailureKind,
    failure_of_delete,
    failure_of_node,
    failure_of_slice,
    is_missing,
    node_path,
    of_slice,
    owned_by,
    slice_path,
    uid_of,
)
from nri_numamem.export.resourceslice import (
    counted_for_node,
    generation_of,
    is_counted_for_node,
    keeps_capacity,
    slice_name,
    version_of,
    with_generation,
)

WRITE_S = 1.0
"""Least time between two writes."""
CHECK_S = 10.0
"""Between two readings of the slice."""
# In the API server's refusal of a mapping that the Node's kubelet does not declare.
_NOT_SUPPORTED = "does not support"


class _Kind(Enum):
    """What a request is for."""

    NODE = auto()
    READ = auto()
    TRY = auto()
    """A write as a dry run."""
    WRITE = auto()
    DELETE = auto()


@dataclass(frozen=True, slots=True)
class SliceStep:
    """A request; a body is to be applied."""

    method: str
    path: str
    body: bytes = b""


class SliceWriter:
    """The writes of one host's slice; `random` returns a number from 0 up to 1.

    Its steps are as those of ``writer.Writer``.
    """

    def __init__(
        self, node_name: str, random: Callable[[], float], *, counts_for_node: bool = False
    ) -> None:
        self._node_name = node_name
        self._counts_for_node = self._maps = counts_for_node
        """`_maps` is False after the API server has refused the mapping."""
        self._name = slice_name(node_name)
        self._failures = Failures(random)
        self._slice: Mapping[str, object] | None = None
        self._content = ""
        """The slice as text, without its generation."""
        self._sent = ""
        """The content of the present or last write."""
        self._written: str | None = None
        """The content that the API server has; None if it has to be written."""
        self._version: str | None = None
        """The resourceVersion of the slice there, "" for none; None if it has to be read."""
        self._generation = 0
        """Of the slice there, or of one that was there before."""
        self._uid = ""
        """Of the Node; "" if it has to be read."""
        self._kind: _Kind | None = None
        """Of the request in flight."""
        self._refusal: str | None = "the kubelet has not registered the driver yet"
        """Why the kubelet does not use the driver; None if it does."""
        self._must_delete = False
        self._may_write = True
        """False if a dry run has to show that the API server keeps all fields."""
        self._next_s = float("-inf")
        self._check_s = float("-inf")

    @property
    def status(self) -> str:
        """What was written last, or why nothing is."""
        if self._refusal is not None:
            return self._refusal
        if self._failures.problem:
            return f"not written: {self._failures.problem}"
        return f"wrote {self._name}" if self._written is not None else "not written yet"

    def offer(self, document: Mapping[str, object] | None) -> None:
        """Take the present slice; None if there is none, and then nothing is written."""
        self._slice = document
        self._content = "" if document is None else json.dumps(document)

    def registered(self, error: str) -> Iterator[Record]:
        """Process that the kubelet uses the driver, or with an error that it does not."""
        self._uid, self._version, self._written = "", None, None
        self._maps = self._counts_for_node
        self._refusal = f"the kubelet does not use the driver: {error}" if error else None
        yield DriverRefused(cause=error) if error else DriverRegistered()

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until the next step is due; infinite without one."""
        if self._kind is not None or self._slice is None or self._refusal is not None:
            return float("inf")
        is_current = self._version is not None and self._content == self._written
        due_s = max(self._next_s, self._check_s) if is_current else self._next_s
        return max(0.0, due_s - now_s)

    def next_step(self, now_s: float) -> SliceStep | None:
        """Return what to request now."""
        if self.wait_s(now_s) > 0.0:
            return None
        self._kind = self._next_kind()
        path = slice_path(self._name)
        if self._kind is _Kind.NODE:
            return SliceStep("GET", node_path(self._node_name))
        if self._kind is _Kind.READ:
            return SliceStep("GET", path)
        if self._kind is _Kind.DELETE:
            return SliceStep("DELETE", path)
        return self._apply(now_s, path)

    def _next_kind(self) -> _Kind:
        if self._must_delete:
            return _Kind.DELETE
        if not self._uid:
            return _Kind.NODE
        if self._version is None or self._content == self._written:
            return _Kind.READ
        return _Kind.WRITE if self._may_write else _Kind.TRY

    def _apply(self, now_s: float, path: str) -> SliceStep:
        assert self._slice is not None  # noqa: S101 - wait_s() is infinite without one
        self._sent = self._content
        document = with_generation(self._slice, self._generation + 1)
        document = counted_for_node(document) if self._maps else document
        path += f"?fieldManager={FIELD_MANAGER}"
        if self._kind is _Kind.TRY:
            path += "&dryRun=All"
        else:
            self._next_s = now_s + WRITE_S
        return SliceStep("PATCH", path, owned_by(document, self._node_name, self._uid))

    def answered(
        self, now_s: float, status: int, document: Mapping[str, object], retry_after_s: float = 0.0
    ) -> Iterator[Record]:
        """Process the answer to the last step: HTTP status, and the object in its body."""
        kind, self._kind = self._kind, None
        if kind is _Kind.NODE:
            self._uid = uid_of(document)
            result: Failure | Record | None = failure_of_node(status, document, retry_after_s)
        elif kind is _Kind.DELETE:
            result = self._deleted(now_s, status, document)
        else:
            result = self._take_slice(now_s, kind, status, document, retry_after_s)
        if isinstance(result, Failure):
            yield from self._failed(now_s, of_slice(result))
        elif result is not None:
            yield result

    def unanswered(self, now_s: float, kind: FailureKind, cause: str) -> Iterator[Record]:
        """Process the failure of the last step, which has no answer."""
        self._kind = None
        yield from self._failed(now_s, Failure(kind, cause, REMEDIES[kind]))

    def _take_slice(
        self,
        now_s: float,
        kind: _Kind | None,
        status: int,
        document: Mapping[str, object],
        after_s: float,
    ) -> Failure | Record | None:
        if kind is _Kind.READ and is_missing(status, document, self._name):
            self._found_none()
            return None
        failure = failure_of_slice(status, document, after_s)
        if failure is not None:
            return self._without_mapping(failure) if kind is not _Kind.READ else failure
        if kind is _Kind.READ:
            self._found(now_s, document)
            return None
        if not keeps_capacity(document):
            self._must_delete, self._may_write = kind is _Kind.WRITE, False
            return DROPPED
        self._may_write = True
        if kind is _Kind.TRY:
            return None
        return self._succeeded(now_s, document, is_created=status == 201)

    def _without_mapping(self, failure: Failure) -> Failure:
        """Return a failure; if the API server refuses the mapping, leave it out from now on."""
        if not self._maps or failure.status != 403 or _NOT_SUPPORTED not in failure.cause:
            return failure
        self._maps = False
        return replace(
            failure, kind=FailureKind.UNSUPPORTED, remedy=REMEDIES[FailureKind.UNSUPPORTED]
        )

    def _deleted(self, now_s: float, status: int, document: Mapping[str, object]) -> Failure | None:
        failure = failure_of_delete(status, document)
        if failure is None:
            self._must_delete = False
            self._next_s = now_s + self._failures.pause_s()
        return failure

    def _found_none(self) -> None:
        if self._version:  # something deleted it, perhaps with its Node: the uid may be an old one
            self._uid = ""
        self._version, self._written = "", None

    def _found(self, now_s: float, document: Mapping[str, object]) -> None:
        version = version_of(document)
        if version != self._version:
            self._written = None
        self._version = version
        self._generation = max(self._generation, generation_of(document))
        self._check_s = now_s + CHECK_S

    def _succeeded(
        self, now_s: float, document: Mapping[str, object], *, is_created: bool
    ) -> Record:
        is_first = self._written is None
        self._version, self._generation = version_of(document), self._generation + 1
        self._written, self._check_s = self._sent, now_s + CHECK_S
        attempts = self._failures.attempts
        self._failures.end()
        return SliceWritten(
            slice=self._name,
            generation=self._generation,
            size_bytes=len(self._sent),
            created=is_created,
            failed_attempts=attempts,
            counts_for_node=is_counted_for_node(document),
            alternate=is_first,
        )

    def _failed(self, now_s: float, failure: Failure) -> Iterator[Record]:
        is_new = self._failures.add(failure)
        is_to_delete = failure.kind is FailureKind.DROPPED and self._must_delete
        self._next_s = now_s if is_to_delete else now_s + self._failures.pause_s()
        # Unknown: a request without an answer may have been executed.
        self._version, self._written = None, None
        if is_new:
            yield SliceWriteFailed(
                slice=self._name,
                failure=failure.kind.value,
                cause=failure.cause,
                remedy=failure.remedy,
                http_status=failure.status or None,
            )
