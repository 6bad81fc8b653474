"""A service waits for the end of another instance; a command does not."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.daemon import standby
from nri_numamem.daemon.instance import AlreadyRunningError
from nri_numamem.fake_runtime.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost, wait_for


class Notices:
    """Systemd's end of the notifications."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.received: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)  # noqa: FBT003 - its only argument

    def has(self, text: str) -> bool:
        try:
            while True:
                self.received.append(self._socket.recv(65536).decode())
        except BlockingIOError:
            return any(text in message for message in self.received)

    def close(self) -> None:
        self._socket.close()


def test_a_service_takes_over_when_the_other_instance_has_ended(
    simulated_host: SimulatedHost,
) -> None:
    notices = Notices(simulated_host.root / "notify")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        first = simulated_host.start()
        runtime.accept(30)
        second = simulated_host.start(environment={"NOTIFY_SOCKET": str(notices.path)})
        wait_for(lambda: notices.has("STATUS=waiting: another instance holds "))
        assert any(message.startswith("READY=1\n") for message in notices.received)
        assert second.poll() is None
        assert simulated_host.stop(first) == 0
        wait_for(lambda: second.poll() is not None or _registers(runtime))
        assert second.poll() is None
        assert simulated_host.stop(second) == 0
    assert len(simulated_host.records("not_started")) == 1
    notices.close()


def _registers(runtime: FakeRuntime) -> bool:
    plugin = runtime.plugin
    runtime.accept(30)
    assert plugin is not None
    plugin.connection.close()
    return True


def test_a_service_that_waits_ends_by_a_signal(simulated_host: SimulatedHost) -> None:
    notices = Notices(simulated_host.root / "notify")
    first = simulated_host.start()
    simulated_host.wait_record("connect_failed")
    second = simulated_host.start(environment={"NOTIFY_SOCKET": str(notices.path)})
    wait_for(lambda: notices.has("STATUS=waiting"))
    second.send_signal(signal.SIGTERM)
    output, _ = second.communicate(timeout=30)
    assert (second.returncode, output) == (0, "")
    assert simulated_host.stop(first) == 0
    notices.close()


def test_the_pauses_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    events: list[str] = []

    def pause(*arguments: object) -> bool:
        pauses.append(float(str(arguments[-1])))
        return len(pauses) == 7

    class Service:
        notifier = type("Notifier", (), {"ready": staticmethod(events.append)})

        def emit(self, record: object) -> None:
            events.append(str(getattr(record, "event", "")))

    def start() -> None:
        raise AlreadyRunningError(Path("/x.lock"), "pid 7")

    monkeypatch.setattr(standby, "pause", pause)
    run: Callable[..., bool] = standby.start_when_alone
    assert run(start, Service(), None, None) is False
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert [event[:20] for event in events] == ["not_started", "waiting: another ins"]
