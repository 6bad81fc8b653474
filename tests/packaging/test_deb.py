"""The Debian package: its files, its scripts, and that it is reproducible."""

import gzip
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import payload
import pytest

from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.config.example import example_text
from nri_numamem.version import VERSION
from tests.load_module import load_module
from tests.packaging.laboratory_files import laboratory_files
from tests.packaging.single_file_program import OLDEST_GLIBC

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return load_module(ROOT / "packaging/deb/build.py")


@pytest.fixture(scope="module")
def package(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package of a script in the place of the program."""
    folder = tmp_path_factory.mktemp("deb")
    (folder / "file").write_text("#!/bin/sh\n")
    built: Path = program.build(folder / "file", folder)
    return built


def dpkg_deb(*arguments: str | Path) -> str:
    return subprocess.run(
        ["dpkg-deb", *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_files_belong_to_root(package: Path) -> None:
    rows = [line.split() for line in dpkg_deb("--contents", package).splitlines()]
    assert {row[1] for row in rows} == {"root/root"}
    modes = {row[5].removeprefix("."): row[0] for row in rows if not row[5].endswith("/")}
    executable = {name for name, mode in modes.items() if "x" in mode}
    assert executable == {"/usr/bin/nri-numamem", hook_program.PATH}
    assert {"/etc/nri-numamem/config.yaml", systemd.PACKAGED[0]} < modes.keys()
    assert "/usr/share/man/man8/nri-numamem.8.gz" in modes
    assert "/usr/share/bash-completion/completions/nri-numamem" in modes


def test_nothing_of_the_laboratory_is_installed(package: Path) -> None:
    names = [line.split()[5] for line in dpkg_deb("--contents", package).splitlines()]
    assert "./usr/bin/nri-numamem" in names
    assert laboratory_files(names) == []
    assert [name for name in names if name.endswith(".py")] == []


def test_nothing_is_started(package: Path) -> None:
    """No file is in a place from which a runtime or systemd starts it, and no script starts it."""
    names = dpkg_deb("--contents", package)
    assert "opt/" not in names
    assert ".wants" not in names
    assert not {"preinst", "postinst"} & set(dpkg_deb("--info", package).split())


def test_installed_files(package: Path, tmp_path: Path) -> None:
    dpkg_deb("--extract", package, tmp_path)
    text = (tmp_path / systemd.PACKAGED[0].lstrip("/")).read_text()
    assert "\nExecStart=/usr/bin/nri-numamem run\n" in text
    assert (tmp_path / "etc/nri-numamem/config.yaml").read_text() == example_text()
    dpkg_deb("--control", package, tmp_path / "control")
    assert (tmp_path / "control/conffiles").read_text() == "/etc/nri-numamem/config.yaml\n"
    done = subprocess.run(
        ["md5sum", "--check", "--quiet", tmp_path / "control/md5sums"], cwd=tmp_path, check=False
    )
    assert done.returncode == 0
    assert dpkg_deb("--field", package, "Version").strip() == f"{VERSION}-1"


def test_the_same_input_gives_the_same_bytes(
    program: ModuleType, package: Path, tmp_path: Path
) -> None:
    again: Path = program.build(package.parent / "file", tmp_path)
    assert again.read_bytes() == package.read_bytes()


def test_only_a_removal_uninstalls(package: Path, tmp_path: Path) -> None:
    """tests/packaging/test_payload.py runs the script."""
    dpkg_deb("--control", package, tmp_path)
    assert (tmp_path / "prerm").read_text() == payload.removal_script("remove")


def test_the_needed_glibc_is_that_of_the_program(package: Path) -> None:
    """tests/packaging/test_single_file.py compares it with the symbols of the program."""
    needed = ".".join(map(str, OLDEST_GLIBC))
    assert dpkg_deb("--field", package, "Depends").strip() == f"libc6 (>= {needed})"


def test_documents(package: Path, tmp_path: Path) -> None:
    dpkg_deb("--extract", package, tmp_path)
    folder = tmp_path / "usr/share/doc/nri-numamem"
    assert "--licenses" in (folder / "copyright").read_text()
    assert gzip.decompress((folder / "changelog.gz").read_bytes()).startswith(b"# Changelog")
    entry = gzip.decompress((folder / "changelog.Debian.gz").read_bytes()).decode()
    version = dpkg_deb("--field", package, "Version").strip()
    assert entry.startswith(f"nri-numamem ({version}) unstable; urgency=medium\n")
    date = r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} [-+]0000"
    assert re.search(rf"^ -- .+ <\S+@\S+>  {date}$", entry, re.MULTILINE)
