"""The second drive of a machine: a tar archive of the guest's programs and of what is tested."""

import tarfile
from collections.abc import Mapping
from pathlib import Path

from tests.machines import image

ROOT = Path(__file__).resolve().parents[2]
_GUEST = Path(__file__).parent / "guest"
# The scenarios of tests/e2e are also those of other suites.
_SHARED = ROOT / "tests" / "e2e" / "guest"
_DOCUMENTS = ("docs/troubleshooting.md",)  # a scenario runs its commands


def write(path: Path, artefacts: Mapping[str, Path], guest: Path) -> None:
    """Write the archive, which the image unpacks into /e2e; modes are preserved.

    `artefacts` maps their names on the drive to files. `guest` is the suite's folder of programs.
    """
    files = {f"artefacts/{name}": file for name, file in artefacts.items()}
    for folder in (_GUEST, _SHARED, guest):
        files |= {str(each.relative_to(ROOT)): each for each in folder.iterdir() if each.is_file()}
    files |= {Path(name).name: ROOT / name for name in _DOCUMENTS}
    files[image.INIT_NAME] = _GUEST / "init"
    with tarfile.open(path, "w") as archive:
        for name, file in sorted(files.items()):
            archive.add(file, name, recursive=False)
