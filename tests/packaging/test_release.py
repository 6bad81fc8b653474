"""A release of artefacts that are there: what is written beside them, and the command line."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from release import __main__ as program
from release import changelog, checks, distributions, sbom, sign, sources
from release.artefacts import Artefact, artefacts, c_library, targets
from release.changelog import Section
from release.errors import ReleaseError
from release.publish import others, publish

from nri_numamem.version import VERSION
from tests.packaging.release_builds import ROOT, run
from tests.packaging.test_release_sbom import wheel_of

SECTION = Section("0.1.0", None, "### Added\n\n- first")
ARTEFACTS = artefacts(VERSION, "x86_64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory with all artefacts; the single file has its SBOM, as from make dist."""
    for artefact in ARTEFACTS:
        (tmp_path / artefact.name).write_text(artefact.title)
    single = tmp_path / ARTEFACTS[0].name
    sbom.write(single, sbom.document(sbom.own(single, VERSION), libraries(tmp_path), 0))
    return tmp_path


def libraries(folder: Path) -> Sequence[sbom.Json]:
    wheels = folder / "libraries"
    wheels.mkdir(exist_ok=True)
    return [sbom.of_wheel(wheel_of(wheels, "library", "License-Expression: MIT"))]


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the caches of downloads have a library, and the C library of the image."""
    cache = tmp_path_factory.mktemp("cache")
    wheel_of(cache, "library", "License-Expression: MIT")
    package = cache / "libc6_2.41-12%3a1_amd64.deb"
    package.touch()
    monkeypatch.setattr("release.wheelhouse.cached", lambda _machine, _cache: cache)
    monkeypatch.setattr("image.glibc.package", lambda _cache: package)


def release(folder: Path, newest_source_s: float = 0) -> str:
    return publish(ARTEFACTS, folder, VERSION, SECTION, newest_source_s)


def test_every_artefact_has_an_sbom_and_a_checksum(folder: Path) -> None:
    table = release(folder)
    names = [artefact.name for artefact in ARTEFACTS]
    assert [line.split()[-1] for line in table.splitlines()] == names
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for name in names:
        text = sbom.path_of(folder / name).read_text()
        assert validator.validate_str(text) is None
        assert json.loads(text)["metadata"]["component"]["version"] == VERSION
        assert ("library" in text) is (not name.endswith((".tgz", "kustomize.tar.gz")))
    sums = (folder / "SHA256SUMS").read_text().split()[1::2]
    assert sums == [x for name in names for x in (name, f"{name}.cdx.json")] + ["RELEASE_NOTES.md"]
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=False
    )
    assert done.returncode == 0
    assert (folder / "RELEASE_NOTES.md").read_text() == (
        f"# nri_numamem {VERSION}\n\n### Added\n\n- first\n"
    )


def test_the_same_artefacts_give_the_same_files(folder: Path) -> None:
    release(folder)
    sums = (folder / "SHA256SUMS").read_bytes()
    release(folder)
    assert (folder / "SHA256SUMS").read_bytes() == sums


def test_packages_contain_the_single_file_and_the_image_the_c_library(folder: Path) -> None:
    release(folder)
    contents = {
        artefact.target: json.loads(sbom.path_of(folder / artefact.name).read_text())["components"]
        for artefact in ARTEFACTS
    }
    assert [part["name"] for part in contents["dist"]] == ["library"]
    digest = sbom.sha256_of(folder / ARTEFACTS[0].name)
    for target in ("deb", "rpm", "image"):
        part = contents[target][0]
        assert part["hashes"][0]["content"] == digest
        assert [inner["name"] for inner in part["components"]] == ["library"]
    assert [part["purl"] for part in contents["image"][1:]] == [
        "pkg:deb/debian/libc6@2.41-12%3A1?arch=amd64"
    ]


def test_missing_and_old_artefacts_are_named_together(folder: Path) -> None:
    (folder / ARTEFACTS[1].name).unlink()
    with pytest.raises(ReleaseError) as caught:
        release(folder, newest_source_s=1e11)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(ARTEFACTS)
    assert lines[1].endswith("is missing; run: make deb")
    assert not (folder / "SHA256SUMS").exists()


def test_other_files_are_listed(folder: Path) -> None:
    release(folder)
    (folder / "nri-numamem-0.0.9-linux-x86_64").touch()
    assert others(ARTEFACTS, folder) == ["libraries", "nri-numamem-0.0.9-linux-x86_64"]


def test_the_targets_are_those_of_make() -> None:
    text = (ROOT / "Makefile").read_text()
    for target in targets(VERSION, "x86_64"):
        assert f"\n{target}: " in text
    assert len(set(targets(VERSION, "x86_64"))) == len(targets(VERSION, "x86_64"))


def test_a_failed_target_ends_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []

    def make(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        called.append(command[-1])
        return subprocess.CompletedProcess(command, int(command[-1] == "deb"))

    monkeypatch.setattr(subprocess, "run", make)
    with pytest.raises(ReleaseError, match=r"^make deb ended with status 1$"):
        program.build()
    assert called == ["dist", "deb"]


def test_the_command_builds_and_publishes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[str] = []
    monkeypatch.setattr(program, "DIRECTORY", folder)
    monkeypatch.setattr(program, "build", lambda: built.append("all"))
    monkeypatch.setattr(sources, "newest_s", lambda: 0)
    monkeypatch.setattr(sources, "changed", lambda _root: ["file"])
    monkeypatch.setattr(checks, "of_upgrade", lambda _root: iter(()))
    monkeypatch.setattr(sys, "argv", ["release", "release", "--unreleased"])
    assert program.main() == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("single executable file")
    unsigned = "SHA256SUMS is not signed; RELEASE='--sign KEY' signs it\n"
    assert printed.err == f"{unsigned}not part of the release: libraries\n"
    text = (ROOT / "CHANGELOG.md").read_text()
    assert (
        changelog.notes(text, VERSION, is_unreleased=True).text
        in (folder / "RELEASE_NOTES.md").read_text()
    )
    sys.argv.append("--built")
    assert program.main() == 0
    assert built == ["all"]


@pytest.mark.parametrize(
    ("options", "status"), [([], 1), (["--outdated"], 0), (["--unreleased"], 0)]
)
def test_an_old_openssl_is_refused_without_an_option(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
) -> None:
    monkeypatch.setattr(program, "DIRECTORY", folder)
    monkeypatch.setattr(sources, "newest_s", lambda: 0)
    monkeypatch.setattr(checks, "of_sources", lambda *_args, **_options: iter(()))
    monkeypatch.setattr(checks, "of_debian_sources", lambda _contents: iter(["openssl is old"]))
    monkeypatch.setattr(checks, "of_upgrade", lambda _root: iter(()))
    monkeypatch.setattr(changelog, "notes", lambda *_args, **_options: SECTION)
    monkeypatch.setattr(sys, "argv", ["release", "release", "--built", *options])
    assert program.main() == status
    assert ("make release: openssl is old\n" in capsys.readouterr().err) is bool(status)
    assert (folder / "SHA256SUMS").exists() is not bool(status)


def test_a_key_that_cannot_sign_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "of_sources", lambda *_args, **_options: iter(()))
    monkeypatch.setattr(program, "build", lambda: pytest.fail("built"))
    monkeypatch.setattr(sys, "argv", ["release", "release", "--sign", str(tmp_path / "key")])
    assert program.main() == 1
    assert "give a private key of SSH" in capsys.readouterr().err


def test_the_command_signs_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[str] = []
    monkeypatch.setattr(program, "DIRECTORY", folder)
    monkeypatch.setattr(sources, "newest_s", lambda: 0)
    monkeypatch.setattr(checks, "of_sources", lambda *_args, **_options: iter(()))
    monkeypatch.setattr(checks, "of_upgrade", lambda _root: iter(()))
    monkeypatch.setattr(sign, "problems", lambda _key, _signers: iter(()))
    monkeypatch.setattr(sign, "sign", lambda sums, _key, _signers: signed.append(sums.read_text()))
    (folder / "SHA256SUMS.sig").write_text("of an earlier release")
    options = ["--built", "--unreleased", "--sign", "key"]
    monkeypatch.setattr(sys, "argv", ["release", "release", *options])
    assert program.main() == 0
    assert signed == [(folder / "SHA256SUMS").read_text()]
    assert not (folder / "SHA256SUMS.sig").exists()


def test_all_problems_are_printed_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "of_sources", lambda *_args, **_options: iter(["one", "two"]))
    monkeypatch.setattr(program, "build", lambda: pytest.fail("built"))
    monkeypatch.setattr(sys, "argv", ["release", "release"])
    assert program.main() == 1
    assert capsys.readouterr().err == "make release: one\nmake release: two\n"


def test_nothing_is_built_if_an_upgrade_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "of_sources", lambda *_args, **_options: iter(()))
    monkeypatch.setattr(checks, "of_upgrade", lambda _root: iter(["upgrade fails"]))
    monkeypatch.setattr(program, "build", lambda: pytest.fail("built"))
    monkeypatch.setattr(sys, "argv", ["release", "release"])
    assert program.main() == 1
    assert capsys.readouterr().err == "make release: upgrade fails\n"


def test_make_passes_options() -> None:
    command = ["make", "--dry-run", "--assume-old", ".venv/.dev", "release", "RELEASE=--unreleased"]
    done = run(*command, cwd=ROOT)
    assert done.stdout.splitlines()[-1].endswith("-m release release --unreleased")


def test_wheels_are_built_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"sdist": "1.2 MB", "wheel": "100.0 kB", "house": "0.1 MB"}
    files = [tmp_path / name for name in sizes]
    for file, size in zip(files, (1_200_000, 99_999, 100_000), strict=True):
        file.write_bytes(bytes(size))
    monkeypatch.setattr(distributions, "build", lambda _directory: tuple(files[:2]))
    monkeypatch.setattr("release.wheelhouse.build", lambda *_args: files[2])
    monkeypatch.setattr(sys, "argv", ["release", "wheels"])
    assert program.main() == 0
    assert capsys.readouterr().out.splitlines() == [f"{sizes[file.name]}  {file}" for file in files]


def test_the_version_of_a_debian_package_is_in_its_name(tmp_path: Path) -> None:
    package = tmp_path / "libc6_2.41-12+deb13u4_amd64.deb"
    package.touch()
    found = c_library(package)
    assert (found["name"], found["version"]) == ("glibc", "2.41-12+deb13u4")
    assert Artefact("title", "target", "name", lambda _folder: []).kind == "file"
