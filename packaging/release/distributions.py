"""The source distribution (sdist) and the wheel. The same sources give the same bytes."""

import gzip
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release import changelog, sources
from release.errors import ReleaseError

# A hook of PEP 517, in an interpreter of its own because it changes global state.
# Arguments: hook, directory.
_HOOK = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""
_LAST_LINES = 20


def date_s() -> int:
    """Return the time of all files in artefacts: SOURCE_DATE_EPOCH, or that of the last release."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text:
        return int(text)
    return changelog.release_date_s((sources.ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def build(directory: Path) -> tuple[Path, Path]:
    """Write the sdist and the wheel into a directory; return their paths. Raises ReleaseError.

    The wheel is built from the sdist, which so has what a build needs.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sources.copy(work / "sources")
        built = work / _run_hook("build_sdist", work / "sources", work)
        sdist = directory / built.name
        root = work / "root"
        with tarfile.open(built) as archive:
            archive.extractall(root, filter="data")
        write_archive(root, sdist)
        (unpacked,) = root.iterdir()
        wheel = _run_hook("build_wheel", unpacked, work)
        return sdist, (work / wheel).replace(directory / wheel)


def write_archive(root: Path, archive: Path) -> None:
    """Write what is in a directory as tar.gz, with fixed owners, modes, times and order."""
    seconds = date_s()

    def fixed(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = seconds
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    partial = archive.with_name(f".{archive.name}.partial")
    with (
        partial.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=fixed)
    partial.replace(archive)


def _run_hook(hook: str, project: Path, directory: Path) -> str:
    """Return the name of the file that a hook wrote into a directory."""
    done = subprocess.run(
        [sys.executable, "-c", _HOOK, hook, directory],
        cwd=project,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(date_s()), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-_LAST_LINES:])
        raise ReleaseError(f"setuptools, {hook}: status {done.returncode}\n{end}")
    return done.stdout.splitlines()[-1]
