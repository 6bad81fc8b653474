"""The RPM package: its files, its dependencies, its scripts, and that it is reproducible."""

import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import payload
import pytest
from release import distributions

from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.config.example import example_text
from nri_numamem.version import VERSION
from tests.load_module import load_module
from tests.packaging.laboratory_files import laboratory_files
from tests.packaging.single_file_program import OLDEST_GLIBC

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "/etc/nri-numamem/config.yaml"

pytestmark = pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="no rpmbuild")


@pytest.fixture(scope="module")
def program() -> ModuleType:
    return load_module(ROOT / "packaging/rpm/build.py")


@pytest.fixture(scope="module")
def package(program: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package of a script in the place of the program."""
    folder = tmp_path_factory.mktemp("rpm")
    (folder / "file").write_text("#!/bin/sh\n")
    built: Path = program.build(folder / "file", folder)
    return built


def query(package: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["rpm", "--query", "--package", *arguments, package],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def rows(package: Path, *tags: str) -> list[list[str]]:
    """Return one row for each value of a tag that has several."""
    form = "[" + "|".join(f"%{{{tag}}}" for tag in tags) + "\n]"
    return [line.split("|") for line in query(package, "--queryformat", form)]


def test_files_belong_to_root(package: Path) -> None:
    files = rows(package, "FILENAMES", "FILEUSERNAME", "FILEGROUPNAME", "FILEMODES:perms")
    assert {(user, group) for _, user, group, _ in files} == {("root", "root")}
    executable = {name for name, _, _, mode in files if mode[0] != "d" and "x" in mode}
    assert executable == {"/usr/bin/nri-numamem", hook_program.PATH}
    names = {name for name, *_ in files}
    assert {CONFIG, systemd.PACKAGED[0], "/usr/share/man/man8/nri-numamem.8.gz"} < names
    assert "/usr/share/bash-completion/completions/nri-numamem" in names
    assert "/usr/share/zsh/site-functions/_nri-numamem" in names
    assert not {name for name in names if "build-id" in name}


def test_nothing_of_the_laboratory_is_installed(package: Path) -> None:
    names = query(package, "--list")
    assert "/usr/bin/nri-numamem" in names
    assert laboratory_files(names) == []
    assert [name for name in names if name.endswith(".py")] == []


def test_nothing_is_started(package: Path) -> None:
    """No file is in a place from which a runtime or systemd starts it, and no script starts it."""
    names = query(package, "--list")
    assert not {name for name in names if name.startswith("/opt") or ".wants" in name}
    scripts = [line for line in query(package, "--scripts") if "scriptlet" in line]
    assert scripts == [
        "postinstall scriptlet (using /bin/sh):",
        "preuninstall scriptlet (using /bin/sh):",
    ]


def test_kinds_of_files(package: Path) -> None:
    flags = dict(rows(package, "FILENAMES", "FILEFLAGS:fflags"))
    kinds = {name: set(text) for name, text in flags.items() if text}
    assert kinds.pop(CONFIG) == set("cmn"), "not config(noreplace, missingok)"
    assert kinds.pop("/usr/share/licenses/nri-numamem/LICENSE") == {"l"}
    assert kinds.pop("/var/lib/nri-numamem") == kinds.pop("/var/log/nri-numamem") == {"g"}
    assert set().union(*kinds.values()) == {"d"}, "neither config, licence, ghost nor document"


def test_installed_files(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "files"
    with archive.open("wb") as file:
        subprocess.run(["rpm2cpio", package], stdout=file, check=True)
    entries = cpio_files(archive.read_bytes())
    service = entries[f".{systemd.PACKAGED[0]}"].decode()
    assert "\nExecStart=/usr/bin/nri-numamem run\n" in service
    assert entries[f".{CONFIG}"].decode() == example_text()
    assert entries["./usr/bin/nri-numamem"] == b"#!/bin/sh\n"
    license_text = entries["./usr/share/licenses/nri-numamem/LICENSE"]
    assert license_text == (ROOT / "LICENSE").read_bytes()


def cpio_files(archive: bytes) -> dict[str, bytes]:
    """Return the contents by name. Source: cpio(5), new ASCII format."""
    files: dict[str, bytes] = {}
    at = 0
    while True:
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        size, name_size = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + name_size - 1].decode()
        if name == "TRAILER!!!":
            return files
        begin = (at + 110 + name_size + 3) & ~3
        files[name] = archive[begin : begin + size]
        at = (begin + size + 3) & ~3


def test_what_an_old_rpm_must_have(package: Path) -> None:
    """RHEL 8 has rpm 4.14, which does not read zstd, and glibc 2.28."""
    assert query(package, "--queryformat", "%{PAYLOADCOMPRESSOR}\n") == ["xz"]
    needed = ".".join(map(str, OLDEST_GLIBC))  # that of the program, by test_single_file.py
    names = set(query(package, "--requires"))
    features = {name for name in names if name.startswith("rpmlib(")}
    assert names - features == {"/bin/sh", "coreutils", f"libc.so.6(GLIBC_{needed})(64bit)"}
    assert {name.partition("(")[2].partition(")")[0] for name in features} == {
        "CompressedFileNames",
        "FileDigests",
        "PayloadFilesHavePrefix",
        "PayloadIsXz",
    }


def test_the_same_input_gives_the_same_bytes(
    program: ModuleType, package: Path, tmp_path: Path
) -> None:
    again: Path = program.build(package.parent / "file", tmp_path)
    assert again.read_bytes() == package.read_bytes()
    assert query(package, "--queryformat", "%{BUILDTIME} %{BUILDHOST}\n") == [
        f"{distributions.date_s()} nri-numamem.invalid"
    ]


def test_only_a_removal_uninstalls(package: Path) -> None:
    """tests/packaging/test_payload.py runs the script. rpm calls it with 1 in an upgrade."""
    text = "\n".join(query(package, "--queryformat", "%{PREUN}\n"))
    assert text.strip() == payload.removal_script("0").strip()


@pytest.mark.parametrize(
    ("text", "launched", "is_service", "stays"),
    [
        ("# a: 1\n\n", "10-nri-numamem.conf", False, False),
        ("# a: 1\n", "nri-numamem.conf", False, False),
        ("# a: 1\nb: 2\n", "10-nri-numamem.conf", False, True),
        ("# a: 1\n", "10-nri-numamem.conf", True, True),
        ("# a: 1\n", "10-other.conf", False, True),
        (None, "10-nri-numamem.conf", False, False),
    ],
)
def test_a_default_configuration_hides_no_other(
    tmp_path: Path, *, text: str | None, launched: str, is_service: bool, stays: bool
) -> None:
    etc = tmp_path / "etc"
    config = etc / "nri-numamem/config.yaml"
    links = etc / "systemd/system/multi-user.target.wants"
    for folder in (config.parent, etc / "nri/conf.d", links):
        folder.mkdir(parents=True)
    if text is not None:
        config.write_text(text)
    (etc / "nri/conf.d" / launched).touch()
    if is_service:
        (links / "nri-numamem.service").symlink_to("/missing")
    script = (ROOT / "packaging/rpm/post").read_text().replace("/etc/", f"{etc}/")
    done = subprocess.run(["sh", "-c", script, "sh", "1"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert config.exists() is stays


def test_name_and_documents(package: Path) -> None:
    assert re.fullmatch(r"nri-numamem-\d[\d.~a-z]*-1\.\w+\.rpm", package.name)
    form = "%{NAME} %{VERSION}-%{RELEASE} %{SUMMARY}\n"
    version = payload.upstream_version(VERSION)
    assert query(package, "--queryformat", form) == [f"nri-numamem {version}-1 {payload.SUMMARY}"]
    assert query(package, "--queryformat", "%{DESCRIPTION}\n") == payload.DESCRIPTION.splitlines()
    assert "/usr/share/doc/nri-numamem/changelog.gz" in query(package, "--docfiles")
    changelog = query(package, "--changelog")
    assert changelog[0].endswith(f" {payload.MAINTAINER} - {version}-1")
