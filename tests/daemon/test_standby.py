"""An instance that waits for the lock: on a virtual clock, and as a second process."""

import fcntl
import json
import os
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.external import ExternalPlugin
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.lock_holder import format_holder
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.standby import POLL_S, REMOVED_S, Form, Standby
from nri_numamem.host.roots import HostRoots
from nri_numamem.observe.systemd import Notifier
from tests.host_files import HostFiles
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost, wait_for
from tests.virtual.log import MemoryLog
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

HOLDER = format_holder(7, "2026-01-02T03:04:05Z", "launched by the runtime")
SOCKET = Path("/run/nri.sock")
SERVED_S = 30.0


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


class Site:
    """A host whose lock another instance may hold, and the instance under test."""

    def __init__(self, root: Path, host: HostFiles) -> None:
        self.root = root
        self.machinery = Machinery(World())
        self.runtime = VirtualRuntime(self.machinery, SOCKET)
        self.runtime.start()
        self.log = MemoryLog()
        self.state_file = root / "state" / "nri_numamem_state"
        self.lock = root / "state" / "memory_manager_state.lock"
        self.settings = Settings(state_file=str(self.state_file), log_file="/log")
        self.read: Callable[[], Settings] = lambda: self.settings
        self.log_files: list[str | None] = []
        """The log files that the instance opened, in their order."""
        self.notifier = Notifier({})
        self.roots: HostRoots = host.roots
        self.service: Service | None = None
        self._holder = -1

    def hold(self) -> None:
        """Take the lock, as another instance."""
        self.lock.parent.mkdir(exist_ok=True)
        self.lock.write_text(HOLDER)
        self._holder = os.open(self.lock, os.O_RDWR)
        fcntl.flock(self._holder, fcntl.LOCK_EX)

    def release(self) -> None:
        if self._holder >= 0:
            os.close(self._holder)
            self._holder = -1

    def run(self, *, stop_s: float = 60 + SERVED_S) -> bool:
        """Run the instance until SIGTERM after `stop_s`; return whether it served the runtime."""
        self.machinery.world.after(stop_s, self.machinery.signals.stop)
        return self.machinery.world.run(self._main)

    def files(self) -> set[str]:
        return {path.name for path in self.lock.parent.iterdir()}

    def record(self, event: str) -> dict[str, object]:
        (found,) = self.log.named(event)
        return found

    def _main(self) -> bool:
        system = self.machinery.system()
        service = self.service = Service(self.log, self.roots, system, notifier=self.notifier)
        form = Form(
            started_as="started in a test",
            read=lambda: self.read(),  # noqa: PLW0108 - tests replace it during the wait
            build=lambda settings: build_engine(settings, self.roots),
            open_log=lambda settings: self.log_files.append(settings.log_file),
        )
        engine = build_engine(self.settings, self.roots)
        with system.open_signals() as signals:
            is_started = Standby(form, service, system, signals).start(self.settings, engine)
            if is_started:
                ExternalPlugin(service, system, signals, SOCKET, Identity()).run()
        service.close()
        return is_started


@pytest.fixture
def site(tmp_path: Path, simulated_host: SimulatedHost) -> Iterator[Site]:
    made = Site(tmp_path, simulated_host)
    yield made
    made.release()


def test_without_another_instance_there_is_no_wait(site: Site) -> None:
    assert site.run(stop_s=1.0)
    assert len(site.runtime.registrations) == 1
    assert "standby" not in site.log.events
    assert site.log_files == []  # the caller has opened the log


def test_a_standby_takes_over_when_the_lock_is_free(site: Site) -> None:
    site.hold()
    world = site.machinery.world
    seen: list[set[str]] = []

    def end() -> None:
        seen.append(site.files())
        site.release()

    world.after(60, end)
    began_s = world.now_s
    assert site.run()
    (served,) = site.runtime.served
    assert 60 <= served.accepted_at_s - began_s <= 60 + 1.5 * POLL_S
    assert served.is_synchronized
    assert seen[0] == {site.lock.name}
    assert {"nri_numamem_state", "plugin.json"} <= site.files()
    standby = site.record("standby")
    assert f"another instance holds {site.lock} (pid 7, since 2026-01-02T" in str(standby["cause"])
    assert "rolling update" in str(standby["remedy"])
    assert site.record("taken_over")["waited_s"] == 60
    assert site.log.events.index("taken_over") < site.log.events.index("synchronized")


def test_a_standby_keeps_off_the_log_file(site: Site) -> None:
    site.hold()
    site.machinery.world.after(60, site.release)
    assert site.run()
    assert site.log_files == [None, "/log"]


