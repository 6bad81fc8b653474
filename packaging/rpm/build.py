#!/usr/bin/env python3
"""Build an RPM package of the single executable file, for RHEL, Fedora and SUSE.

Usage: PYTHONPATH=packaging build.py [PROGRAM [DIRECTORY]]; `make rpm` runs it. README.md describes
the scripts of the package.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import payload
from payload import MACHINE, MAINTAINER, NAME
from release import distributions

HERE = Path(__file__).resolve().parent
ZSH_COMPLETIONS = "usr/share/zsh/site-functions"
LICENSE = f"usr/share/licenses/{NAME}/LICENSE"
STATE_DIRECTORIES = (f"var/lib/{NAME}", f"var/log/{NAME}")
VERSION = payload.upstream_version()
# rpm's defaults differ among distributions.
_MACROS = {
    # The single executable file stays as it is: not stripped, without links to its build.
    "__os_install_post": "%{nil}",
    "debug_package": "%{nil}",
    "_build_id_links": "none",
    # Read by the rpm of RHEL 8.
    "_source_filedigest_algorithm": "8",
    "_binary_filedigest_algorithm": "8",
    # Same input, same bytes.
    "_buildhost": f"{NAME}.invalid",
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "source_date_epoch_from_changelog": "0",
    "_vendor": "unknown",
    "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
}


def build(
    program: Path, directory: Path, release: str = "1", compression: str = "w6.xzdio"
) -> Path:
    """Write the package into a directory; return its path. Same input, same bytes.

    rpm of RHEL 8 reads packages in xz, not in zstd. The compression "w0.ufdio", which is none, is
    for tests.
    """
    package = directory / payload.rpm_name(release=release)
    directory.mkdir(parents=True, exist_ok=True)
    date_s = distributions.date_s()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _write_files(work / "files", program, date_s)
        spec = work / f"{NAME}.spec"
        spec.write_text(_spec(work / "files", release, date_s))
        places = {"_topdir": work / "work", "_tmppath": work, "_dbpath": work / "database"}
        macros = _MACROS | {
            "_rpmdir": directory.resolve(),
            "_binary_payload": compression,
            **places,
        }
        command = ["rpmbuild", "-bb", "--quiet", "--nodeps", "--target", f"{MACHINE}-linux"]
        for name, value in macros.items():
            command += ["--define", f"{name} {value}"]
        # Without the macros of a user.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(date_s), "HOME": folder}
        command.append(str(spec))
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return package


def _write_files(root: Path, program: Path, date_s: int) -> None:
    payload.fill(root, program, ZSH_COMPLETIONS, date_s)
    shutil.copyfile(payload.ROOT / "LICENSE", payload.path_of(root, LICENSE))
    for name in STATE_DIRECTORIES:
        (root / name).mkdir(parents=True)
    payload.set_modes(root)
    for path in (root, *root.rglob("*")):
        os.utime(path, (date_s, date_s))


def _spec(files: Path, release: str, date_s: int) -> str:
    texts = {
        "VERSION": VERSION,
        "RELEASE": release,
        "SUMMARY": payload.SUMMARY,
        "DESCRIPTION": payload.DESCRIPTION,
        "FILES": str(files),
        "POST": (HERE / "post").read_text(),
        "PREUN": payload.removal_script("0"),
        "DATE": time.strftime("%a %b %d %Y", time.gmtime(date_s)),
        "MAINTAINER": MAINTAINER,
    }
    spec = (HERE / f"{NAME}.spec.in").read_text()
    for name, text in texts.items():
        spec = spec.replace(f"@{name}@", text.replace("%", "%%"))
    return spec


if __name__ == "__main__":
    sys.exit(payload.run("rpm", ("rpmbuild", "rpm (on RHEL and Fedora rpm-build)"), build))
