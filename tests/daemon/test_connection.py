"""How connections end, in a virtual world."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.daemon.connection import Connection, ConnectionResult
from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.event_loop import TICK_S, Ended
from nri_numamem.nri.session import PluginSession
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World


class Program:
    """A program that decides nothing, and counts."""

    def __init__(self, machinery: Machinery) -> None:
        self.machinery = machinery
        self.registrations = 0
        self.ticks = 0
        self.endings: list[ConnectionResult] = []
        self.on_ending: Callable[[], None] = lambda: None
        self.on_tick: Callable[[], None] = lambda: None

    def configure(self, configuration: Configuration) -> None:
        assert configuration.runtime_name == "containerd"

    def decide(self, _event: Event) -> Plan:
        return Plan()

    def after_replies(self, session: PluginSession) -> None:
        session.take_records()
        session.after_replies()

    def registered(self) -> None:
        self.registrations += 1

    def ending(self, result: ConnectionResult) -> None:
        self.endings.append(result)
        self.on_ending()

    def take_signals(self) -> bool:
        return bool(self.machinery.signals.take())

    def tick(self) -> None:
        self.ticks += 1
        self.on_tick()


class Served:
    def __init__(self, name: str = "numamem") -> None:
        self.world = World()
        self.machinery = Machinery(self.world)
        self.program = Program(self.machinery)
        self.runtime = VirtualRuntime(self.machinery, Path("/run/nri.sock"))
        session = PluginSession(self.program, Decoder(), plugin_name=name, plugin_idx="10")
        channel = self.runtime.launch()
        system = self.machinery.system()
        wake = self.machinery.signals
        self.connection = Connection(channel, session, self.program, system, wake)

    def serve(self) -> ConnectionResult:
        return self.world.run(self.connection.serve)


@pytest.fixture
def served() -> Served:
    return Served()


def test_the_runtime_closes_the_connection(served: Served) -> None:
    served.world.after(5, served.runtime.stop)
    expected = ConnectionResult(Ended.EOF, registered=True, cause=Ended.EOF.value)
    assert served.serve() == expected
    assert served.program.registrations == 1
    assert served.program.ticks == 5 // TICK_S


def test_the_channel_is_open_while_the_connection_is_ending(served: Served) -> None:
    seen: list[bool] = []
    served.program.on_ending = lambda: seen.append(served.runtime.newest.is_closed)
    served.world.after(5, served.machinery.signals.stop)
    result = served.serve()
    assert served.program.endings == [result]
    assert seen == [False]
    assert served.runtime.newest.is_closed


def test_a_signal_stops_the_plugin(served: Served) -> None:
    served.world.after(1, served.machinery.signals.stop)
    assert served.serve().ended is Ended.STOPPED
    assert served.runtime.newest.is_closed


def test_the_plugin_ends_the_connection_for_the_first_cause(served: Served) -> None:
    def end() -> None:
        served.connection.end("a cause")
        served.connection.end("another cause")

    served.program.on_tick = end
    assert served.serve() == ConnectionResult(Ended.ABANDONED, registered=True, cause="a cause")
    assert served.program.ticks == 1


def test_the_runtime_refuses_the_registration() -> None:
    served = Served("no such name")
    result = served.serve()
    assert (result.ended, result.registered) == (Ended.FINISHED, False)
    assert "no such name" in result.cause
    assert served.program.registrations == 0


def test_a_peer_of_another_protocol_is_a_failure(served: Served) -> None:
    served.world.after(1, lambda: served.runtime.send_raw(b"\xff" * 64))
    result = served.serve()
    assert (result.ended, result.registered) == (Ended.FAILED, True)
    assert result.cause
