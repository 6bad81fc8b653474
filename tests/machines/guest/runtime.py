"""Start and stop a container runtime as a service, and read what its NRI code logs.

This module depends on the CRI and the log lines of NRI, and not on a runtime, pods or placement.
"""

import abc
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.machines.guest import systemd
from tests.machines.guest.cri import Client, CriError
from tests.machines.guest.waiting import wait_until

# Log lines of containerd 1.7 and 2.x (pkg/nri, internal/nri) and NRI 0.6 to 0.9 (pkg/adaptation)
# when they disconnect a plugin, or cannot apply its adjustment or update.
_FAULTS = re.compile(
    r"closing plugin|connection to plugin .* closed|ttrpc server for plugin"
    r"|failed to (create|start) external plugin|failed to synchronize"
    r"|failed to (initialize|start) pre-installed NRI plugin"
    r"|NRI (update|eviction) of .* failed|(pre|post)-\w+ (update|eviction) failed"
    r"|container creation undo|panic:"
)
_CONNECTED = re.compile(r"plugin \S+ connected")  # external plugins only
_REGISTERED = re.compile(r"plugin \S+ registered as")

_PLUGIN_LINE = re.compile(r"-nri-numamem|plugin invocation order|ttrpc")

# An ended connection stays in the invocation order until the runtime detects its end. If the next
# listing still has it, the first call on it detects the end; the runtime then removes it, and no
# call is lost.
_LISTED = re.compile(r"#\d+: \S+ \((pre-connected|external):")
_END_DETECTED = re.compile(r"closing plugin \S+ failed to handle .*: ttrpc: closed")


class Runtime(abc.ABC):
    """One phase's daemon; its log grows over restarts."""

    hugepage_limit_files: tuple[str, ...] = ("hugetlb.2MB.max", "hugetlb.2MB.rsvd.max")
    """The files of a container's cgroup in which the runtime sets its hugepage limit."""

    def __init__(
        self, unit: str, log: Path, socket: str, *, synchronizes_launched: bool = True
    ) -> None:
        """Remove an old log. `socket` is the CRI's, as in "unix:///run/runtime.sock".

        Without `synchronizes_launched` a launched plugin connects again as an external one.
        """
        self._unit, self._log, self.socket = unit, log, socket
        self._synchronizes_launched = synchronizes_launched
        self._start_offset = 0
        self._faults: list[str] = []
        self._ended_is_listed = False
        log.unlink(missing_ok=True)

    @abc.abstractmethod
    def import_image(self, archive: Path) -> None:
        """Import the image of all pods."""

    def start(self, *others: str) -> Client:
        """Start it, and other units at once, and wait for the CRI.

        Raises TimeoutError or RuntimeError with the last log lines.
        """
        self._start_offset = self._log.stat().st_size if self._log.exists() else 0
        client = Client(self.socket)
        try:
            systemd.systemctl("start", self._unit, *others)
            wait_until(lambda: _is_up(client), f"start of {self._unit}")
        except (TimeoutError, RuntimeError) as error:
            tail = "\n".join(self._text().splitlines()[-5:])
            raise type(error)(f"{error}; its log ends with\n{tail}") from error
        return client

    def stop(self, *others: str) -> None:
        """Stop it, together with other units; containers keep running.

        Faults logged so far are kept.
        """
        self._note_end()
        systemd.systemctl("stop", *others, self._unit)

    def kill(self) -> None:
        """Send SIGKILL, as the kernel's OOM killer does; containers keep running."""
        self._note_end()
        systemd.systemctl("kill", "--kill-whom=main", "--signal=SIGKILL", self._unit)
        wait_until(lambda: not systemd.is_active(self._unit), f"end of {self._unit}")

    def wait_for_plugin(self, *, launched: bool) -> None:
        """Wait until the plugin is registered and synchronized."""
        is_reconnecting = launched and not self._synchronizes_launched
        pattern = _REGISTERED if launched and not is_reconnecting else _CONNECTED
        wait_until(lambda: pattern.search(self._text()), "connection of the plugin")
        if is_reconnecting:  # the end of the first connection is not a fault
            last_listing = self._text().rpartition("plugin invocation order")[2]
            self._ended_is_listed = "pre-connected" in _LISTED.findall(last_listing)
            self._start_offset = self._log.stat().st_size

    @contextlib.contextmanager
    def ignoring_a_lost_plugin(self) -> Iterator[None]:
        """Ignore faults that are logged inside the context; wait for connections inside too.

        The runtime may be restarted inside.
        """
        faults = self.faults()
        self._start_offset = self._log.stat().st_size
        self._ended_is_listed = False
        yield
        self._faults, self._start_offset = faults, self._log.stat().st_size

    def faults(self) -> list[str]:
        """Return the log lines about a lost plugin, without those of a deliberate loss or stop."""
        if self._start_offset < 0:
            return self._faults
        faults = [line for line in self._text().splitlines() if _FAULTS.search(line)]
        if self._ended_is_listed and faults and _END_DETECTED.search(faults[0]):
            del faults[0]
        return self._faults + faults

    def plugin_lines(self) -> str:
        """Return all lines of the log about plugins' connections."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if _PLUGIN_LINE.search(line))

    def _note_end(self) -> None:
        self._faults = self.faults()
        self._ended_is_listed = False
        self._start_offset = -1

    def _text(self) -> str:
        """Return the log since the daemon's last start."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(self._start_offset)
            return log.read().decode("utf-8", "replace").replace('\\"', '"')


def _is_up(client: Client) -> bool:
    try:
        client.version()
    except CriError:
        return False
    return True
