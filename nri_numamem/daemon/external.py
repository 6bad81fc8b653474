"""The plugin as a service: connects to the runtime's socket, again and again.

When the runtime goes away, because it was restarted or never was there, the plugin tries again:
five times per second for a minute, since containers that start meanwhile get no nodes, then with
growing pauses, for ever. A runtime that is there and drops the plugin again and again is tried with
growing pauses from the start. A new connection is opened only after the previous one is closed,
because two live instances of one plugin conflict.
"""

from pathlib import Path

from nri_numamem.daemon.connection import ConnectionResult
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.signals import Signals
from nri_numamem.daemon.system import System
from nri_numamem.engine.records.connection import (
    ConnectFailed,
    ConnectionClosedByPlugin,
    Disconnected,
    RegistrationRejected,
)
from nri_numamem.nri.event_loop import TICK_S, Ended
from nri_numamem.nri.poller import Channel

DEFAULT_SOCKET = Path("/var/run/nri/nri.sock")

# Between two attempts, doubling from the shortest to the longest. An attempt takes microseconds
# where no process listens, and a failure is logged once.
PAUSE_MIN_S = 0.2
PAUSE_MAX_S = 30.0
# Pauses do not grow for this time after the runtime left: it may flap.
AWAY_SHORT_S = 60.0
# After a connection that lasted this long the pauses start from PAUSE_MIN_S again. A runtime that
# drops the plugin each time right after Configure gets no burst of connections.
STEADY_S = 10.0
# A rejected registration stays rejected until an administrator acts.
PAUSE_REFUSED_S = 300.0
# Pauses are up to this much longer, so that hosts that lost their runtimes at the same time do not
# reconnect at the same time.
JITTER = 0.2


class Backoff:
    """The pauses between attempts to connect; times are monotonic.

    The runtime is away from a failed attempt until the next connection. A process that was away, or
    has another pid, is a new one. The pid is 0 where the runtime has another pid namespace.
    """

    def __init__(self, now_s: float) -> None:
        self._pause_s = PAUSE_MIN_S
        self._away_since_s: float | None = now_s
        self._pid = 0

    def connect_failed(self, now_s: float) -> None:
        """Take into account that no process listens."""
        if self._away_since_s is None:
            self._away_since_s = now_s
            self._pause_s = PAUSE_MIN_S

    def connected(self, pid: int) -> None:
        """Take into account that the process `pid` accepted a connection."""
        if self._away_since_s is not None or pid != self._pid:
            self._pause_s = PAUSE_MIN_S
        self._away_since_s = None
        self._pid = pid

    def disconnected(self, result: ConnectionResult, lasted_s: float) -> None:
        """Take how a connection went into account."""
        if result.ended is Ended.FINISHED:
            self._pause_s = PAUSE_REFUSED_S
        elif result.registered and lasted_s >= STEADY_S:
            self._pause_s = PAUSE_MIN_S

    def next_s(self, now_s: float, random: float) -> float:
        """Return the next pause; `random` is a number from 0 to 1."""
        pause_s = self._pause_s
        if self._away_since_s is None or now_s - self._away_since_s >= AWAY_SHORT_S:
            self._pause_s = min(pause_s * 2, max(PAUSE_MAX_S, pause_s))
        return pause_s * (1.0 + JITTER * random)


class ExternalPlugin:
    """Serves one connection after the other until a signal stops it."""

    def __init__(
        self,
        service: Service,
        system: System,
        signals: Signals,
        path: Path,
        identity: Identity,
    ) -> None:
        self._service = service
        self._system = system
        self._signals = signals
        self._path = path
        self._identity = identity
        self._backoff = Backoff(system.clock.monotonic_s())
        self._logged_error = ""

    def run(self) -> None:
        """Connect and serve again and again; return after a signal that stops the process."""
        while True:
            channel = self._connect()
            if channel is not None:
                result = self._serve(channel)
                if result.ended is Ended.STOPPED:
                    return
            now_s = self._system.clock.monotonic_s()
            pause_s = self._backoff.next_s(now_s, self._system.random())
            if pause(self._service, self._system, self._signals, pause_s):
                return

    def _connect(self) -> Channel | None:
        try:
            channel = self._system.connector.connect(self._path)
            pid = self._system.connector.peer_pid(channel)
        except OSError as error:
            self._backoff.connect_failed(self._system.clock.monotonic_s())
            why = f"{self._path}: {error.strerror}"
            if why != self._logged_error:  # once, not every half minute
                remedy = "is the runtime up, and NRI enabled in its configuration?"
                self._service.emit(ConnectFailed(cause=why, remedy=remedy))
                self._logged_error = why
                # Report readiness, or systemd would wait for ever on a host without NRI.
                self._service.notifier.ready(f"waiting for the runtime: {why}")
            return None
        self._backoff.connected(pid)
        self._logged_error = ""
        return channel

    def _serve(self, channel: Channel) -> ConnectionResult:
        clock = self._system.clock
        began_s = clock.monotonic_s()
        result = self._service.serve(channel, self._identity, self._signals)
        if result.ended is not Ended.STOPPED:
            self._backoff.disconnected(result, clock.monotonic_s() - began_s)
            kind: type[Disconnected | ConnectionClosedByPlugin | RegistrationRejected] = (
                Disconnected
            )
            if result.ended is Ended.FINISHED:
                kind = ConnectionClosedByPlugin if result.registered else RegistrationRejected
            self._service.emit(kind(cause=result.cause, was_registered=result.registered))
            self._service.notifier.status(f"not connected: {result.cause}")
        return result


def pause(service: Service, system: System, signals: Signals, seconds: float) -> bool:
    """Wait, but handle signals; return whether one of them stops the process."""
    poller = system.new_poller()
    try:
        poller.watch(signals.wake)
        end_s = system.clock.monotonic_s() + seconds
        while (left_s := end_s - system.clock.monotonic_s()) > 0:
            service.notifier.alive(system.clock.monotonic_s())
            ready = poller.wait(min(left_s, TICK_S))
            if ready and service.handle_signals(signals):
                return True
    finally:
        poller.close()
    return False
