"""Configure, start and stop containerd as a service, and read its log.

This module depends on containerd, Debian's unit of it and the log lines of its NRI code, and not on
pods or placement.
"""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.guest import image_archive, systemd
from tests.e2e.guest.cri import Client, CriError
from tests.e2e.guest.waiting import wait_until

_HERE = Path(__file__).parent
_CONFIG = Path("/etc/containerd/config.toml")
UNIT = "containerd.service"
LOG = Path("/var/log/e2e/containerd.log")  # as in containerd.conf

# Log lines of containerd 1.7 and 2.x (pkg/nri, internal/nri) and NRI 0.6 to 0.8 (pkg/adaptation)
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


class Containerd:
    """One phase's daemon; its log grows over restarts."""

    def __init__(self, *, hugetlb: bool, tables: str = "") -> None:
        """Write the configuration; `hugetlb` enables the hugetlb controller, off by default.

        `tables` are further tables in TOML.
        """
        self._start_offset = 0
        self._faults: list[str] = []
        self._ended_is_listed = False
        LOG.unlink(missing_ok=True)
        name = "containerd-1.7.toml" if version().startswith("1.") else "containerd-2.1.toml"
        text = (_HERE / name).read_text(encoding="utf-8")
        _CONFIG.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("#disable_", "disable_" if hugetlb else "#disable_")
        _CONFIG.write_text(f"{text}{tables}", encoding="utf-8")

    def start(self, *others: str) -> Client:
        """Start it, and other units at once, and wait for the CRI.

        Raises TimeoutError or RuntimeError with the last log lines.
        """
        self._start_offset = LOG.stat().st_size if LOG.exists() else 0
        client = Client()
        try:
            systemd.systemctl("start", UNIT, *others)
            wait_until(lambda: _is_up(client), "start of containerd")
        except (TimeoutError, RuntimeError) as error:
            tail = "\n".join(self._text().splitlines()[-5:])
            raise type(error)(f"{error}; its log ends with\n{tail}") from error
        return client

    def stop(self, *others: str) -> None:
        """Stop it, together with other units; containers keep running.

        Faults logged so far are kept.
        """
        self._note_end()
        systemd.systemctl("stop", *others, UNIT)

    def kill(self) -> None:
        """Send SIGKILL, as the kernel's OOM killer does; containers keep running."""
        self._note_end()
        systemd.systemctl("kill", "--kill-whom=main", "--signal=SIGKILL", UNIT)
        wait_until(lambda: not systemd.is_active(UNIT), "end of containerd")

    def wait_for_plugin(self, *, launched: bool) -> None:
        """Wait until the plugin is registered and synchronized."""
        is_reconnecting = launched and _never_synchronizes_launched()
        pattern = _REGISTERED if launched and not is_reconnecting else _CONNECTED
        wait_until(lambda: pattern.search(self._text()), "connection of the plugin")
        if is_reconnecting:  # the end of the first connection is not a fault
            last_listing = self._text().rpartition("plugin invocation order")[2]
            self._ended_is_listed = "pre-connected" in _LISTED.findall(last_listing)
            self._start_offset = LOG.stat().st_size

    @contextlib.contextmanager
    def ignoring_a_lost_plugin(self) -> Iterator[None]:
        """Ignore faults that are logged inside the context; wait for connections inside too."""
        self._faults, self._start_offset = self.faults(), LOG.stat().st_size
        self._ended_is_listed = False
        yield
        self._start_offset = LOG.stat().st_size

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
        lines = LOG.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if _PLUGIN_LINE.search(line))

    def import_image(self, archive: Path) -> None:
        """Import the image of all pods for the CRI."""
        # The CRI unpacks the image; ctr of 2.x can unpack only for the default snapshotter.
        _run("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", str(archive))
        names = _run("ctr", "-n", "k8s.io", "images", "ls", "-q")
        if image_archive.IMAGE not in names.split():
            raise RuntimeError(f"ctr imported {names!r}, not {image_archive.IMAGE}")

    def _note_end(self) -> None:
        self._faults = self.faults()
        self._ended_is_listed = False
        self._start_offset = -1

    def _text(self) -> str:
        """Return the log since the daemon's last start."""
        if not LOG.exists():
            return ""
        with LOG.open("rb") as log:
            log.seek(self._start_offset)
            return log.read().decode("utf-8", "replace").replace('\\"', '"')


def version() -> str:
    """Return containerd's version, such as "1.7.24"."""
    return _first_number(_run("containerd", "--version"))


def _never_synchronizes_launched() -> bool:
    """Return whether its NRI is older than 0.7; a launched plugin then connects as external."""
    return tuple(int(part) for part in version().split(".")) < (1, 7, 26)


def runc_version() -> str:
    """Return runc's version."""
    return _first_number(_run("runc", "--version"))


def _first_number(text: str) -> str:
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match.group() if match else text.strip()


def _is_up(client: Client) -> bool:
    try:
        client.version()
    except CriError:
        return False
    return True


def _run(*command: str) -> str:
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{command[0]}: status {result.returncode}: {result.stdout[-500:]}")
    return result.stdout
