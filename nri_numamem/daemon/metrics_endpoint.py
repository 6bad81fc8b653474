"""The metrics of a running plugin: served and written where the settings say.

Connects the meter, which always counts, with the server and the text file. Their threads import the
libraries: neither a start nor Configure waits for them, and a plugin without metrics never has them
in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nri_numamem.daemon.cgroup_sweep import RemoteMemory
from nri_numamem.daemon.instance import StateStore
from nri_numamem.daemon.jobs import Jobs, LimitedJob
from nri_numamem.daemon.signals import Deadline
from nri_numamem.daemon.supervisor_status import START_CAUSES, SupervisorStatus
from nri_numamem.engine.engine import Committed, Engine
from nri_numamem.engine.features.residency.setting import Residency
from nri_numamem.engine.records.files import MetricsEndpointRetrying
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.metrics.counters import Meter, Sources, health
from nri_numamem.observe.metrics.outputs import MetricsServer, OpenServer, Render, TextFile

if TYPE_CHECKING:
    from nri_numamem.daemon.residency_check import ResidencyCheck
    from nri_numamem.engine.features.residency.remote_memory import Round


class MetricsEndpoint:
    """At most one server of metrics and one text file; any thread may call `get_engine`."""

    def __init__(
        self,
        meter: Meter,
        emit: Callable[[Record], None],
        clock: Clock,
        get_engine: Callable[[], Engine | None],
        state_store: StateStore,
        cgroup_root: Path,
        status: SupervisorStatus | None = None,
    ) -> None:
        self.meter = meter
        self._emit = emit
        self._status = status
        self._standby = ""
        """Why this instance waits; "" if it serves the runtime."""
        self._get_engine = get_engine
        self._residency: ResidencyCheck | None = None
        self._address = self._textfile = ""
        self._server: MetricsServer | None = None
        self._writer: TextFile | None = None

        def committed() -> Committed | None:
            engine = get_engine()
            return None if engine is None else engine.committed

        self._sources = Sources(
            meter=self.meter,
            committed=committed,
            failed_writes=lambda: state_store.failed_writes,
            written_at_s=lambda: state_store.written_at_s,
            remote_bytes=RemoteMemory(cgroup_root, committed).read,
            monotonic_s=clock.monotonic_s,
            residency=self._last_round,
            standby=lambda: self._standby,
        )

    def watch_residency(
        self, setting: Residency, roots: HostRoots, jobs: Jobs, time_limit: Deadline
    ) -> None:
        """Add the job that reads where the pages of containers are, if the setting is on."""
        if setting.interval_s and self._residency is None:
            from nri_numamem.daemon.residency_check import ResidencyCheck  # noqa: PLC0415 - rare

            self._residency = ResidencyCheck(setting, roots)
            jobs.add(LimitedJob(self._residency, time_limit, self._get_engine))

    def _last_round(self) -> Round | None:
        return None if self._residency is None else self._residency.last

    def count_start(self, cause: str) -> None:
        """Count a start of the plugin, for one of START_CAUSES."""
        if self._status is None:
            self.meter.starts = {**dict.fromkeys(START_CAUSES, 0), cause: 1}
        else:
            self._status.count_start(cause)
            self.meter.starts = self._status.starts

    def open(self, address: str, textfile: str = "") -> None:
        """Serve at an address, and write a text file, from now on; "" for none.

        Ends stand_by(). Never waits for network or disk.
        """
        if self._standby:
            self._standby = ""
            self.meter.ticked_at_s = None
            if self._server is not None:
                self._server.retry()
        self._open(address, textfile)

    def _open(self, address: str, textfile: str) -> None:
        if address != self._address:
            if self._server is not None:
                self._server.close()
            self._address = address
            server = MetricsServer(address, self._load_server, self._report) if address else None
            self._server = server
        if textfile != self._textfile:
            if self._writer is not None:
                self._writer.close()
            self._textfile = textfile
            path = Path(textfile)
            writer = TextFile(path, self._load_renderer, self._emit) if textfile else None
            self._writer = writer
        self.start_threads()

    def start_threads(self, _now_s: float = 0.0) -> Iterable[Record]:
        """Start the threads that were not started yet; a job, for a process at its limit."""
        for output in (self._server, self._writer):
            if output is not None:
                output.start()
        return ()

    def stand_by(self, address: str, cause: str) -> None:
        """Serve at an address, but write no text file: another instance serves the runtime.

        `cause` is shown by /healthz. In the network namespace of the other instance the address can
        be in use until the takeover.
        """
        self._standby = cause
        self._open(address, "")

    def close(self) -> None:
        """Serve and write no more."""
        self._open("", "")

    def _report(self, record: Record) -> None:
        if self._standby and isinstance(record, MetricsEndpointRetrying):
            cause = f"{record.cause}; if the other instance serves there, this is normal"
            record = replace(record, cause=cause)
        self._emit(record)

    def _load_server(self) -> OpenServer:
        from nri_numamem.observe.metrics.exposition import Metrics  # noqa: PLC0415 - see above
        from nri_numamem.observe.metrics.wsgi_server import MetricsHTTPServer  # noqa: PLC0415

        app = Metrics(self._sources).wsgi_app()
        look = partial(health, self._sources)
        return lambda address, report: MetricsHTTPServer(address, app, look, report)

    def _load_renderer(self) -> Render:
        from nri_numamem.observe.metrics.exposition import Metrics  # noqa: PLC0415 - see above

        return Metrics(self._sources).text_renderer()
