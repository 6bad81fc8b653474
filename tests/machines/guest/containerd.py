"""containerd: its configuration, its version, and its image store.

This module depends on containerd and Debian's unit of it, and not on pods or placement.
"""

import re
from pathlib import Path

from tests.machines.guest import image_archive
from tests.machines.guest.cri import SOCKET
from tests.machines.guest.processes import output
from tests.machines.guest.runtime import Runtime

_HERE = Path(__file__).parent
CONFIG = Path("/etc/containerd/config.toml")
UNIT = "containerd.service"
LOG = Path("/var/log/e2e/containerd.log")  # as in containerd.conf


class Containerd(Runtime):
    """One phase's containerd."""

    def __init__(self, *, hugetlb: bool, tables: str = "") -> None:
        """Write the configuration; `hugetlb` enables the hugetlb controller, off by default.

        `tables` are further tables in TOML.
        """
        super().__init__(UNIT, LOG, SOCKET, synchronizes_launched=_synchronizes_launched())
        name = "containerd-1.7.toml" if version().startswith("1.") else "containerd-2.1.toml"
        text = (_HERE / name).read_text(encoding="utf-8")
        CONFIG.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("#disable_", "disable_" if hugetlb else "#disable_")
        CONFIG.write_text(f"{text}{tables}", encoding="utf-8")

    def import_image(self, archive: Path) -> None:
        """Import the image of all pods for the CRI."""
        # The CRI unpacks the image; ctr of 2.x can unpack only for the default snapshotter.
        output("ctr", "-n", "k8s.io", "images", "import", "--no-unpack", str(archive))
        names = output("ctr", "-n", "k8s.io", "images", "ls", "-q")
        if image_archive.IMAGE not in names.split():
            raise RuntimeError(f"ctr imported {names!r}, not {image_archive.IMAGE}")


def version(program: str = "containerd") -> str:
    """Return containerd's version, such as "1.7.24"."""
    return _first_number(output(program, "--version"))


def _synchronizes_launched() -> bool:
    """Return whether its NRI is 0.7 or newer; with an older one a plugin connects again."""
    return tuple(int(part) for part in version().split(".")) >= (1, 7, 26)


def runc_version(program: str = "runc") -> str:
    """Return runc's version."""
    return _first_number(output(program, "--version"))


def _first_number(text: str) -> str:
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match.group() if match else text.strip()
