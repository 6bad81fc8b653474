"""The systemd service: its unit for a program, and systemctl on the host of this process.

The unit's source is in systemd/ of the repository. docs/generate.py copies it to `unit_text`,
because the single executable file has no data files.
"""

import errno
import hashlib
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.unit_text import UNIT as SOURCE
from nri_numamem.observe.log.journal import SYSLOG_IDENTIFIER

UNIT = "nri-numamem.service"
PATH = f"/etc/systemd/system/{UNIT}"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
"""The link that `systemctl enable` makes."""
OVERRIDES = f"{PATH}.d"
PACKAGED = tuple(f"{folder}/systemd/system/{UNIT}" for folder in ("/usr/lib", "/lib"))
"""Where packages install the unit."""

EXPORTER = "nri-numamem-export.service"
"""The unit of `nri-numamem export`, which the packages install."""
EXPORTER_WANTED = f"/etc/systemd/system/multi-user.target.wants/{EXPORTER}"
EXPORTER_OVERRIDES = f"/etc/systemd/system/{EXPORTER}.d"

# It exists if systemd is process 1. Source: sd_booted(3).
BOOTED = Path("/run/systemd/system")
# The service is ready when it is registered; a busy runtime may take long.
_TIMEOUT_S = 300.0
_STARTS = ("start", "restart")
_HEAD = "# Written by nri-numamem install; change it with: systemctl edit nri-numamem\n# Checksum: "
_START = re.compile(r"^ExecStart=\S+ run$", re.MULTILINE)


def unit_for(program: str, socket: str | None = None) -> str:
    """Return the unit that starts a program; `socket` is None for the default."""
    command = " ".join([program, "run", *(["--socket", socket] if socket else [])])
    text = _START.sub(lambda _: f"ExecStart={command}", SOURCE)
    return f"{_HEAD}{_checksum(text)}\n{text}"


def is_own(text: str | None) -> bool:
    """Return whether a text is a unit that no administrator changed.

    Such a unit is from `unit_for`, of this version or another, or a copy of the repository's.
    """
    if text is None or not text.startswith(_HEAD):
        return text == SOURCE
    checksum, _, unit = text.removeprefix(_HEAD).partition("\n")
    return checksum == _checksum(unit)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_enabled(host: Host, wanted: str = WANTED) -> bool:
    """Return whether systemd starts the plugin, or another service by the link `wanted`."""
    return host.entry(wanted).is_symlink()


def is_running(host: Host) -> bool:
    """Return whether systemd runs; never for a root directory other than /."""
    return host.is_this_host and BOOTED.is_dir()


def is_active(host: Host, name: str = UNIT) -> bool:
    """Return whether systemd runs the service, or another one."""
    if not is_running(host):
        return False
    try:
        run(("is-active", "--quiet", name))
    except OSError:
        return False
    return True


def run(arguments: Sequence[str]) -> None:
    """Run systemctl; raise OSError with the first line that it prints.

    Of a service that does not start, the last line of its own is the text.
    """
    command = ["systemctl", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(errno.ETIMEDOUT, f"no answer within {_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        problem = (done.stderr or done.stdout).strip().partition("\n")[0]
        reason = _last_words(arguments[1]) if arguments[0] in _STARTS else ""
        raise OSError(errno.EIO, reason or problem or f"exit status {done.returncode}")


def _last_words(unit: str) -> str:
    """Return the last line that a service wrote itself, such as an error of its configuration."""
    command = ["journalctl", "-u", unit, "-t", SYSLOG_IDENTIFIER, "-n", "1", "-o", "cat", "--quiet"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            [*command, "--no-pager"], capture_output=True, text=True, check=False, timeout=10.0
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().rpartition("\n")[2] if not done.returncode else ""
