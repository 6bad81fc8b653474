"""Install and remove what is tested: the wheel, the single executable file, the Debian package.

The host wrote them to the second drive. This module depends on pip and dpkg.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.e2e.guest.waiting import TIMEOUT_S

_DRIVE = Path("/e2e/artefacts")
SINGLE_FILE = _DRIVE / "nri-numamem"
OLD_PACKAGE, NEW_PACKAGE = _DRIVE / "old.deb", _DRIVE / "new.deb"
"""Both have the same program; only version and default configuration differ."""
BIN = Path("/opt/nri-numamem/bin")
"""The virtual environment of the image, into which the wheel is installed."""
PACKAGE = "nri-numamem"


def install_wheel() -> None:
    """Install the wheel into the virtual environment, unless it is there."""
    if (BIN / "nri-numamem").exists():
        return
    wheels = sorted(str(path) for path in _DRIVE.glob("*.whl"))
    _run(str(BIN / "pip"), "install", "--no-index", "--no-deps", *wheels)


def install_single_file(path: Path) -> None:
    """Copy the single file as an administrator does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SINGLE_FILE, path)
    path.chmod(0o755)


def install_package(package: Path) -> None:
    """Install or upgrade without questions; a changed configuration is kept."""
    _run("dpkg", "--force-confdef", "--force-confold", "--install", str(package))


def purge_package() -> str:
    """Remove the package and its configuration, if it is installed; return what dpkg prints."""
    return _run("dpkg", "--purge", PACKAGE)


def package_version() -> str:
    """Return the version of the installed package."""
    return _run("dpkg-query", "--show", "--showformat=${Version}", PACKAGE)


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={
            **os.environ,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
        },
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stdout[-1000:]}")
    return done.stdout
