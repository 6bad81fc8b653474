"""One connection to a runtime, from the registration to its end."""

from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from nri_numamem.daemon.system import System
from nri_numamem.nri.event_loop import Ended, EventLoop
from nri_numamem.nri.multiplexer import MuxError
from nri_numamem.nri.poller import Channel, Source
from nri_numamem.nri.session import PluginSession


@dataclass(frozen=True, slots=True)
class ConnectionResult:
    """Why and how a connection ended."""

    ended: Ended
    registered: bool
    cause: str


class Program(Protocol):
    """What a connection needs from the program around it."""

    def after_replies(self, session: PluginSession) -> None:
        """Do the work that no reply waits for."""

    def registered(self) -> None:
        """Take note that the runtime accepted the registration."""

    def ending(self, result: ConnectionResult) -> None:
        """Do what has to be done before the channel is closed; the runtime may wait meanwhile."""

    def take_signals(self) -> bool:
        """Act on the signals that arrived; return whether to stop."""

    def tick(self) -> None:
        """Run the periodic jobs."""


class Connection:
    """Serves a session on a channel, which the connection owns."""

    def __init__(
        self,
        channel: Channel,
        session: PluginSession,
        program: Program,
        system: System,
        wake: Source,
    ) -> None:
        self._channel = channel
        self._session = session
        self._program = program
        self._is_announced = False
        self._cause = ""
        """Why the plugin ends the connection; "" if it does not."""
        self._loop = EventLoop(
            channel,
            session,
            poller=system.new_poller(),
            clock=system.clock,
            after_replies=self._after_replies,
            wake=wake,
            on_wake=program.take_signals,
            on_tick=program.tick,
        )

    def serve(self) -> ConnectionResult:
        """Serve to the end; closes the channel. Raises no error that the peer causes."""
        with closing(self._channel):
            result = self._serve()
            self._program.ending(result)
        return result

    def _serve(self) -> ConnectionResult:
        try:
            ended = self._loop.run(self._session.start())
        except (OSError, MuxError) as error:
            return ConnectionResult(Ended.FAILED, self._session.registered, str(error))
        registered = self._session.registered
        if ended is Ended.ABANDONED:
            return ConnectionResult(ended, registered, self._cause)
        return ConnectionResult(ended, registered, self._session.refused or ended.value)

    def end(self, cause: str) -> None:
        """End the connection as soon as the current callback returns."""
        self._cause = self._cause or cause
        self._loop.end(Ended.ABANDONED)

    def _after_replies(self) -> None:
        self._program.after_replies(self._session)
        if self._session.registered and not self._is_announced:
            self._is_announced = True
            self._program.registered()
