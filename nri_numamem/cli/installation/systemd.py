"""systemctl on the host that this process runs on."""

import errno
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import unit

# It exists where systemd is process 1. Source: sd_booted(3).
BOOTED = Path("/run/systemd/system")
# The service is ready when it is registered; a busy runtime may let it wait.
_TIMEOUT_S = 300.0


def is_running(host: Host) -> bool:
    """Return whether systemd runs; never for a root directory other than /."""
    return host.is_this_host and BOOTED.is_dir()


def is_active(host: Host, name: str = unit.NAME) -> bool:
    """Return whether systemd runs the service, or another one."""
    if not is_running(host):
        return False
    try:
        run(("is-active", "--quiet", name))
    except OSError:
        return False
    return True


def run(arguments: Sequence[str]) -> None:
    """Run systemctl; raise OSError with the first line that it prints."""
    command = ["systemctl", *arguments]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(errno.ETIMEDOUT, f"no answer within {_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        problem = (done.stderr or done.stdout).strip().partition("\n")[0]
        raise OSError(errno.EIO, problem or f"exit status {done.returncode}")
