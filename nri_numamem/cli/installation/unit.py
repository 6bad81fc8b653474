"""The systemd unit: its text for a program, and whether a file is an unchanged one.

The unit in systemd/ of the repository is the only source; `unit_text` is a copy of it that
docs/generate.py writes, because the single executable file has no data files.
"""

import hashlib
import re

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.unit_text import UNIT

NAME = "nri-numamem.service"
PATH = f"/etc/systemd/system/{NAME}"
WANTED = f"/etc/systemd/system/multi-user.target.wants/{NAME}"
"""The link that `systemctl enable` makes."""
OVERRIDES = f"{PATH}.d"
PACKAGED = tuple(f"{folder}/systemd/system/{NAME}" for folder in ("/usr/lib", "/lib"))
"""Where a package of a distribution has the unit."""

EXPORTER = "nri-numamem-export.service"
"""The unit of `nri-numamem export`, which the packages bring."""
EXPORTER_WANTED = f"/etc/systemd/system/multi-user.target.wants/{EXPORTER}"
EXPORTER_OVERRIDES = f"/etc/systemd/system/{EXPORTER}.d"

_HEAD = "# Written by nri-numamem install; change it with: systemctl edit nri-numamem\n# Checksum: "
_START = re.compile(r"^ExecStart=\S+ run$", re.MULTILINE)


def unit_for(program: str, socket: str | None = None) -> str:
    """Return the unit that starts a program, with the socket if it is not the default."""
    command = " ".join([program, "run", *(["--socket", socket] if socket else [])])
    text = _START.sub(lambda _: f"ExecStart={command}", UNIT)
    return f"{_HEAD}{_checksum(text)}\n{text}"


def is_enabled(host: Host, wanted: str = WANTED) -> bool:
    """Return whether systemd starts the plugin, or the service of another link."""
    return host.entry(wanted).is_symlink()


def is_own(text: str) -> bool:
    """Return whether a text is a unit that no administrator changed."""
    return is_unchanged(text) or is_source(text)


def is_unchanged(text: str) -> bool:
    """Return whether a text is a unit that `unit_for` returned, of this or another version."""
    if not text.startswith(_HEAD):
        return False
    checksum, _, unit = text.removeprefix(_HEAD).partition("\n")
    return checksum == _checksum(unit)


def is_source(text: str) -> bool:
    """Return whether a text is the unit of the repository, copied by hand."""
    return text == UNIT


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
