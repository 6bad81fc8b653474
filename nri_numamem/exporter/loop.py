"""The loop: reads the host each second, and sends the requests that the writers return.

It waits for messages only. One request is in flight at a time; one that takes longer
than its limit is abandoned.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.engine.records.record import Record
from nri_numamem.export.conditions import Conditions, Input, Problem
from nri_numamem.export.podevents import ApplyEvent, EventWriter, PodEvent
from nri_numamem.export.requests import (
    APPLY,
    FailureKind,
    apply_path,
    node_path,
)
from nri_numamem.export.slicewriter import SliceStep, SliceWriter
from nri_numamem.export.writer import Apply, ReadNode, Writer
from nri_numamem.exporter.mailbox import Done, Registered, Stop

LOOK_S = 1.0
"""Between two checks for changes."""
READ_S = 10.0
"""Between two readings of everything: some changes do not show, such as those of CPU quotas."""
REQUEST_S = 10.0
"""For one request, from the name of the server to the end of the answer."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The object made from the host, and missing inputs."""

    document: Mapping[str, object] | None
    """The object; None if there is none."""
    problems: tuple[Problem, ...] = ()
    events: tuple[PodEvent, ...] = ()
    """Those of pods since the last reading, oldest first."""
    resource_slice: Mapping[str, object] | None = None
    """The slice of the host for resource claims; None without them or without the object."""


class Inputs(Protocol):
    """The host."""

    def stamp(self) -> Hashable:
        """Return a value that differs when something has changed; takes little time."""

    def read(self) -> Reading:
        """Read everything."""


class Sender(Protocol):
    """A client of the API server."""

    def send(self, request: Request) -> Answer:
        """Return the answer; raise AccessError or RequestError."""

    def abort(self) -> None:
        """End the request that another thread has sent."""


class Messages(Protocol):
    """What the loop waits for; see ``exporter.mailbox``."""

    def start(self, number: int, call: Callable[[], Answer]) -> None:
        """Call a function in a thread; `number` comes back with its result."""

    def wait(self, timeout_s: float) -> Stop | Done | Registered | None:
        """Return the next message; None after the time."""


class ServiceManager(Protocol):
    """Takes notifications; see ``observe.systemd``."""

    def ready(self, status: str) -> None:
        """Report that the service has started."""

    def status(self, status: str) -> None:
        """Report a status text."""

    def alive(self, now_s: float) -> None:
        """Report that the service is alive."""


@dataclass(slots=True)
class _Call:
    """The request in flight."""

    number: int
    end_s: float
    writer: Writer | EventWriter | SliceWriter
    """What takes the answer."""


@dataclass(slots=True)
class _Looks:
    """When the host was read."""

    stamp: Hashable = None
    next_s: float = float("-inf")
    next_read_s: float = float("-inf")
    reading: Reading = field(default_factory=lambda: Reading(None))


