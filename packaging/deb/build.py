#!/usr/bin/env python3
"""Build a Debian package of the single executable file, for Debian and Ubuntu.

Usage: PYTHONPATH=packaging build.py [PROGRAM [DIRECTORY]]; `make deb` runs it. The package has the
program, the systemd unit, a man page, completions and a default configuration. README.md describes
its scripts.
"""

import email.utils
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import payload
from payload import CONFIGURATION, DEBIAN_ARCHITECTURES, DOCUMENTS, MACHINE, MAINTAINER, NAME
from release import distributions

HERE = Path(__file__).resolve().parent
ZSH_COMPLETIONS = "usr/share/zsh/vendor-completions"
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
Description: {summary}
{description}"""
CHANGELOG = """\
nri-numamem ({version}) unstable; urgency=medium

  * changelog.gz has the changes.

 -- {maintainer}  {date}
"""
VERSION = f"{payload.upstream_version()}-1"


def build(program: Path, directory: Path, compression: str = "xz") -> Path:
    """Write the package into a directory; return its path. Same input, same bytes.

    Every dpkg reads packages in xz. Its compression "none" is for tests.
    """
    package = directory / payload.deb_name()
    directory.mkdir(parents=True, exist_ok=True)
    date_s = distributions.date_s()
    # More threads cut the data into other blocks.
    reproducible = {"SOURCE_DATE_EPOCH": str(date_s), "DPKG_DEB_THREADS_MAX": "1"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        payload.fill(root, program, ZSH_COMPLETIONS, date_s)
        _write_documents(root, date_s)
        scripts = _write_control(root)
        payload.set_modes(root, *scripts)
        command = ["dpkg-deb", "--root-owner-group", f"-Z{compression}", "--build"]
        command += [str(root), str(package)]
        environment = {**os.environ, **reproducible}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return package


def _write_documents(root: Path, date_s: int) -> None:
    """Write what only a package of Debian has."""
    entry = CHANGELOG.format(
        version=VERSION, maintainer=MAINTAINER, date=email.utils.formatdate(date_s)
    )
    shutil.copyfile(HERE / "copyright", payload.path_of(root, f"{DOCUMENTS}/copyright"))
    overrides = payload.path_of(root, f"usr/share/lintian/overrides/{NAME}")
    shutil.copyfile(HERE / "lintian-overrides", overrides)
    changelog = payload.path_of(root, f"{DOCUMENTS}/changelog.Debian.gz")
    payload.write_compressed(changelog, entry.encode())


def _write_control(root: Path) -> list[str]:
    """Write the package's data and scripts; return the paths of the scripts."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    sums = "".join(
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
        f"  {path.relative_to(root)}\n"
        for path in files
        if path != root / CONFIGURATION
    )
    lines = payload.DESCRIPTION.splitlines()
    control = CONTROL.format(
        version=VERSION,
        architecture=DEBIAN_ARCHITECTURES[MACHINE],
        maintainer=MAINTAINER,
        size_kib=sum(path.stat().st_size for path in files) // 1024,
        summary=payload.SUMMARY,
        description="".join(f" {line or '.'}\n" for line in lines),
    )
    scripts = {
        "prerm": payload.removal_script("remove"),
        "postrm": (HERE / "postrm").read_text(),
    }
    texts = {"control": control, "conffiles": f"/{CONFIGURATION}\n", "md5sums": sums, **scripts}
    for name, text in texts.items():
        payload.path_of(root, f"DEBIAN/{name}").write_text(text)
    return [f"DEBIAN/{name}" for name in scripts]


if __name__ == "__main__":
    sys.exit(payload.run("deb", ("dpkg-deb", "dpkg"), build))
