"""What the daemon uses of the operating system, in a real process."""

import os
import signal
import socket
from pathlib import Path

import pytest

from nri_numamem.daemon.signals import Signals
from nri_numamem.daemon.system import System, host_system
from nri_numamem.nri.plugin_service import Overrun


@pytest.fixture
def system() -> System:
    return host_system()


def test_the_clock_advances(system: System) -> None:
    began_s, began_wall_s = system.clock.monotonic_s(), system.clock.wall_s()
    system.clock.sleep(0.01)
    assert system.clock.monotonic_s() - began_s >= 0.01
    assert system.clock.wall_s() > began_wall_s > 1.7e9


def test_a_connection_never_blocks_and_knows_its_peer(system: System, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with pytest.raises(OSError, match="No such file"):
        system.connector.connect(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        channel = system.connector.connect(path)
        peer, _ = listener.accept()
        with peer:
            assert system.connector.peer_pid(channel) == os.getpid()
            buffer = memoryview(bytearray(16))
            with pytest.raises(BlockingIOError):
                channel.recv_into(buffer)
            assert channel.send(b"ping") == 4
            assert peer.recv(16) == b"ping"
            channel.close()
            assert peer.recv(16) == b""


def test_a_poller_reports_what_is_ready(system: System) -> None:
    ours, theirs = socket.socketpair()
    poller = system.new_poller()
    with ours, theirs:
        poller.watch(ours)
        assert poller.wait(0.01) == []
        poller.watch(ours, is_write_pending=True)
        ((source, is_readable, is_writable),) = poller.wait(1)
        assert source is ours
        assert (is_readable, is_writable) == (False, True)
        theirs.send(b"x")
        poller.watch(ours)
        ((_, is_readable, is_writable),) = poller.wait(-1)
        assert (is_readable, is_writable) == (True, False)
        poller.close()


def test_signals_are_a_source(system: System) -> None:
    poller = system.new_poller()
    with Signals() as signals:
        source: Signals = signals
        poller.watch(source.wake)
        signal.raise_signal(signal.SIGUSR1)
        assert len(poller.wait(1)) == 1
        assert source.take() == {signal.SIGUSR1}
        assert source.take() == set()
    poller.close()


@pytest.mark.timeout(60, method="thread")  # the default uses the signal of the time limit
def test_a_time_limit_ends_a_computation(system: System) -> None:
    with system.new_time_limit() as limit, pytest.raises(Overrun):
        limit.run(0.01, lambda: system.clock.sleep(60))


def test_random_numbers_are_below_one(system: System) -> None:
    numbers = [system.random() for _ in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) > 90