def test_a_signal_ends_the_wait(site: Site) -> None:
    site.hold()
    assert not site.run(stop_s=10)
    assert site.machinery.world.now_s < 1010 + POLL_S
    assert site.runtime.served == []
    assert site.files() == {site.lock.name}
    assert site.lock.read_text() == HOLDER


def test_the_state_is_read_after_the_wait(site: Site) -> None:
    site.hold()

    def end() -> None:
        site.state_file.write_text("damaged")
        site.release()

    site.machinery.world.after(60, end)
    assert site.run()
    assert "state_file_unusable" in site.log.events


def test_configuration_and_machine_are_those_at_the_end_of_the_wait(
    site: Site, simulated_host: SimulatedHost
) -> None:
    site.hold()
    larger = replace(simulated_host.machine.nodes[0], memory_bytes=6 << 30)

    def end() -> None:
        site.read = lambda: replace(site.settings, fail_on_timeout=True)
        simulated_host.set_machine(
            replace(simulated_host.machine, nodes=(larger, *simulated_host.machine.nodes[1:]))
        )
        site.release()

    site.machinery.world.after(60, end)
    assert site.run()
    assert site.service is not None
    assert site.service.live.fails_on_timeout
    assert site.service.engine is not None
    assert site.service.engine.context.machine.nodes[0].memory_bytes == 6 << 30
    assert "machine_changed" not in site.log.events


def test_a_configuration_that_became_wrong_is_reported(site: Site) -> None:
    def fail() -> Settings:
        raise UsageError("config.yaml:3: no such key")

    site.hold()
    site.read = fail
    site.machinery.world.after(60, site.release)
    assert site.run()
    assert site.record("configuration_reload_failed")["error"] == "config.yaml:3: no such key"
    assert len(site.runtime.registrations) == 1


def test_another_instance_can_be_faster(site: Site) -> None:
    """The lock is taken between the look at it and the start."""
    site.hold()

    def read() -> Settings:
        site.read = lambda: site.settings
        site.hold()
        return site.settings

    site.read = read
    world = site.machinery.world
    world.after(30, site.release)
    world.after(60, site.release)
    assert site.run()
    assert site.log.events.count("standby") == 1
    assert site.record("taken_over")["waited_s"] == 60
    assert site.log_files == [None, "/log", None, "/log"]


def test_a_lock_file_that_is_removed_is_not_free_yet(site: Site) -> None:
    """Its holder makes it again within seconds."""
    site.hold()
    world = site.machinery.world

    def again() -> None:
        site.release()
        site.hold()

    world.after(10, site.lock.unlink)
    world.after(10 + REMOVED_S - 1, again)
    world.after(60, site.release)
    assert site.run()
    assert site.record("taken_over")["waited_s"] == 60


def test_a_lock_file_that_stays_away_is_free(site: Site) -> None:
    site.hold()
    site.machinery.world.after(10, site.lock.unlink)
    assert site.run()
    assert site.record("taken_over")["waited_s"] == 10 + REMOVED_S


def test_a_lock_that_cannot_be_read_is_not_free(site: Site) -> None:
    site.hold()
    world = site.machinery.world

    def block() -> None:
        site.lock.rename(site.lock.with_name("kept"))
        site.lock.symlink_to("kept")  # links are not followed

    def unblock() -> None:
        site.lock.unlink()
        site.lock.with_name("kept").rename(site.lock)

    world.after(10, block)
    world.after(50, unblock)
    world.after(60, site.release)
    assert site.run()
    assert site.record("taken_over")["waited_s"] == 60


def test_where_no_lock_is_possible_there_is_no_wait(site: Site) -> None:
    site.lock.parent.mkdir()
    site.lock.symlink_to("elsewhere")
    assert site.run(stop_s=1.0)
    assert "lock_unavailable" in site.log.events
    assert len(site.runtime.registrations) == 1


def test_without_a_state_file_there_is_no_wait(site: Site) -> None:
    site.hold()
    site.settings = replace(site.settings, state_file="")
    assert site.run(stop_s=1.0)
    assert len(site.runtime.registrations) == 1


def test_a_service_manager_sees_a_service_that_is_ready_and_alive(site: Site) -> None:
    notices = Notices(site.root / "notify")
    environment = {"NOTIFY_SOCKET": str(notices.path), "WATCHDOG_USEC": "30000000"}
    site.notifier = Notifier(environment)
    site.hold()
    assert not site.run(stop_s=100)
    assert notices.has("READY=1\nSTATUS=standby: another instance holds ")
    assert 6 <= notices.received.count("WATCHDOG=1") <= 8
    notices.close()


# With processes


