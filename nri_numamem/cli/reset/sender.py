"""A short connection to the runtime that gives containers other nodes.

The reply to Synchronize carries the updates, so the runtime stores them; its next update of the
container would undo a change of the cgroup alone. The cgroups then show whether the runtime applied
the updates.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.connection import Connection, ConnectionResult
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.signals import Signals
from nri_numamem.daemon.system import System
from nri_numamem.engine.core.events import Event, Synchronize
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.event_loop import Ended
from nri_numamem.nri.session import PluginSession
from nri_numamem.numa import NodeSet

# How long the runtime may take to synchronize, and then to apply the updates.
WAIT_S = 30.0


class Sender:
    """Sends nodes to containers by id; `is_applied` returns whether the cgroups show them."""

    def __init__(
        self,
        targets: Mapping[str, NodeSet],
        is_applied: Callable[[], bool],
        system: System,
        signals: Signals,
    ) -> None:
        self.unknown: frozenset[str] = frozenset(targets)
        """The containers that the runtime has not reported as running."""
        self._targets = targets
        self._is_applied = is_applied
        self._system = system
        self._signals = signals
        self._connection: Connection | None = None
        self._has_synchronized = False
        self._end_s = 0.0

    def send(self, path: Path, identity: Identity) -> None:
        """Connect to the runtime, send the nodes, and wait until they are in effect.

        Raises UsageError without a runtime, or if it does not synchronize.
        """
        try:
            channel = self._system.connector.connect(path)
        except OSError as error:
            remedy = "start the runtime with NRI enabled, or name its socket with --socket"
            raise UsageError(f"{path}: {error.strerror}; {remedy}") from error
        session = PluginSession(
            self,
            Decoder(),
            plugin_name=identity.name,
            plugin_idx=identity.idx,
        )
        self._end_s = self._system.clock.monotonic_s() + WAIT_S
        self._connection = Connection(channel, session, self, self._system, self._signals.wake)
        result = self._connection.serve()
        if result.ended is Ended.STOPPED:
            raise KeyboardInterrupt
        if not self._has_synchronized:
            remedy = "its log says why; nothing was changed"
            raise UsageError(f"{path}: the runtime did not synchronize: {result.cause}; {remedy}")

    # What the session calls.

    def configure(self, configuration: Configuration) -> None:
        """Ignore the runtime's configuration."""

    def decide(self, event: Event) -> Plan:
        """Return the updates for Synchronize; every other request gets an empty reply."""
        if not isinstance(event, Synchronize):
            return Plan()
        running = {container.container_id for container in event.containers if not container.ended}
        self.unknown = frozenset(self._targets) - running
        self._has_synchronized = True
        self._end_s = self._system.clock.monotonic_s() + WAIT_S
        return Plan(
            updates=tuple(
                Update(container_id, str(nodes))
                for container_id, nodes in self._targets.items()
                if container_id in running
            )
        )

    # What the connection calls.

    def after_replies(self, session: PluginSession) -> None:
        """Decode the parts of a Synchronize."""
        session.take_records()
        session.after_replies()

    def registered(self) -> None:
        """Ignore the registration."""

    def ending(self, result: ConnectionResult) -> None:
        """Ignore the end of the connection."""

    def take_signals(self) -> bool:
        """Return whether to stop."""
        return bool(self._signals.take())

    def tick(self) -> None:
        """End the connection when the containers are reset, or after the time limit."""
        if self._connection is None:
            return
        if self._has_synchronized and self._is_applied():
            self._connection.end("all containers are reset")
        elif self._system.clock.monotonic_s() >= self._end_s:
            self._connection.end(f"no answer within {WAIT_S:.0f} s")
