"""Wheel, source distribution and wheelhouse: contents, metadata, and that pip installs them.

The slow tests build all three once, some twice.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.metadata import Metadata
from release import distributions, sources, wheelhouse
from release.errors import ReleaseError
from setuptools import find_packages

from nri_numamem.version import VERSION
from tests.packaging.laboratory_files import laboratory_files
from tests.packaging.release_builds import needs_repository, run

MACHINE = os.uname().machine
PIP = (sys.executable, "-m", "pip")

pytestmark = pytest.mark.timeout(900)  # downloads, and environments on a machine under load


class Built(NamedTuple):
    sdist: Path
    wheel: Path
    wheelhouse: Path
    """The unpacked archive."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("wheels")
    sdist, wheel = distributions.build(folder)
    archive = wheelhouse.build(wheel, folder, MACHINE)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return Built(sdist, wheel, folder / f"nri-numamem-{VERSION}-wheelhouse")


def names_in(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {"/".join(one.name.split("/")[1:]) for one in archive if one.isfile()}


def test_the_wheel_has_the_packages_of_the_program_only() -> None:
    """The slow tests look into the wheel that is built."""
    tool = tomllib.loads((sources.ROOT / "pyproject.toml").read_text())["tool"]
    found = find_packages(str(sources.ROOT), **tool["setuptools"]["packages"]["find"])
    assert "nri_numamem.nri" in found
    assert laboratory_files(found) == []
    assert laboratory_files(["tests", "tests.laboratory"]) == ["tests", "tests.laboratory"]


@needs_repository
@pytest.mark.slow
def test_metadata_of_the_wheel(built: Built) -> None:
    """Every field is valid, and so accepted by an index."""
    assert built.wheel.name == f"nri_numamem-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(built.wheel) as archive:
        names = archive.namelist()
        info = f"nri_numamem-{VERSION}.dist-info"
        metadata = Metadata.from_email(archive.read(f"{info}/METADATA"), validate=True)
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in names
    assert (metadata.name, str(metadata.version)) == ("nri_numamem", VERSION)
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert str(metadata.requires_python) == ">=3.11"
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (sources.ROOT / "README.md").read_text()
    prefix = "Programming Language :: Python :: 3."
    classifiers = metadata.classifiers or []
    pythons = {f"3.{one.removeprefix(prefix)}" for one in classifiers if one.startswith(prefix)}
    assert pythons == set(wheelhouse.PYTHONS)
    assert scripts == "[console_scripts]\nnri-numamem = nri_numamem.cli.main:main\n"
    assert "nri_numamem/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"nri_numamem", info}
    assert laboratory_files(names) == []


@needs_repository
@pytest.mark.slow
def test_the_source_distribution_has_all_tracked_files(built: Built) -> None:
    left_out = set(sources.tracked()) - names_in(built.sdist)
    only_for_the_repository = {name for name in left_out if name.startswith(".github/")}
    assert left_out == {".ci/run", ".gitignore"} | only_for_the_repository


@needs_repository
@pytest.mark.slow
def test_the_same_sources_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """The wheel that pip makes of the sdist is the same; permissions make no difference."""
    again = tmp_path / "again"
    again.mkdir()
    distributions.write_archive(unpacked(built.sdist, tmp_path / "sdist"), again / built.sdist.name)
    assert (again / built.sdist.name).read_bytes() == built.sdist.read_bytes()
    done = run(
        *(*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir"),
        *(again, built.sdist),
        umask=0o022,
        SOURCE_DATE_EPOCH=str(distributions.date_s()),
    )
    assert done.returncode == 0, done.stderr
    assert (again / built.wheel.name).read_bytes() == built.wheel.read_bytes()


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
    return folder


@needs_repository
@pytest.mark.slow
def test_the_wheelhouse_needs_no_index(built: Built, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    done = run(
        *(*PIP, "--python", environment / "bin/python", "install", "--no-index"),
        *("--find-links", ".", "--require-hashes", "--requirement", "requirements.txt"),
        cwd=built.wheelhouse,
    )
    assert done.returncode == 0, done.stderr
    program = environment / "bin/nri-numamem"
    assert run(program, "--version").stdout == f"nri-numamem {VERSION}\n"
    assert run(program, "demo", "--help").returncode == 0


@needs_repository
@pytest.mark.slow
@pytest.mark.parametrize("python", wheelhouse.PYTHONS)
def test_the_wheelhouse_serves_each_python(built: Built, tmp_path: Path, python: str) -> None:
    done = run(
        *(*PIP, "install", "--dry-run", "--no-index", "--find-links", built.wheelhouse),
        *("--target", tmp_path / "target", "--only-binary", ":all:", "--python-version", python),
        *("--implementation", "cp", "--platform", f"manylinux2014_{MACHINE}", "nri_numamem"),
    )
    assert done.returncode == 0, done.stderr
    assert f"nri_numamem-{VERSION}" in done.stdout


@needs_repository
@pytest.mark.slow
def test_the_wheelhouse_has_hashes_of_its_files_and_names_no_host(built: Built) -> None:
    text = (built.wheelhouse / "requirements.txt").read_text()
    hashes = re.findall(r"--hash=sha256:(\w+)", text)
    wheels = [path.read_bytes() for path in sorted(built.wheelhouse.glob("*.whl"))]
    assert sorted(hashes) == sorted(hashlib.sha256(data).hexdigest() for data in wheels)
    assert "//" not in text + (built.wheelhouse / "README.txt").read_text()
    known = wheelhouse.REQUIREMENTS.read_text()
    assert [digest for digest in hashes if digest not in known] == [
        hashlib.sha256(built.wheel.read_bytes()).hexdigest()
    ]


def test_requirements_of_an_installation() -> None:
    text = wheelhouse.requirements()
    assert re.search(r"^protobuf==\S+ \\$", text, re.MULTILINE)
    whole = wheelhouse.REQUIREMENTS.read_text()
    entries, all_entries = (
        set(re.split(r"^(?=\w)", one, flags=re.MULTILINE)) for one in (text, whole)
    )
    assert {entry.partition("==")[0] for entry in all_entries - entries if "==" in entry} == {
        "setuptools"
    }


def test_a_download_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheelhouse, "requirements", lambda: "protobuf==0.0.1 --hash=sha256:00\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(ReleaseError, match=r"\Apip download for Python 3\.11: ERROR: .*\Z"):
        wheelhouse.cached(MACHINE, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_hook_that_fails_shows_its_end(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    with pytest.raises(ReleaseError, match=r"setuptools, build_sdist: status 1\n(.*\n)*.*version"):
        distributions._run_hook("build_sdist", tmp_path, tmp_path)


def test_archives_have_fixed_owners_times_and_modes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    root = tmp_path / "root"
    (root / "b").mkdir(parents=True)
    (root / "b/program").touch(0o711)
    (root / "a").touch(0o600)
    distributions.write_archive(root, tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        found = [(one.name, one.mode, one.mtime, one.uid, one.uname) for one in archive]
    assert found == [
        ("a", 0o644, 1700000000, 0, ""),
        ("b", 0o755, 1700000000, 0, ""),
        ("b/program", 0o755, 1700000000, 0, ""),
    ]
