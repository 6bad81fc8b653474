"""The metrics endpoint of a running plugin: opened when the settings name an address.

Connects the meter, which always counts, with the server. The server's thread imports the libraries:
neither a start nor Configure waits for them, and a plugin without an endpoint never has them in
memory.
"""

from collections.abc import Callable

from nri_numamem.engine.context import Context
from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.observe.metrics.counters import Meter
from nri_numamem.observe.metrics.endpoint import MetricsServer, OpenServer


class MetricsEndpoint:
    """At most one server of metrics. Any thread may call the functions.

    `state` and `context` return those of the engine, `failed_writes` counts failed writes of the
    state file.
    """

    def __init__(
        self,
        emit: Callable[[Record], None],
        state: Callable[[], EngineState | None],
        failed_writes: Callable[[], int],
        context: Callable[[], Context | None],
    ) -> None:
        self.meter = Meter()
        self._emit = emit
        self._state = state
        self._failed_writes = failed_writes
        self._context = context
        self._address = ""
        self._server: MetricsServer | None = None

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
        from nri_numamem.observe.metrics.exposition import (  # noqa: PLC0415 - see above
            Metrics,
            Sources,
        )
        from nri_numamem.observe.metrics.wsgi_server import MetricsHTTPServer  # noqa: PLC0415

        metrics = Metrics(Sources(self.meter, self._state, self._failed_writes, self._context))
        return lambda address, report: MetricsHTTPServer(address, metrics.wsgi_app(), report)
