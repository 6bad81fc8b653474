"""What the loop waits for: a request in another thread, a signal, the kubelet, or the time.

A request runs in a thread, so that a server that hangs, or a name server, does not block the loop
or the handling of signals. The messages are in a ``queue.SimpleQueue``, because its put() may be
called in a signal handler.
"""

import queue
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Self

from nri_numamem.apiserver.client import Answer, RequestError

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """A signal that ends the process has arrived."""


@dataclass(frozen=True, slots=True)
class Done:
    """A call has ended."""

    number: int
    result: Answer | Exception


@dataclass(frozen=True, slots=True)
class Registered:
    """The kubelet has registered the driver of resource claims, or refuses it."""

    error: str
    """Why it refuses the driver; "" if it does not."""


class Mailbox:
    """A context in which the process's signals become messages. For the main thread."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[Stop | Done | Registered] = queue.SimpleQueue()
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        for number in STOPPING:
            self._handlers[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal() returned

    def start(self, number: int, call: Callable[[], Answer]) -> None:
        """Call a function in a thread; `number` comes back with its result."""
        thread = threading.Thread(
            target=self._run, args=(number, call), name=f"request {number}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # a limit of threads
            self._messages.put(Done(number, RequestError(str(error))))

    def post(self, message: Registered) -> None:
        """Add a message; for any thread."""
        self._messages.put(message)

    def wait(self, timeout_s: float) -> Stop | Done | Registered | None:
        """Return the next message; None after the time."""
        try:
            return self._messages.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None

    def _run(self, number: int, call: Callable[[], Answer]) -> None:
        # Signals must interrupt the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            result: Answer | Exception = call()
        except Exception as error:  # noqa: BLE001 - the loop judges it
            result = error
        self._messages.put(Done(number, result))

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._messages.put(Stop())
