"""The metrics endpoint of a running plugin: opened when the settings name an address.

Connects the meter, which always counts, with the server. The server's thread imports the libraries:
neither a start nor Configure waits for them, and a plugin without an endpoint never has them in
memory.
"""

from collections.abc import Callable
from pathlib import Path

from nri_numamem.daemon.instance import StateStore
from nri_numamem.daemon.remote_memory import RemoteMemory
from nri_numamem.daemon.supervisor_status import SupervisorStatus
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.metrics.counters import Meter
from nri_numamem.observe.metrics.endpoint import MetricsServer, OpenServer
from nri_numamem.observe.metrics.sources import Sources


class MetricsEndpoint:
    """At most one server of metrics. `get_engine` may be called from any thread."""

    def __init__(
        self,
        emit: Callable[[Record], None],
        clock: Clock,
        get_engine: Callable[[], Engine | None],
        state_store: StateStore,
        cgroup_root: Path,
        status: SupervisorStatus | None = None,
    ) -> None:
        self.meter = Meter(clock.wall_s)
        self._emit = emit
        self._status = status
        self._address = ""
        self._server: MetricsServer | None = None

        def state() -> EngineState | None:
            engine = get_engine()
            return None if engine is None else engine.state

        def context() -> Context | None:
            engine = get_engine()
            return None if engine is None else engine.context

        self._sources = Sources(
            meter=self.meter,
            state=state,
            context=context,
            failed_writes=lambda: state_store.failed_writes,
            written_at_s=lambda: state_store.written_at_s,
            remote_bytes=RemoteMemory(cgroup_root, state).read,
            monotonic_s=clock.monotonic_s,
        )

    def count_start(self, cause: str) -> None:
        """Count a start of the plugin, for one of START_CAUSES."""
        if self._status is None:
            self.meter.starts = {cause: 1}
        else:
            self._status.count_start(cause)
            self.meter.starts = self._status.starts

    def open(self, address: str) -> None:
        """Serve at HOST:PORT from now on, "" for nowhere; never waits for the network."""
        if address == self._address:
            return
        self.close()
        if address:
            self._server = MetricsServer(address, self._load, self._emit)
            self._server.start()
        self._address = address

    def close(self) -> None:
        """Serve no more."""
        self._address = ""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _load(self) -> OpenServer:
        from nri_numamem.observe.metrics.exposition import Metrics  # noqa: PLC0415 - see above
        from nri_numamem.observe.metrics.wsgi_server import MetricsHTTPServer  # noqa: PLC0415

        metrics = Metrics(self._sources)
        return lambda address, report: MetricsHTTPServer(address, metrics.wsgi_app(), report)
