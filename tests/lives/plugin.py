"""The plugin as a virtual process: the daemon of `nri-numamem run`, without a kernel below."""

import signal
import traceback
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

from nri_numamem.config import load as configuration
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.external import ExternalPlugin
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.pod_reaper import REAP_S
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.standby import Form, Standby
from nri_numamem.engine.queries.dump import accounting_record
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.nri.event_loop import TICK_S
from nri_numamem.observe.systemd import Notifier
from tests.host_files import HostFiles
from tests.virtual.log import MemoryLog
from tests.virtual.system import Machinery, VirtualSignals
from tests.virtual.world import VirtualProcess

# The virtual time after SIGTERM in which the process must end.
_STOP_S = 10.0

# The virtual time in which a second process finds out that it must wait.
_STANDBY_S = 1.0

_PID = 1


@cache
def _settings(text: str) -> Settings:
    return configuration.load_text(text, "config.yaml", None)


class Journal(MemoryLog):
    """The log of a life's plugin; other lines are tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self.other_lines: list[str] = []

    def read(self) -> None:
        """Do nothing: records arrive at once."""


class VirtualPlugin:
    """The external plugin of one life, through all its processes."""

    # The job runs at the first tick after its interval.
    sweep_s = REAP_S + TICK_S

    def __init__(self, machinery: Machinery, host: HostFiles, config: str) -> None:
        self.journal = Journal()
        self.is_end_expected = True
        self._world = machinery.world
        self._machinery = machinery
        self._host = host
        self._config = config
        self._service: Service | None = None
        """Of the process that holds the lock."""
        self._signals = self._next_signals = VirtualSignals()
        """Of the process, and of its successor."""

    @property
    def process(self) -> VirtualProcess | None:
        """The process that was started last."""
        return self._world.process

    @property
    def status(self) -> int | None:
        return None if self.process is None else self.process.status

    def is_running(self) -> bool:
        return self.process is not None and self.process.is_alive

    def processes(self) -> dict[int, str]:
        return {_PID: "nri-numamem"} if self.is_running() else {}

    def workers(self) -> list[int]:
        return list(self.processes())

    def start(self) -> None:
        """Start a process, or go on with the successor of the one that ended."""
        self.is_end_expected = False
        if self._world.successor is not None:
            self._world.process, self._world.successor = self._world.successor, None
            self._signals = self._next_signals
            return
        self._close()
        self._signals = self._machinery.signals = VirtualSignals()
        self._world.process = VirtualProcess(self._main)

    def start_successor(self) -> bool:
        """Start a second process; return whether it waits for the end of the first one."""
        self._next_signals = self._machinery.signals = VirtualSignals()
        self._world.successor = VirtualProcess(self._main)
        before = len(self.journal.named("standby"))
        return self._world.advance(_STANDBY_S, lambda: len(self.journal.named("standby")) > before)

    def stop(self) -> int:
        process = self.process
        assert process is not None
        self.is_end_expected = True
        self._signals.send(signal.SIGTERM)
        if not self._world.advance(_STOP_S, lambda: not process.is_alive):
            self.kill()
        assert process.status is not None
        return process.status

    def kill(self, _pids: list[int] | None = None) -> None:
        self.is_end_expected = True
        if self.process is not None:
            self.process.kill()
        self._close()

    def end(self) -> None:
        if self._world.successor is not None:
            self._world.successor.kill()
        self.kill()

    def signal(self, number: int) -> None:
        process = self.process
        if process is None:
            return
        if number == signal.SIGSTOP:
            process.frozen_until_s = float("inf")
        elif number == signal.SIGCONT:
            process.frozen_until_s = self._world.now_s
        else:
            self._signals.send(number)

    def accounting(self) -> dict[str, Any] | None:
        self._note_bug()
        if not self.is_running() or self._service is None or self._service.engine is None:
            return None
        return dict(fields_of(accounting_record(self._service.engine.state.accounting)))

    def history(self) -> Iterable[tuple[str, Mapping[str, Any]]] | None:
        disk = self._machinery.disk
        if disk.dropped_records:
            return None
        return ((record.event, fields_of(record)) for _time_s, record in disk.history)

    def count_files(self) -> tuple[int, int]:
        return 0, 0

    def files(self) -> dict[str, str]:
        return {}

    def wait_until_gone(self) -> bool:
        return not self.is_running()

    def zombies(self) -> list[str]:
        return []

    def _close(self) -> None:
        """Release what the kernel releases at the end of a process: the lock of the state file."""
        self._note_bug()
        service, self._service = self._service, None
        if service is not None:
            service.close()

    def _note_bug(self) -> None:
        process = self.process
        if process is not None and process.error is not None:
            text = "".join(traceback.format_exception(process.error))
            self.journal.other_lines.append(text)
            process.error = None

    def _main(self) -> int:
        settings = _settings(self._config)
        roots = self._host.roots
        engine = build_engine(settings, roots)
        system = self._machinery.system()
        service = Service(self.journal, roots, system, notifier=Notifier({}))
        form = Form(
            started_as="started in a test",
            read=lambda: settings,
            build=partial(build_engine, roots=roots),
            open_log=lambda _settings: None,
        )
        with system.open_signals() as signals:
            if Standby(form, service, system, signals).start(settings, engine):
                self._service = service
                ExternalPlugin(service, system, signals, self._host.socket, Identity()).run()
        service.close()
        self._service = None
        self.journal.info("stopped")
        return 0
