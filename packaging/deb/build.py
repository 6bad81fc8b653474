#!/usr/bin/env python3
"""Build a Debian package of the single executable file, for Debian and Ubuntu.

Usage: build.py [PROGRAM [DIRECTORY]]; `make deb` runs it. The package has the program, the systemd
unit, a man page, completions and a default configuration. README.md describes its scripts.
"""

import argparse
import email.utils
import gzip
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nri_numamem.cli.installation import unit
from nri_numamem.cli.installation.program import COPY
from nri_numamem.cli.installation.unit_text import UNIT
from nri_numamem.config.example import example_text
from nri_numamem.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NAME = "nri-numamem"
MACHINE = platform.machine()
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
COMPLETIONS = {
    NAME: "usr/share/bash-completion/completions",
    f"_{NAME}": "usr/share/zsh/vendor-completions",
    f"{NAME}.fish": "usr/share/fish/vendor_completions.d",
}
CONFIGURATION = "etc/nri-numamem/config.yaml"
DOCUMENTS = f"usr/share/doc/{NAME}"
SCRIPTS = ("prerm", "postrm")
# No address of a person; .invalid is reserved by RFC 2606.
MAINTAINER = "nri_numamem developers <nri-numamem@nri-numamem.invalid>"
# tests/packaging compares the release of glibc with the symbols of the program.
CONTROL = """\
Package: nri-numamem
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size_kib}
Depends: libc6 (>= 2.17)
Section: admin
Priority: optional
Description: NUMA memory placement for Kubernetes containers
 A plugin of the Node Resource Interface (NRI) of containerd and CRI-O. It
 places the memory and hugepages of Guaranteed containers on as few NUMA nodes
 as possible, as the kubelet's Memory Manager does.
 .
 The program has Python and all libraries inside. The package starts nothing:
 run nri-numamem install.
"""
# The date of everything in the package, unless CHANGELOG.md has the date of a release.
DATE_S = 1767225600  # 2026-01-01
CHANGELOG = """\
nri-numamem ({version}) unstable; urgency=medium

  * changelog.gz has the changes.

 -- {maintainer}  {date}
"""


def package_version(version: str = VERSION) -> str:
    """Return the version of the package. Before a release dpkg orders 1.0~rc1, but not 1.0rc1."""
    return re.sub(r"(?<=\d)(a|b|rc)(?=\d)", r"~\1", version) + "-1"


def build(program: Path, directory: Path, compression: str = "xz") -> Path:
    """Write the package into a directory; return its path. Same input, same bytes.

    Every dpkg reads packages in xz. Its compression "none" is for tests.
    """
    architecture = ARCHITECTURES[MACHINE]
    package = directory / f"{NAME}_{package_version()}_{architecture}.deb"
    directory.mkdir(parents=True, exist_ok=True)
    date_s = os.environ.get("SOURCE_DATE_EPOCH") or str(release_date_s())
    # More threads cut the data into other blocks.
    reproducible = {"SOURCE_DATE_EPOCH": date_s, "DPKG_DEB_THREADS_MAX": "1"}
    environment = {**os.environ, **reproducible}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        _fill(root, program, environment)
        _write_control(root, architecture)
        _set_modes(root)
        command = ["dpkg-deb", "--root-owner-group", f"-Z{compression}", "--build"]
        command += [str(root), str(package)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return package


def release_date_s(changelog: Path = ROOT / "CHANGELOG.md") -> int:
    """Return the date of the newest release in a changelog, as seconds since 1970."""
    heading = re.search(r"^## \S+ - (\d{4})-(\d\d)-(\d\d)$", changelog.read_text(), re.MULTILINE)
    if heading is None:
        return DATE_S
    year, month, day = map(int, heading.groups())
    return email.utils.mktime_tz((year, month, day, 0, 0, 0, 0, 1, 0, 0))


def _fill(root: Path, program: Path, environment: dict[str, str]) -> None:
    """Write the files of the package below a directory."""
    date_s = int(environment["SOURCE_DATE_EPOCH"])
    entry = CHANGELOG.format(
        version=package_version(), maintainer=MAINTAINER, date=email.utils.formatdate(date_s)
    )
    _path(root, CONFIGURATION).write_text(example_text())
    service = UNIT.replace(COPY, f"/usr/bin/{NAME}")
    _path(root, unit.PACKAGED[0].lstrip("/")).write_text(service)
    shutil.copyfile(program, _path(root, f"usr/bin/{NAME}"))
    shutil.copyfile(HERE / "copyright", _path(root, f"{DOCUMENTS}/copyright"))
    overrides = _path(root, f"usr/share/lintian/overrides/{NAME}")
    shutil.copyfile(HERE / "lintian-overrides", overrides)
    changes = (ROOT / "CHANGELOG.md").read_bytes()
    _write_compressed(_path(root, f"{DOCUMENTS}/changelog.gz"), changes)
    _write_compressed(_path(root, f"{DOCUMENTS}/changelog.Debian.gz"), entry.encode())
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "packaging/write_cli_files.py"), folder]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        page = Path(folder, f"{NAME}.8").read_bytes()
        _write_compressed(_path(root, f"usr/share/man/man8/{NAME}.8.gz"), page)
        for name, place in COMPLETIONS.items():
            shutil.copyfile(Path(folder, "completion", name), _path(root, f"{place}/{name}"))


def _path(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_compressed(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, mtime=0))


def _write_control(root: Path, architecture: str) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
        f"  {path.relative_to(root)}\n"
        for path in files
        if path != root / CONFIGURATION
    )
    control = CONTROL.format(
        version=package_version(),
        architecture=architecture,
        maintainer=MAINTAINER,
        size_kib=sum(path.stat().st_size for path in files) // 1024,
    )
    texts = {"control": control, "conffiles": f"/{CONFIGURATION}\n", "md5sums": sums}
    texts |= {name: (HERE / name).read_text() for name in SCRIPTS}
    for name, text in texts.items():
        _path(root, f"DEBIAN/{name}").write_text(text)


def _set_modes(root: Path) -> None:
    programs = {root / "usr/bin" / NAME, *(root / "DEBIAN" / name for name in SCRIPTS)}
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path in programs else 0o644)


def _check_program(program: Path) -> str:
    """Return why a program cannot be packaged, or nothing."""
    if not program.exists():
        return f"{program} is missing; run: make dist"
    newest_s = max(path.stat().st_mtime for path in (ROOT / "nri_numamem").rglob("*.py"))
    if program.stat().st_mtime < newest_s:
        return f"{program} is older than the sources; run: make dist"
    return ""


def main() -> int:
    """Build the package of the command line; return the exit status."""
    default = ROOT / "dist" / f"{NAME}-{VERSION}-linux-{MACHINE}"
    parser = argparse.ArgumentParser(prog="make deb", description=__doc__)
    parser.add_argument(
        "program", type=Path, nargs="?", default=default, help="the file of make dist (%(default)s)"
    )
    parser.add_argument(
        "directory", type=Path, nargs="?", default=default.parent, help="(%(default)s)"
    )
    args = parser.parse_args()
    problem = _check_program(args.program)
    if not problem and shutil.which("dpkg-deb") is None:
        problem = "dpkg-deb is missing; install dpkg"
    if problem:
        sys.stderr.write(f"make deb: {problem}\n")
        return 1
    package = build(args.program, args.directory)
    sys.stdout.write(f"{hashlib.sha256(package.read_bytes()).hexdigest()}  {package}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
