"""A newer containerd and runc beside Debian's, in the folders of an administrator.

Both are built for these tests by `machine.py`.
This module depends on containerd and Debian's unit of it, and not on pods or placement.
"""

from pathlib import Path

from tests.machines.guest import containerd, systemd

CONTAINERD = Path("/usr/local/bin/containerd")
RUNC = Path("/usr/local/sbin/runc")
_SHIM = Path("/usr/local/bin/containerd-shim-runc-v2")
_PROGRAMS = Path("/e2e/artefacts")

# Not systemd's own PATH, which has no folder sbin on some distributions.
_DROP_IN = f"""\
[Service]
{systemd.ONE_THREAD}
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
ExecStart=
ExecStart={CONTAINERD}
"""


class NewerContainerd(containerd.Containerd):
    """One phase's containerd."""

    def __init__(self, tables: str = "") -> None:
        """Write the configuration, and let the unit start the newer program.

        `tables` are further tables of the configuration in TOML.
        """
        super().__init__(hugetlb=False, tables=tables)
        for path in (CONTAINERD, _SHIM, RUNC):
            path.unlink(missing_ok=True)
            path.symlink_to(_PROGRAMS / path.name)
        systemd.write_drop_in(containerd.UNIT, _DROP_IN)
        systemd.systemctl("daemon-reload")


def version() -> str:
    """Return the version of the newer containerd, such as "2.3.7"."""
    return containerd.version(str(_PROGRAMS / CONTAINERD.name))


def runc_version() -> str:
    """Return the version of the newer runc."""
    return containerd.runc_version(str(_PROGRAMS / RUNC.name))
