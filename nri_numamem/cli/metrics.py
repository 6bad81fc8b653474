"""The metrics endpoint of a running plugin: opened when the settings name an address.

Joins the meter, which the loop feeds in any case, with the server and what that serves. The
libraries are imported on the server's thread: neither a start nor a runtime's Configure waits for
them, and a plugin without an endpoint never has them in memory.
"""

from collections.abc import Callable
from functools import partial

from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.observe.meter import Meter
from nri_numamem.observe.metrics_server import Answer, MetricsServer


class MetricsEndpoint:
    """At most one server of metrics. `tell` takes records, and all three are asked from any thread.

    `state` returns the engine's present state, `failed_writes` how many writes of the state file
    failed.
    """

    def __init__(
        self,
        tell: Callable[[Record], None],
        state: Callable[[], EngineState | None],
        failed_writes: Callable[[], int],
    ) -> None:
        self.meter = Meter()
        self._tell = tell
        self._state = state
        self._failed_writes = failed_writes
        self._address = ""
        self._server: MetricsServer | None = None

    def open(self, address: str) -> None:
        """Serve at HOST:PORT from now on, "" for nowhere; never waits for the network."""
        if address == self._address:
            return
        self.close()
        if address:
            self._server = MetricsServer(address, self._load, self._tell)
            self._server.start()
        self._address = address

    def close(self) -> None:
        """Serve no more."""
        self._address = ""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _load(self) -> Answer:
        from nri_numamem.observe.metrics import Metrics, Sources  # noqa: PLC0415 - see above
        from nri_numamem.observe.metrics_http import reply_to  # noqa: PLC0415

        metrics = Metrics(Sources(self.meter, self._state, self._failed_writes))
        return partial(reply_to, render=metrics.render)