def accept(runtime: FakeRuntime) -> None:
    """Accept a plugin, in place of the one before."""
    before = runtime.plugin
    runtime.accept(30)
    runtime.synchronize()
    if before is not None:
        before.connection.close()


def line_of(simulated_host: SimulatedHost, index: int = -1) -> dict[str, object]:
    """Return the first line that a process writes to stderr, a record in JSON."""
    stream = simulated_host.processes[index].stdout
    assert stream is not None
    found: dict[str, object] = json.loads(stream.readline())
    return found


def test_a_second_process_takes_over(simulated_host: SimulatedHost) -> None:
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        first = simulated_host.start()
        accept(runtime)
        second = simulated_host.start()
        record = line_of(simulated_host)
        assert (record["event"], record["level"]) == ("standby", "warning")
        assert f"pid {first.pid}, since 2" in str(record["cause"])
        assert f"started as nri-numamem run --socket {simulated_host.socket}" in str(
            record["cause"]
        )
        assert second.poll() is None
        assert simulated_host.records("standby") == []  # not in the log file of the first
        assert simulated_host.stop(first) == 0
        accept(runtime)
        assert simulated_host.wait_record("taken_over")["level"] == "info"
        assert simulated_host.stop(second) == 0
    events = [record["event"] for record in simulated_host.records()]
    assert events.index("stopped") < events.index("taken_over")
    assert events.count("synchronized") == 2


def test_a_process_that_waits_ends_by_a_signal(simulated_host: SimulatedHost) -> None:
    first = simulated_host.start()
    simulated_host.wait_record("connect_failed")
    second = simulated_host.start()
    assert line_of(simulated_host)["event"] == "standby"
    second.send_signal(signal.SIGTERM)
    output, _ = second.communicate(timeout=30)
    (line,) = output.splitlines()
    assert (second.returncode, json.loads(line)["event"]) == (0, "stopped")
    assert simulated_host.stop(first) == 0
    assert len(simulated_host.records("stopped")) == 1


def health(port: int) -> str:
    """Return the text of /healthz; "" while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def test_a_standby_is_healthy_and_writes_no_text_file(simulated_host: SimulatedHost) -> None:
    """As two pods, each with a network namespace of its own."""
    first_port, second_port = free_ports(2)
    textfile = simulated_host.root / "metrics.prom"
    config = simulated_host.root / "config.yaml"
    config.write_text(f"metricsTextfile: {textfile}\n")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        address = ("--metrics-address", f"127.0.0.1:{first_port}", "--config", str(config))
        first = simulated_host.start(*address)
        accept(runtime)
        wait_for(textfile.exists)
        address = ("--metrics-address", f"127.0.0.1:{second_port}", "--config", str(config))
        second = simulated_host.start(*address)
        wait_for(lambda: health(second_port).startswith("standby: another instance holds "))
        with urllib.request.urlopen(f"http://127.0.0.1:{second_port}/metrics") as reply:
            text = reply.read().decode()
        assert "\nnri_numamem_standby 1.0\n" in text
        assert "\nnri_numamem_connected 0.0\n" in text
        assert health(first_port) == "ok\n"
        assert len(simulated_host.records("metrics_textfile_started")) == 1
        assert simulated_host.stop(first) == 0
        accept(runtime)
        wait_for(lambda: health(second_port) == "ok\n")
        wait_for(lambda: len(simulated_host.records("metrics_textfile_started")) == 2)
        assert "\nnri_numamem_standby 0.0\n" in textfile.read_text()
        assert simulated_host.stop(second) == 0
    assert not textfile.exists()


def test_an_address_that_the_other_instance_uses_is_taken_over(
    simulated_host: SimulatedHost,
) -> None:
    """As two pods in the network namespace of the host."""
    (port,) = free_ports(1)
    address = ("--metrics-address", f"127.0.0.1:{port}")
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        first = simulated_host.start(*address)
        accept(runtime)
        wait_for(lambda: health(port) == "ok\n")
        second = simulated_host.start(*address)
        stream = second.stdout
        assert stream is not None
        found = {
            record["event"]: record
            for record in map(json.loads, map(str, (stream.readline(), stream.readline())))
        }
        assert set(found) == {"standby", "metrics_endpoint_retrying"}
        cause = "Address already in use; if the other instance serves there, this is normal"
        assert found["metrics_endpoint_retrying"]["cause"] == cause
        assert simulated_host.stop(first) == 0
        accept(runtime)
        wait_for(lambda: health(port) == "ok\n")
        assert simulated_host.stop(second) == 0
    assert len(simulated_host.records("metrics_endpoint_started")) == 2
