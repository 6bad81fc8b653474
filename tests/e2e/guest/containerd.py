"""The containerd daemon: configured for a phase, started, stopped, and its log watched.

Knows containerd and what its NRI code logs. It must not know pods or what the plugin decides.
"""

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.guest import image_archive
from tests.e2e.guest.cri import Client, CriError
from tests.e2e.guest.waiting import wait_until

_HERE = Path(__file__).parent
_CONFIG = Path("/etc/containerd/config.toml")

# What containerd 1.7 and 2.x (pkg/nri, internal/nri) and NRI 0.6 to 0.8 (pkg/adaptation) log when
# they give up a plugin, or when what it asked for could not be done.
_FAULTS = re.compile(
    r"closing plugin|connection to plugin .* closed|ttrpc server for plugin"
    r"|failed to (create|start) external plugin|failed to synchronize"
    r"|failed to (initialize|start) pre-installed NRI plugin"
    r"|NRI (update|eviction) of .* failed|(pre|post)-\w+ (update|eviction) failed"
    r"|container creation undo|panic:"
)
_CONNECTED = re.compile(r"plugin \S+ connected")  # external plugins only
_REGISTERED = re.compile(r"plugin \S+ registered as")

_STORY = re.compile(r"-nri-numamem|plugin invocation order|ttrpc")

# A connection that has ended stays in the order of invocation until its end is noted. If that comes
# too late for the next listing, the first call is what finds it out: it is called no more then, and
# nothing is lost.
_LISTED = re.compile(r"#\d+: \S+ \((pre-connected|external):")
_FOUND_OUT = re.compile(r"closing plugin \S+ failed to handle .*: ttrpc: closed")


class Containerd:
    """One phase's daemon; its log goes to `log`, which grows over restarts."""

    def __init__(self, log: Path, *, hugetlb: bool) -> None:
        """Write the configuration; `hugetlb` switches on what is off by default."""
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._start_offset = 0
        self._faults: list[str] = []
        self._left_in_order = False
        name = "containerd-1.7.toml" if version().startswith("1.") else "containerd-2.1.toml"
        text = (_HERE / name).read_text(encoding="utf-8")
        _CONFIG.parent.mkdir(parents=True, exist_ok=True)
        _CONFIG.write_text(text.replace("#disable_", "disable_" if hugetlb else "#disable_"))

    def start(self) -> Client:
        """Start it and wait until the CRI answers; TimeoutError ends with its last log lines."""
        self._start_offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(["containerd"], stdout=log, stderr=log)
        client = Client()
        try:
            wait_until(lambda: _is_up(client), "start of containerd", timeout_s=60.0)
        except TimeoutError as error:
            tail = "\n".join(self._text().splitlines()[-5:])
            raise TimeoutError(f"{error}; its log ends with\n{tail}") from error
        return client

    def stop(self) -> None:
        """Send SIGTERM and wait; containers go on running. Keeps the log's faults until now."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, as the kernel does when memory is short; containers go on running."""
        self._end(signal.SIGKILL)

    def wait_for_plugin(self, *, launched: bool) -> None:
        """Wait until the plugin is in the list of those that are called, and synchronized."""
        is_reconnecting = launched and _never_synchronizes_launched()
        pattern = _REGISTERED if launched and not is_reconnecting else _CONNECTED
        wait_until(lambda: pattern.search(self._text()), "connection of the plugin")
        if is_reconnecting:  # the end of its first connection is no fault
            last_listing = self._text().rpartition("plugin invocation order")[2]
            self._left_in_order = "pre-connected" in _LISTED.findall(last_listing)
            self._start_offset = self.log.stat().st_size

    @contextlib.contextmanager
    def losing_the_plugin(self) -> Iterator[None]:
        """Take what is logged inside for no fault; a connection is waited for in here as well."""
        self._faults, self._start_offset = self.faults(), self.log.stat().st_size
        self._left_in_order = False
        yield
        self._start_offset = self.log.stat().st_size

    def faults(self) -> list[str]:
        """List the log lines about a lost plugin, without those of a deliberate loss or stop."""
        if self._start_offset < 0:
            return self._faults
        faults = [line for line in self._text().splitlines() if _FAULTS.search(line)]
        if self._left_in_order and faults and _FOUND_OUT.search(faults[0]):
            del faults[0]
        return self._faults + faults

    def story(self) -> str:
        """Give all that the whole log says about plugins' connections."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if _STORY.search(line))

    def import_image(self, archive: Path) -> None:
        """Give the CRI the image of all pods."""
        # Unpacked by the CRI, as ctr of 2.x can only unpack for the default snapshotter.
        _run("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", str(archive))
        names = _run("ctr", "-n", "k8s.io", "images", "ls", "-q")
        if image_archive.IMAGE not in names.split():
            raise RuntimeError(f"ctr imported {names!r}, not {image_archive.IMAGE}")

    def _end(self, number: signal.Signals) -> None:
        self._faults = self.faults()
        self._left_in_order = False
        self._start_offset = -1
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=30.0)
            self._process = None

    def _text(self) -> str:
        """Read the log of the running daemon, without those before it."""
        with self.log.open("rb") as log:
            log.seek(self._start_offset)
            return log.read().decode("utf-8", "replace").replace('\\"', '"')


def version() -> str:
    """Give containerd's version, as in "1.7.24"."""
    return _first_number(_run("containerd", "--version"))


def _never_synchronizes_launched() -> bool:
    """Tell whether it has an NRI before 0.7: a launched plugin then connects by itself as well."""
    return tuple(int(part) for part in version().split(".")) < (1, 7, 26)


def runc_version() -> str:
    """Give runc's version."""
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