class Exporter:
    """Keeps one host's object up to date until a message stops it."""

    def __init__(
        self,
        node_name: str,
        inputs: Inputs,
        sender: Sender,
        messages: Messages,
        manager: ServiceManager,
        emit: Callable[[Record], None],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        random: Callable[[], float],
        *,
        has_claims: bool = False,
        counts_for_node: bool = False,
    ) -> None:
        self._node_name = node_name
        self._inputs = inputs
        self._sender = sender
        self._messages = messages
        self._manager = manager
        self._emit = emit
        self._clock = clock
        self._wall_clock = wall_clock
        self._writer = Writer(node_name, random)
        self._events = EventWriter(node_name)
        self._slices = (
            SliceWriter(node_name, random, counts_for_node=counts_for_node) if has_claims else None
        )
        self._conditions = Conditions()
        self._looks = _Looks()
        self._call: _Call | None = None
        self._calls = 0
        self._status: str | None = None

    def run(self) -> None:
        """Look and write until a message stops it."""
        while True:
            now_s = self._clock()
            self._manager.alive(now_s)
            self._look(now_s)
            self._end_late_call(now_s)
            self._begin_call(now_s)
            self._report()
            message = self._messages.wait(self._pause_s(self._clock()))
            if isinstance(message, Stop):
                return
            if isinstance(message, Registered):
                self._register(message)
            elif message is not None:
                self._take(message)

    def _look(self, now_s: float) -> None:
        looks = self._looks
        if now_s < looks.next_s:
            return
        looks.next_s = now_s + LOOK_S
        stamp = self._inputs.stamp()
        if stamp != looks.stamp or now_s >= looks.next_read_s:
            looks.stamp, looks.next_read_s = stamp, now_s + READ_S
            looks.reading = self._inputs.read()
            self._writer.offer(looks.reading.document)
            self._events.offer(looks.reading.events)
            if self._slices is not None:
                self._slices.offer(looks.reading.resource_slice)
        self._emit_all(self._conditions.update(now_s, looks.reading.problems))

    def _begin_call(self, now_s: float) -> None:
        if self._call is not None:
            return
        writer, step = self._next_step(now_s)
        if step is None:
            return
        request = self._request(step)
        self._calls += 1
        self._call = _Call(self._calls, now_s + REQUEST_S, writer)
        self._messages.start(self._calls, lambda: self._sender.send(request))

    def _next_step(
        self, now_s: float
    ) -> tuple[
        Writer | EventWriter | SliceWriter, ReadNode | Apply | ApplyEvent | SliceStep | None
    ]:
        """Return what to request now, and what takes the answer."""
        if self._slices is not None:
            of_slice = self._slices.next_step(now_s)
            if of_slice is not None:
                return self._slices, of_slice
        step = self._writer.next_step(now_s)
        if step is not None:
            return self._writer, step
        return self._events, self._events.next_step(now_s, self._wall_clock())

    def _request(self, step: ReadNode | Apply | ApplyEvent | SliceStep) -> Request:
        if isinstance(step, ReadNode):
            return Request("GET", node_path(self._node_name))
        if isinstance(step, ApplyEvent):
            return Request("PATCH", step.path, step.body, APPLY)
        if isinstance(step, SliceStep):
            return Request(step.method, step.path, step.body, APPLY if step.body else "")
        return Request("PATCH", apply_path(self._node_name), step.body, APPLY)

    def _register(self, message: Registered) -> None:
        if self._slices is not None:
            self._emit_all(self._slices.registered(message.error))

    def _end_late_call(self, now_s: float) -> None:
        if self._call is not None and now_s >= self._call.end_s:
            writer, self._call = self._call.writer, None
            self._sender.abort()
            cause = f"no answer within {REQUEST_S:.0f} s"
            self._emit_all(writer.unanswered(now_s, FailureKind.UNREACHABLE, cause))

    def _take(self, done: Done) -> None:
        if self._call is None or self._call.number != done.number:
            return  # abandoned
        writer, self._call = self._call.writer, None
        now_s, result = self._clock(), done.result
        if isinstance(result, Answer):
            records = writer.answered(now_s, result.status, result.document, result.retry_after_s)
        else:
            records = writer.unanswered(now_s, _kind(result), str(result))
        self._emit_all(records)

    def _emit_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self._emit(record)

    def _report(self) -> None:
        """Report to the service manager; ready is when the first request has ended.

        Without anything to write it is ready too: a service manager must not wait for the plugin.
        """
        status = self._status_text()
        if status == self._status or status is None:
            return
        report = self._manager.ready if self._status is None else self._manager.status
        report(status)
        self._status = status

    def _status_text(self) -> str | None:
        reading = self._looks.reading
        if reading.document is None:
            why = (each.text for each in reading.problems if each.input is Input.OBJECT)
            return f"no object: {next(why)}"
        if self._writer.problem:
            status = f"not written: {self._writer.problem}"
        elif self._writer.was_written:
            status = f"wrote {self._node_name}"
        else:
            return None
        return status if self._slices is None else f"{status}; claims: {self._slices.status}"

    def _pause_s(self, now_s: float) -> float:
        pauses = [self._looks.next_s - now_s]
        if self._call is not None:
            pauses.append(self._call.end_s - now_s)
        else:
            pauses += [self._writer.wait_s(now_s), self._events.wait_s(now_s)]
            if self._slices is not None:
                pauses.append(self._slices.wait_s(now_s))
        return max(0.0, min(pauses))


def _kind(error: Exception) -> FailureKind:
    """Return the kind of failure; raise an error that is a bug."""
    if isinstance(error, AccessError):
        return FailureKind.CREDENTIALS
    if isinstance(error, RequestError):
        return FailureKind.UNREACHABLE
    raise error
