"""The metrics of a running plugin: served and written where the settings say.

Connects the meter, which always counts, with the server and the text file. Their threads import the
libraries: neither a start nor Configure waits for them, and a plugin without metrics never has them
in memory.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from nri_numamem.daemon.instance import StateStore
from nri_numamem.daemon.remote_memory import RemoteMemory
from nri_numamem.daemon.supervisor_status import START_CAUSES, SupervisorStatus
from nri_numamem.engine.engine import Committed, Engine
from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.metrics.counters import Meter
from nri_numamem.observe.metrics.endpoint import MetricsServer, OpenServer
from nri_numamem.observe.metrics.health import problems
from nri_numamem.observe.metrics.sources import Sources
from nri_numamem.observe.metrics.textfile import Render, TextFile


class MetricsEndpoint:
    """At most one server of metrics and one text file; any thread may call `get_engine`."""

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
        self._places = ("", "")
        """Address and text file."""
        self._outputs: list[MetricsServer | TextFile] = []

        def state() -> EngineState | None:
            engine = get_engine()
            return None if engine is None else engine.state

        def committed() -> Committed | None:
            engine = get_engine()
            return None if engine is None else engine.committed

        self._sources = Sources(
            meter=self.meter,
            committed=committed,
            failed_writes=lambda: state_store.failed_writes,
            written_at_s=lambda: state_store.written_at_s,
            remote_bytes=RemoteMemory(cgroup_root, state).read,
            monotonic_s=clock.monotonic_s,
        )

    def count_start(self, cause: str) -> None:
        """Count a start of the plugin, for one of START_CAUSES."""
        if self._status is None:
            self.meter.starts = {**dict.fromkeys(START_CAUSES, 0), cause: 1}
        else:
            self._status.count_start(cause)
            self.meter.starts = self._status.starts

    def open(self, address: str, textfile: str = "") -> None:
        """Serve at an address, and write a text file, from now on; "" for none.

        Never waits for network or disk.
        """
        if (address, textfile) == self._places:
            return
        self.close()
        if address:
            self._outputs.append(MetricsServer(address, self._load_server, self._emit))
        if textfile:
            self._outputs.append(TextFile(Path(textfile), self._load_renderer, self._emit))
        for output in self._outputs:
            output.start()
        self._places = (address, textfile)

    def close(self) -> None:
        """Serve and write no more."""
        self._places = ("", "")
        for output in self._outputs:
            output.close()
        self._outputs.clear()

    def _load_server(self) -> OpenServer:
        from nri_numamem.observe.metrics.exposition import Metrics  # noqa: PLC0415 - see above
        from nri_numamem.observe.metrics.wsgi_server import MetricsHTTPServer  # noqa: PLC0415

        app = Metrics(self._sources).wsgi_app()
        find_problems = partial(problems, self._sources)
        return lambda address, report: MetricsHTTPServer(
            address, app, report, find_problems=find_problems
        )

    def _load_renderer(self) -> Render:
        from nri_numamem.observe.metrics.exposition import Metrics  # noqa: PLC0415 - see above

        return Metrics(self._sources).text_renderer()
