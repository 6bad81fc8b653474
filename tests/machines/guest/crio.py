"""CRI-O as a service: its configuration, its unit, and its image store.

CRI-O is built for these tests by `machine.py`; conmon, crun and skopeo are Debian's.
This module depends on CRI-O, and not on pods or placement.
"""

from pathlib import Path

from tests.machines.guest import containerd, image_archive, systemd
from tests.machines.guest.processes import output
from tests.machines.guest.runtime import Runtime

UNIT = "crio.service"
LOG = Path("/var/log/e2e/crio.log")  # as in _UNIT
SOCKET = "unix:///run/crio/crio.sock"
_PROGRAMS = Path("/e2e/artefacts")
_STORAGE = Path("/var/lib/containers/storage")

_CONFIG = f"""\
[crio]
storage_driver = "vfs"
[crio.image]
pause_image = "{image_archive.IMAGE}"
pause_command = ""
[crio.runtime]
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
default_runtime = "crun"
pinns_path = "{_PROGRAMS}/pinns"
[crio.runtime.runtimes.crun]
runtime_path = "/usr/bin/crun"
[crio.nri]
# An emulated processor takes ten times as long to start Python.
nri_plugin_registration_timeout = "120s"
nri_plugin_request_timeout = "10s"
"""

_STORAGE_CONFIG = f"""\
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "{_STORAGE}"
"""

_UNIT = f"""\
[Unit]
Description=CRI-O
[Service]
Type=notify
Environment=HOME=/root
{systemd.ONE_THREAD}
ExecStart={_PROGRAMS}/crio --disable-hostport-mapping
TimeoutStartSec=infinity
KillMode=process
Delegate=yes
TasksMax=infinity
StandardOutput=append:{LOG}
StandardError=inherit
"""

_FILES = {
    "/etc/crio/crio.conf": _CONFIG,
    "/etc/containers/storage.conf": _STORAGE_CONFIG,
    "/etc/containers/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}\n',
    f"/run/systemd/system/{UNIT}": _UNIT,
}


class Crio(Runtime):
    """One phase's CRI-O."""

    # crun does not write rsvd.max.
    hugepage_limit_files = ("hugetlb.2MB.max",)

    def __init__(self) -> None:
        """Write the configuration."""
        super().__init__(UNIT, LOG, SOCKET)
        # With the configurations of two runtimes `install` requires the option --runtime.
        containerd.CONFIG.unlink(missing_ok=True)
        for name, text in _FILES.items():
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        systemd.systemctl("daemon-reload")

    def import_image(self, archive: Path) -> None:
        """Import the image of all pods."""
        source = f"docker-archive:{archive}:{image_archive.IMAGE}"
        target = f"containers-storage:{image_archive.IMAGE}"
        output("skopeo", "--insecure-policy", "copy", source, target)


def version() -> str:
    """Return CRI-O's version, such as "1.34.0"."""
    return output(str(_PROGRAMS / "crio"), "version").split("Version:")[1].split()[0]
