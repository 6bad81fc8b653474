"""The forms in which the plugin is installed: how each is started, crashes and ends.

This module depends on artefacts, systemd, and the plugin's command line and processes.
"""

import os
import signal
import subprocess
from pathlib import Path

from tests.machines.guest import artefacts, systemd
from tests.machines.guest.plugin import (
    CONFIG,
    ENTRY,
    LAUNCH_CONFIG,
    LOG,
    LOG_TO_FILE,
    RESERVATION,
    Plugin,
)
from tests.machines.guest.processes import unprotected
from tests.machines.guest.waiting import TIMEOUT_S, wait_until

_WHEEL_PROGRAM = artefacts.BIN / "nri-numamem"
_SOCKET = "/var/run/nri/nri.sock"
UNIT = "nri-numamem.service"


class Launched(Plugin):
    """Launched by containerd: the single file alone, or a link to the program of the wheel."""

    launched = True

    def __init__(self, *, from_wheel: bool) -> None:
        """Write configuration and entry."""
        super().__init__(_WHEEL_PROGRAM if from_wheel else ENTRY)
        _write(LAUNCH_CONFIG, RESERVATION + LOG_TO_FILE)
        if from_wheel:
            artefacts.install_wheel()
            ENTRY.parent.mkdir(parents=True, exist_ok=True)
            ENTRY.symlink_to(_WHEEL_PROGRAM)
        else:
            artefacts.install_single_file(ENTRY)

    def connect(self) -> None:
        """Do nothing: containerd has started it."""

    def restart(self) -> None:
        """Let the supervisor continue."""
        os.kill(self._supervisor(), signal.SIGCONT)

    def terminate(self) -> None:
        """Raise: it ends only with containerd."""
        raise NotImplementedError

    def wait_for_end(self) -> None:
        """Wait until no process is left."""
        wait_until(lambda: not self.all_pids(), "end of the launched plugin")

    def crash(self) -> None:
        """Send SIGKILL to the plugin, and stop the supervisor, which would restart it."""
        (pid,) = self.pids()
        os.kill(self._supervisor(), signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """Kill both processes, and remove the entry."""
        for pid in self.all_pids():
            os.kill(pid, signal.SIGKILL)
        ENTRY.unlink(missing_ok=True)

    def _supervisor(self) -> int:
        (pid,) = set(self.all_pids()) - set(self.pids())
        return pid


class Process(Plugin):
    """The wheel, connected from outside, and started by hand."""

    def __init__(self) -> None:
        """Install the wheel, and write the configuration."""
        super().__init__(_WHEEL_PROGRAM)
        artefacts.install_wheel()
        _write(CONFIG, RESERVATION + LOG_TO_FILE)
        LOG.parent.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Start the process."""
        command = [str(self.program), "run", "--socket", _SOCKET, "--idx", "10"]
        command += ["--config", str(CONFIG), "--log-file", str(LOG)]
        self._process = subprocess.Popen(unprotected(*command), stdin=subprocess.DEVNULL)

    def restart(self) -> None:
        """Start another process."""
        self.connect()

    def terminate(self) -> None:
        """Send SIGTERM."""
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)

    def wait_for_end(self) -> int | None:
        """Wait until it has exited; return its status."""
        return self._process.wait(timeout=TIMEOUT_S) if self._process is not None else None

    def crash(self) -> None:
        """Send SIGKILL."""
        (pid,) = self.pids()
        os.kill(pid, signal.SIGKILL)
        self.wait_for_end()

    def remove(self) -> None:
        """Kill it."""
        for pid in self.all_pids():
            os.kill(pid, signal.SIGKILL)
        self.wait_for_end()

    def pids(self) -> list[int]:
        """Return the id of the process that was started, if it runs."""
        running = self._process is not None and self._process.poll() is None
        return [self._process.pid] if self._process is not None and running else []


class Service(Plugin):
    """The Debian package, as a service of systemd under its unit."""

    def __init__(
        self,
        package: Path,
        *,
        logs_to_file: bool,
        restarts: bool,
        settings: str = "",
        runs_others: bool = False,
    ) -> None:
        """Install the package, which starts nothing. `settings` are further ones, in YAML.

        Without `restarts` systemd does not start it again after a crash. A system call outside of
        the unit's filter ends the plugin, instead of failing, unless it `runs_others`: the filter
        holds for other programs too.
        """
        artefacts.purge_package()
        super().__init__(Path("/usr/bin/nri-numamem"))
        artefacts.install_package(package)
        _write(CONFIG, RESERVATION + (LOG_TO_FILE if logs_to_file else "") + settings)
        kill = "" if runs_others else "SystemCallErrorNumber=kill\n"
        restart = "" if restarts else "Restart=no\n"
        # `install --external` makes systemd read it.
        systemd.write_drop_in(UNIT, f"[Service]\n{kill}{restart}")

    def connect(self) -> None:
        """Install the service, which starts it; raise RuntimeError if that fails."""
        done = self.command("install", "--external")
        if done.returncode:
            raise RuntimeError(f"install --external: {done.returncode}: {done.stdout}{done.stderr}")

    def restart(self) -> None:
        """Start the service."""
        systemd.systemctl("start", UNIT)

    def terminate(self) -> None:
        """Stop the service."""
        systemd.systemctl("stop", UNIT)

    def wait_for_end(self) -> int:
        """Return the exit status of the ended service."""
        wait_until(lambda: not systemd.is_active(UNIT), "end of the service")
        return int(systemd.show(UNIT, "ExecMainStatus"))

    def crash(self) -> None:
        """Send SIGKILL to the plugin."""
        (pid,) = self.pids()
        os.kill(pid, signal.SIGKILL)
        self.wait_for_end()

    def remove(self) -> None:
        """Purge the package, which stops the service."""
        artefacts.purge_package()
        for pid in self.all_pids():  # launched by containerd
            os.kill(pid, signal.SIGKILL)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
