"""Build what is tested in the virtual machines: the wheel, the single file, the Debian packages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.machines.progress import Build, Progress
from tests.packaging import deb_packages, single_file_program

WHEEL_VARIABLE = "NRI_NUMAMEM_E2E_WHEEL"
_ROOT = Path(__file__).resolve().parents[2]


SINGLE_FILE = Build(
    "single file (make dist DIST=--quick; the first time it builds CPython)",
    12,
    lambda: not single_file_program.build_problem(single_file_program.PROGRAM),
)


def all_artefacts(out: Path, progress: Progress) -> dict[str, Path]:
    """Return name on the drive -> file; files are built in the folder `out`."""
    built = wheel(out / "wheel")
    return {built.name: built, **programs(out / "packages", progress)}


def wheel(folder: Path) -> Path:
    """Return the wheel that the environment variable names, or else a new one in `folder`."""
    named = os.environ.get(WHEEL_VARIABLE)
    if named:
        return Path(named).resolve(strict=True)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    # setuptools would include files of an earlier build.
    shutil.rmtree(_ROOT / "build" / "lib", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(_ROOT)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (built,) = folder.glob("*.whl")
    return built


def programs(folder: Path, progress: Progress) -> dict[str, Path]:
    """Return name on the drive -> file: the single file, and two versions of the package.

    Builds the single file if it is missing or older than the sources, and the packages in `folder`.
    """
    if not SINGLE_FILE.is_cached():
        command = ["make", "dist", "DIST=--quick"]
        with progress.step(SINGLE_FILE.name, SINGLE_FILE.minutes):
            subprocess.run(command, cwd=_ROOT, check=True, stdin=subprocess.DEVNULL)
        single_file_program.build_problem.cache_clear()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    old, new = deb_packages.build_two(single_file_program.PROGRAM, folder)
    return {"nri-numamem": single_file_program.PROGRAM, old.name: old, new.name: new}
