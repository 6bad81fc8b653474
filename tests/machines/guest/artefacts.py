"""Install and remove what is tested: the wheel, the single executable file, the Debian package.

The host wrote them to the second drive. This module depends on pip and dpkg.
"""

import shutil
from pathlib import Path

from tests.machines.guest.processes import output

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
    output(str(BIN / "pip"), "install", "--no-index", "--no-deps", *wheels)


def install_single_file(path: Path) -> None:
    """Copy the single file as an administrator does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SINGLE_FILE, path)
    path.chmod(0o755)


def install_package(package: Path) -> None:
    """Install or upgrade without questions; a changed configuration is kept."""
    output("dpkg", "--force-confdef", "--force-confold", "--install", str(package))


def purge_package() -> str:
    """Remove the package and its configuration, if it is installed; return what dpkg prints."""
    return output("dpkg", "--purge", PACKAGE)


def package_version() -> str:
    """Return the version of the installed package."""
    return output("dpkg-query", "--show", "--showformat=${Version}", PACKAGE)
