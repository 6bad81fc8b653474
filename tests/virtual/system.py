"""The operating system of a virtual plugin: everything that the daemon reaches through `System`."""

import errno
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import Self, TypeVar

from nri_numamem.daemon.signals import STOPPING, Deadline, Signals
from nri_numamem.daemon.system import Connector, System
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.observe.plugin_file import PluginFacts, encode, plugin_file_of
from nri_numamem.observe.state_file import StateFile
from tests.engine.records.examples import example
from tests.virtual.channel import VirtualChannel, VirtualPoller
from tests.virtual.world import VirtualClock, World

_Result = TypeVar("_Result")

_PACKAGE = "nri_numamem"

# As in observe.state_file: at most one write per second, and another try after half a minute.
_WRITE_PAUSE_S = 1.0
_RETRY_S = 30.0


@dataclass
class Disk:
    """The disk of the state file, which can fail."""

    is_full: bool = False
    is_frozen: bool = False
    """Writes hang until the disk thaws (fsfreeze)."""
    history: list[tuple[float, Record]] = field(default_factory=list)
    """The records of the history with their Unix times; not encoded, to save time."""
    dropped_records: int = 0


@dataclass
class Interruption:
    """What happens to the next request in the middle of its computation."""

    after_calls: int = 0
    """The number of function calls of the package after which it happens; 0 for at once."""
    is_after_reply: bool = False
    """It happens to a computation after a reply instead, whose limit is processor time."""
    error: type[BaseException] | None = None
    """Overrun (the request takes too long) or Killed; None for nothing."""


@dataclass
class Network:
    """The sockets that the plugin connects to."""

    listeners: dict[Path, Callable[[], VirtualChannel] | None] = field(default_factory=dict)
    """Socket -> what accepts a connection and returns the plugin's end of it.

    None for the socket file of a runtime that listens no longer.
    """
    runtime_pid: int = 4711
    """The process that listens."""


