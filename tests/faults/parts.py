"""The parts of a life, as interfaces: processes here, a virtual machine in tests/lives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.faults.clock import Clock
from tests.faults.host import LifeHost
from tests.faults.parameters import Parameters
from tests.faults.runtimes import Runtime


class Journal(Protocol):
    """What the plugin has logged."""

    records: list[dict[str, Any]]
    other_lines: list[str]

    def read(self) -> None:
        """Read new records."""

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return all records of an event."""


class Plugin(Protocol):
    """The plugin's processes."""

    is_end_expected: bool
    sweep_s: float
    """The time within which the plugin has searched for ended pods."""

    @property
    def journal(self) -> Journal: ...

    @property
    def status(self) -> int | None:
        """The external plugin's exit status; None while it runs."""

    def start(self) -> None:
        """Start the external plugin."""

    def stop(self) -> int:
        """Stop the external plugin with SIGTERM; return its status."""

    def kill(self, pids: list[int] | None = None) -> None:
        """Kill the serving process."""

    def end(self) -> None:
        """Kill everything."""

    def is_running(self) -> bool:
        """Return whether a process serves, or will."""

    def processes(self) -> dict[int, str]:
        """Return pid -> name of all living processes of this life."""

    def workers(self) -> list[int]:
        """Return the processes that serve."""

    def signal(self, number: int) -> None:
        """Send a signal to the serving process."""

    def accounting(self) -> dict[str, Any] | None:
        """Return the record of a state dump; None without one."""

    def history(self) -> Iterable[tuple[str, Mapping[str, Any]]] | None:
        """Return event and fields of the history's entries; None if records were dropped."""

    def count_files(self) -> tuple[int, int]:
        """Return the number of open files of the serving process, now and at its first count."""

    def files(self) -> dict[str, str]:
        """Return the open files of the serving process by number."""

    def wait_until_gone(self) -> bool:
        """Wait until no process is left; return whether none is."""

    def zombies(self) -> list[str]:
        """Return ended processes without a parent that waits."""


class Proxy(Protocol):
    """Controls the connection between an external plugin and the runtime."""

    @property
    def is_connected(self) -> bool:
        """Whether a plugin is connected to the runtime."""

    on_request: Callable[[], None] | None
    """Called once, after the next bytes for the plugin."""

    def cut(self) -> None:
        """Cut the connection on both sides."""

    def cut_at_reply(self, number: int = 1) -> None:
        """Cut the connection when the plugin sends for the `number`-th time; 0: never."""

    def stall(self) -> None:
        """Read nothing that the plugin sends."""

    def resume_reading(self) -> None:
        """Read again."""

    def close(self) -> None:
        """End everything."""


@dataclass(frozen=True)
class Parts:
    """Everything that a life consists of, besides its pods."""

    host: LifeHost
    parameters: Parameters
    runtime: Runtime
    plugin: Plugin
    proxy: Proxy | None
    clock: Clock
    eventually_s: float
    """How long the plugin may take to detect what it must detect by itself."""


MakeParts = Callable[[int], Parts]
