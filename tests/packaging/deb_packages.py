"""Two versions of the Debian package, for tests of an upgrade."""

import subprocess
from pathlib import Path

from nri_numamem.version import VERSION
from tests.load_module import load_module

_BUILD = Path(__file__).resolve().parents[2] / "packaging/deb/build.py"
_CONFIG = "etc/nri-numamem/config.yaml"


def build_two(program: Path, folder: Path) -> tuple[Path, Path]:
    """Write old.deb and new.deb; return their paths.

    Both have the same program; the older one has another default configuration. They are not
    compressed, which saves time.
    """
    old, new = folder / "old.deb", folder / "new.deb"
    load_module(_BUILD).build(program, folder, "none").rename(new)
    older = folder / "older"
    subprocess.run(["dpkg-deb", "--raw-extract", new, older], check=True)
    control = older / "DEBIAN/control"
    control.write_text(control.read_text().replace(f"Version: {VERSION}-1", "Version: 0.0.9-1"))
    (older / _CONFIG).write_text("# of 0.0.9\n")
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build"]
    subprocess.run([*command, older, old], check=True, stdout=subprocess.DEVNULL)
    return old, new
