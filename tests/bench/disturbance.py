"""Measure the tail of CreateContainer while the plugin has other work.

Two plugins with the same running pods take turns: an undisturbed one without a state file, and one
with a state file whose metrics are scraped each second while the kernel sends a hundred uevents
per second.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from socket import socket

from tests.bench.creation import OURS, WARM_UP
from tests.bench.figures import Summary, summary
from tests.bench.go_runtime import GoRuntime
from tests.bench.host import GI, Host, Programs
from tests.bench.workload import workload

NODES, PODS = 8, 110
ADDRESS = "127.0.0.1"
SCRAPE_S = 1.0
UEVENTS_PER_S = 100

# Writing an action's name to this file makes the kernel send a uevent about the NUMA node and has
# no other effect; the plugin acts on these uevents.
UEVENT = Path("/sys/devices/system/node/node0/uevent")


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Times of both plugins, and the number of disturbances."""

    undisturbed: Summary
    disturbed: Summary
    scrapes: int
    uevents: int
    """0 without root, which sending uevents takes."""


def measure(programs: Programs, *, rounds: int, count: int) -> Disturbance:
    """Measure `rounds` times `count` creations of both plugins, in turns."""
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = _free_port()
        calm = _filled(stack, Host(root / "calm", NODES, programs), (), is_calm=True)
        arguments = ("--metrics-address", f"{ADDRESS}:{port}")
        other = _filled(stack, Host(root / "other", NODES, programs), arguments, is_calm=False)
        scraper = Repeated(SCRAPE_S, lambda: _scrape(port))
        storm = Repeated(1 / UEVENTS_PER_S, _uevent)
        times: tuple[list[list[float]], list[list[float]]] = ([], [])
        for _ in range(rounds):
            times[0].append(calm.measure(count, 0))
            with scraper.running(), storm.running() if _can_storm() else ExitStack():
                times[1].append(other.measure(count, 0))
    return Disturbance(summary(times[0]), summary(times[1]), scraper.done, storm.done)


class Repeated:
    """An action that a thread repeats."""

    def __init__(self, interval_s: float, action: Callable[[], None]) -> None:
        self.done = 0
        self._interval_s = interval_s
        self._action = action

    @contextmanager
    def running(self) -> Iterator[None]:
        """Repeat the action during the context; an OSError of the action is raised at its end."""
        stop = threading.Event()
        errors: list[BaseException] = []

        def repeat() -> None:
            due_s = time.monotonic()
            try:
                while not stop.wait(max(0.0, due_s - time.monotonic())):
                    self._action()
                    self.done += 1
                    due_s += self._interval_s
            except OSError as error:
                errors.append(error)

        thread = threading.Thread(target=repeat)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if errors:
            raise errors[0]


def _filled(
    stack: ExitStack, host: Host, arguments: tuple[str, ...], *, is_calm: bool
) -> GoRuntime:
    """Return a runtime whose plugin has the running pods."""
    runtime = stack.enter_context(GoRuntime(host.programs.go, host.socket))
    runtime.start()
    stack.enter_context(host)
    own_sys = not is_calm and _can_storm()
    host.start(OURS, arguments, state_file=not is_calm, own_sys=own_sys)
    host.wait_for(runtime)
    runtime.set_workload(workload(GI), "placed")
    runtime.fill(PODS)
    runtime.measure(WARM_UP, 0)
    return runtime


def _can_storm() -> bool:
    return os.geteuid() == 0 and os.access(UEVENT, os.W_OK)


def _scrape(port: int) -> None:
    connection = HTTPConnection(ADDRESS, port, timeout=10)
    connection.request("GET", "/metrics")
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != HTTPStatus.OK or b"nri_numamem" not in text:
        raise OSError(f"the metrics endpoint returned {response.status}")


def _uevent() -> None:
    UEVENT.write_text("change")


def _free_port() -> int:
    with socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])
