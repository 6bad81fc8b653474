"""A root file system with a C library and the single executable file, and nothing else."""

import shutil
from pathlib import Path

from tests.packaging.elf import Elf

# Where distributions have their libraries.
_FOLDERS = ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib")

# Arguments: the root, and a command in it. The root is read-only.
ENTER = """
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -o remount,ro,bind "$1"
root=$1
shift
exec env -i "$(command -v chroot)" "$root" "$@"
"""


def make(root: Path, program: Path) -> None:
    """Make the root with /nri-numamem and mount points, from this host's C library."""
    for name in ("proc", "run", "sys", "var"):
        (root / name).mkdir(parents=True)
    (root / "var/run").symlink_to("../run")
    shutil.copy2(program, root / "nri-numamem")
    elf = Elf(program)
    paths = [Path(elf.interpreter), *map(_find, sorted(elf.libraries))]
    for path in paths:
        target = root / path.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def _find(library: str) -> Path:
    for folder in _FOLDERS:
        path = Path("/", folder, library)
        if path.exists():
            return path
    raise FileNotFoundError(library)