class VirtualTimeLimit(Deadline):
    """Limits computations; an `Interruption` decides where a computation overruns or dies."""

    def __init__(self, world: World, interruption: Interruption) -> None:
        self._world = world
        self._interruption = interruption

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None: ...

    def run_on_processor(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        return self._limit(limit_s, call, is_after_reply=True)

    def run(self, limit_s: float, call: Callable[[], _Result]) -> _Result:
        return self._limit(limit_s, call, is_after_reply=False)

    def _limit(
        self, limit_s: float, call: Callable[[], _Result], *, is_after_reply: bool
    ) -> _Result:
        plan = self._interruption
        if plan.error is None or plan.is_after_reply != is_after_reply:
            return call()
        error, left = plan.error, plan.after_calls
        plan.error = None
        if left == 0:
            self._world.now_s += limit_s
            raise error

        def count(frame: FrameType, event: str, _argument: object) -> None:
            nonlocal left
            if event != "call" or not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
                return
            left -= 1
            if left <= 0:
                raise error  # which also ends the profiling

        def raise_again(ignored: "sys.UnraisableHookArgs") -> None:
            # A generator that is freed runs as well, and there the interpreter ignores errors.
            if ignored.exc_type is error:
                sys.setprofile(count)
            else:
                hook(ignored)

        hook, sys.unraisablehook = sys.unraisablehook, raise_again
        sys.setprofile(count)
        try:
            return call()
        except Overrun:
            self._world.now_s += limit_s
            raise
        finally:
            sys.setprofile(None)
            sys.unraisablehook = hook


class VirtualStateFile(StateFile):
    """Writes states to a `Disk` as observe.state_file does, on the world's clock."""

    def __init__(
        self, world: World, disk: Disk, path: Path, emit: Callable[[Record], None]
    ) -> None:
        self.failed_writes = 0
        self.written_at_s: float | None = None
        self._path = path
        self._world = world
        self._disk = disk
        self._emit = emit
        self._process = world.process
        self._waiting: EngineState | None = None
        self._records: list[tuple[float, Record]] = []
        self._offered: EngineState | None = None
        self._facts: PluginFacts | None = None
        self._is_scheduled = False
        self._has_failed = False

    def load(self) -> EngineState | None:
        if not self._path.exists():
            return None
        try:
            return restore(self._path.read_bytes())
        except SnapshotError as error:
            self._path.unlink()
            self._emit(example("state_file_unusable", {"error": str(error)}))
            return None

    def offer(self, state: EngineState) -> None:
        if self._records:
            self._schedule(0.0)
        if state is self._offered or (state.restored is not None and not state.holders):
            return
        self._offered = self._waiting = state
        self._schedule(0.0)

    def append(self, time_s: float, record: Record) -> None:
        self._records.append((time_s, record))

    def forget_written(self) -> None:
        self._offered = None

    def describe(self, facts: PluginFacts) -> None:
        self._facts = facts
        self._schedule(0.0)

    def close(self) -> None:
        if self._may_write():
            self._write_history()
            if self._has_contents:
                self._write()

    @property
    def _has_contents(self) -> bool:
        return self._waiting is not None or self._facts is not None

    def _may_write(self) -> bool:
        """Return False after the process was killed."""
        return self._process is None or self._process.is_alive

    def _schedule(self, seconds: float) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._world.after(seconds, self._due)

    def _due(self) -> None:
        self._is_scheduled = False
        if not self._may_write():
            return
        has_written = self._write_history()
        if self._has_contents:
            has_written = self._write()
            self._schedule(_WRITE_PAUSE_S if has_written or self._disk.is_frozen else _RETRY_S)
        elif has_written:
            # The pause after a write; what arrives meanwhile waits for its end.
            self._schedule(_WRITE_PAUSE_S)

    def _write_history(self) -> bool:
        """Write the waiting records before the state, or drop them on a full disk."""
        if not self._records or self._disk.is_frozen:
            return False
        if self._disk.is_full:
            self._disk.dropped_records += len(self._records)
        else:
            self._disk.history += self._records
        self._records = []
        return True

    def _write(self) -> bool:
        if self._disk.is_frozen:
            return False
        if self._disk.is_full:
            self.failed_writes += 1
            if not self._has_failed:
                self._has_failed = True
                text = errno.errorcode[errno.ENOSPC]
                fields = {"error_kind": text, "error": "no space left on device"}
                self._emit(example("state_file_write_failed", dict(fields)))
            return False
        if self._facts is not None:
            plugin_file_of(self._path).write_bytes(encode(self._facts))
        if self._waiting is not None:
            self._path.write_bytes(snapshot(self._waiting))
            self.written_at_s = VirtualClock(self._world).wall_s()
        self._facts = self._waiting = None
        if self._has_failed:
            self._has_failed = False
            fields_after = {"failed_writes": self.failed_writes}
            self._emit(example("state_file_write_recovered", dict(fields_after)))
        return True


class VirtualSignals(Signals):
    """Signals that the world sends to the plugin."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self.wake = self

    @property
    def is_readable(self) -> bool:
        return bool(self._numbers)

    def fileno(self) -> int:
        return -1

    def take(self) -> set[int]:
        numbers, self._numbers = self._numbers, set()
        return numbers - {0}

    def wake_up(self) -> None:
        self._numbers.add(0)

    def send(self, number: int) -> None:
        self._numbers.add(number)

    def stop(self) -> None:
        """Stop the plugin by SIGTERM."""
        self.send(min(STOPPING))


@dataclass
class Machinery:
    """The parts of a virtual plugin's surroundings that a life changes."""

    world: World
    seed: str = ""
    disk: Disk = field(default_factory=Disk)
    network: Network = field(default_factory=Network)
    interruption: Interruption = field(default_factory=Interruption)
    signals: VirtualSignals = field(default_factory=VirtualSignals)
    """Of the process that was started last."""

    def system(self) -> System:
        """Return a System for one process."""
        world = self.world
        random = Random(self.seed)

        def no_uevents() -> "object":
            raise PermissionError(errno.EPERM, "operation not permitted")

        return System(
            clock=VirtualClock(world),
            connector=_Connector(self.network),
            new_poller=lambda: VirtualPoller(world),
            new_time_limit=lambda: VirtualTimeLimit(world, self.interruption),
            open_state_file=lambda path, emit: VirtualStateFile(world, self.disk, path, emit),
            listen_uevents=no_uevents,  # type: ignore[arg-type] # it returns nothing
            open_signals=lambda: nullcontext(self.signals),
            random=random.random,
        )


class _Connector(Connector):
    def __init__(self, network: Network) -> None:
        self._network = network

    def connect(self, path: Path) -> VirtualChannel:
        if path not in self._network.listeners:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        accept = self._network.listeners[path]
        if accept is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return accept()

    def peer_pid(self, _channel: object) -> int:
        return self._network.runtime_pid
