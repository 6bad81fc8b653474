"""The wheelhouse: the wheels of an installation without a package index, as one archive.

pip checks the hashes of packaging/requirements.txt when it downloads. The archive has a
requirements.txt of its own, with the hashes of exactly its files.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from release import distributions, sources
from release.errors import ReleaseError

# tests/packaging compares these with the classifiers in pyproject.toml.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

REQUIREMENTS = sources.ROOT / "packaging" / "requirements.txt"

# Builds the package, which is already built here.
_NOT_INSIDE = ("setuptools",)

_README = """\
The wheels of nri_numamem {version} and of all libraries that it needs, for CPython {pythons}
on Linux, {machine}, glibc 2.17 or newer. In this directory:

    python3 -m venv /opt/nri-numamem
    /opt/nri-numamem/bin/pip install --no-index --find-links . --require-hashes -r requirements.txt
"""


def requirements() -> str:
    """Return the lines of packaging/requirements.txt that an installation needs."""
    text = REQUIREMENTS.read_text(encoding="utf-8")
    entries = re.findall(r"^[\w.-]+==(?:.*\\\n)*.*\n", text, re.MULTILINE)
    return "".join(entry for entry in entries if entry.partition("==")[0] not in _NOT_INSIDE)


def download(target: Path, machine: str) -> None:
    """Download the wheels of all dependencies for each Python; ReleaseError if one is missing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(requirements(), encoding="utf-8")
        for python in PYTHONS:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--require-hashes", "--only-binary", ":all:", "--implementation", "cp"]
            command += ["--python-version", python, "--platform", f"manylinux2014_{machine}"]
            command += ["--platform", "any", "--dest", str(target), "--requirement", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                # The last lines; the ones before can name the address of the index.
                reason = done.stderr.strip().splitlines()[-1:]
                raise ReleaseError(f"pip download for Python {python}: {''.join(reason)}")


def cached(machine: str, cache: Path) -> Path:
    """Return a directory with these wheels; downloads them if the cache lacks them."""
    key = hashlib.sha256(repr((requirements(), PYTHONS, machine)).encode()).hexdigest()[:16]
    folder = cache / key
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as text:
            partial = Path(text) / "wheels"
            partial.mkdir()
            download(partial, machine)
            if not folder.exists():
                partial.rename(folder)
    return folder


def cache_root() -> Path:
    """Return the default of the cache: `${XDG_CACHE_HOME:-~/.cache}/nri_numamem/wheelhouse`."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "nri_numamem" / "wheelhouse"


def build(wheel: Path, directory: Path, machine: str, cache: Path | None = None) -> Path:
    """Write the archive with the project's wheel and its dependencies; return its path."""
    version = wheel.name.split("-")[1]
    name = f"nri-numamem-{version}-wheelhouse"
    archive = directory / f"{name}-linux-{machine}.tar.gz"
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text) / name
        shutil.copytree(cached(machine, cache or cache_root()), folder)
        shutil.copy(wheel, folder)
        (folder / "requirements.txt").write_text(pinned(folder.glob("*.whl")), encoding="ascii")
        readme = _README.format(version=version, pythons=", ".join(PYTHONS), machine=machine)
        (folder / "README.txt").write_text(readme, encoding="ascii")
        distributions.write_archive(Path(text), archive)
    return archive


def pinned(wheels: Iterable[Path]) -> str:
    """Return requirements with the version and the hashes of wheels."""
    hashes: dict[str, list[str]] = {}
    for wheel in sorted(wheels):
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        hashes.setdefault(f"{name}=={version}", []).append(f"    --hash=sha256:{digest}")
    return "".join(" \\\n".join([name, *found]) + "\n" for name, found in hashes.items())
