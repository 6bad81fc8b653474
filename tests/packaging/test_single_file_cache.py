"""The cache of packaging/single_file: what is built once, and what is downloaded."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from single_file import cached, debian, interpreter, openssl
from single_file.commands import BuildError


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache with a root and downloads, and without an interpreter."""
    downloads = tmp_path / "downloads"
    write(downloads, "python3.13_3.13.5-1.dsc", "openssl_3.5.7-1.dsc", "protobuf-7.0.tar.gz")
    (downloads / "requirements.txt").write_bytes(interpreter.REQUIREMENTS.read_bytes())
    write(tmp_path, "root/var/lib/dpkg/status")
    return tmp_path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what is built from now on; nothing runs."""
    names: list[str] = []

    def run_in_root(_root: Path, _build: Path, *command: str) -> str:
        names.append(command[2].removeprefix("/build/"))
        return "printed"

    monkeypatch.setattr(cached, "run_in_root", run_in_root)
    return names


def build(cache: Path, built: list[str], *kinds: str) -> tuple[str, int]:
    """Return the name of the interpreter, and how many were built for it."""
    built.clear()
    with interpreter.locked(cache):
        found = interpreter.ensure(cache, kinds=kinds, jobs=1, refresh=False)
    assert (found.folder / "log").read_text() == "printed"
    assert built in ([], [found.name])
    return found.name, len(built)


def test_an_interpreter_is_built_once_for_its_inputs(cache: Path, built: list[str]) -> None:
    first, count = build(cache, built, "plain")
    assert count == 1
    assert build(cache, built, "plain") == (first, 0)
    assert build(cache, built, "optimized", "plain") == (first, 0)
    other, count = build(cache, built, "optimized")
    assert (other != first, count) == (True, 1)
    assert build(cache, built, "optimized", "plain") == (other, 0)
    status = cache / "root/var/lib/dpkg/status"
    status.write_text("Package: gcc\nVersion: 10\n")
    newer, count = build(cache, built, "optimized", "plain")
    assert (newer != first, count) == (True, 1)
    (cache / "downloads/python3.13_3.13.5-1.dsc").write_text("of another version")
    assert build(cache, built, "plain")[0] != newer


def test_downloads_of_other_requirements_are_fetched_again(
    cache: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(folder: Path, package: str) -> None:
        write(folder, f"{package}_1.dsc", "protobuf-1.tar.gz")

    monkeypatch.setattr(debian, "fetch_source", fetch)
    monkeypatch.setattr(interpreter, "run", lambda *_: "")
    (cache / "downloads/requirements.txt").write_text("another")
    build(cache, built, "plain")
    assert (cache / "downloads/python3.13_1.dsc").exists()


def test_openssl_is_built_once_for_its_own_inputs(cache: Path, built: list[str]) -> None:
    first = openssl.ensure(cache, jobs=1)
    assert (first.version, first.is_built, built) == ("3.5.7-1", True, [first.name])
    (cache / "downloads/python3.13_3.13.5-1.dsc").write_text("of another version")
    assert openssl.ensure(cache, jobs=1) == openssl.of(cache) == first
    assert built == [first.name]
    for changed in ("downloads/openssl_3.5.7-1.dsc", "root/var/lib/dpkg/status"):
        (cache / changed).write_text("Package: other\n")
        built.clear()
        assert openssl.ensure(cache, jobs=1) != first
        assert len(built) == 1


def test_openssl_leaves_the_interpreter_in_the_cache(cache: Path, built: list[str]) -> None:
    first, _ = build(cache, built, "plain")
    (cache / "downloads/openssl_3.5.7-1.dsc").write_text("of another version")
    openssl.ensure(cache, jobs=1)
    assert build(cache, built, "plain") == (first, 0)


def test_an_interrupted_build_is_removed(cache: Path, built: list[str]) -> None:
    (cache / "openssl-0").mkdir()
    (cache / "interpreter-0").mkdir()
    found = openssl.ensure(cache, jobs=1)
    assert built == [found.name]
    assert not (cache / "openssl-0").exists()
    assert (cache / "interpreter-0").exists()


def test_a_missing_source_of_openssl_is_added_to_the_downloads(
    cache: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(folder: Path, package: str) -> None:
        write(folder, f"{package}_4.0-1.dsc", f"{package}_4.0.orig.tar.gz")

    monkeypatch.setattr(debian, "fetch_source", fetch)
    (cache / "downloads/openssl_3.5.7-1.dsc").unlink()
    before = {file.name for file in (cache / "downloads").iterdir()}
    assert openssl.ensure(cache, jobs=1).version == "4.0-1"
    after = {file.name for file in (cache / "downloads").iterdir()}
    assert after == before | {"openssl_4.0-1.dsc", "openssl_4.0.orig.tar.gz"}
    assert len(built) == 1
    assert not (cache / "openssl.partial").exists()


class Mirror:
    """A mirror whose lists have versions of a package, and whose files only some of them."""

    def __init__(self, versions: Sequence[str], complete: Sequence[str]) -> None:
        self.versions, self.complete = versions, complete

    def run(self, *command: str | Path, cwd: Path | None = None) -> str:
        words = [str(word) for word in command]
        if words[0] == "apt-cache":
            return "".join(f"Package: {words[-1]}\nVersion: {one}\n" for one in self.versions)
        if words[0] == "sh":
            return "\n".join(sorted(words[4:], reverse=True))
        assert cwd is not None
        package, version = words[-1].split("=")
        write(cwd, f"{package}.orig.tar.gz")
        if version not in self.complete:
            raise BuildError(f"{version}: 404 Not Found")
        write(cwd, f"{package}_{version}.dsc")
        return ""


def fetch(mirror: Mirror, folder: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the files of a source package."""
    monkeypatch.setattr(debian, "run", mirror.run)
    monkeypatch.setattr(debian, "private_apt", lambda *_: ("apt-get", "-q"))
    debian.fetch_source(folder, "openssl")
    return {path.name for path in folder.iterdir()}


def test_the_newest_version_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(("1-1", "1-3", "1-2"), complete=("1-1", "1-2", "1-3"))
    found = fetch(mirror, tmp_path, monkeypatch)
    assert found == {"openssl_1-3.dsc", "openssl.orig.tar.gz"}


def test_a_version_without_files_is_named_and_the_next_one_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fetch(Mirror(("1-1", "1-2", "1-3"), complete=("1-2",)), tmp_path, monkeypatch)
    assert found == {"openssl_1-2.dsc", "openssl.orig.tar.gz"}
    assert capsys.readouterr().err == ("single file: the mirror lacks openssl 1-3; trying 1-2\n")


def test_a_package_that_cannot_be_downloaded_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BuildError, match=r"^1-1: 404 Not Found$"):
        fetch(Mirror(("1-1", "1-2"), complete=()), tmp_path, monkeypatch)
    with pytest.raises(BuildError, match="Debian trixie has no source package openssl"):
        fetch(Mirror((), complete=()), tmp_path / "empty", monkeypatch)


def test_the_newest_version_is_read_from_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "run", Mirror(("1-1", "1-3", "1-2"), complete=()).run)
    monkeypatch.setattr(debian, "private_apt", lambda *_: ("apt-get", "-q"))
    assert debian.newest_versions(["openssl"]) == {"openssl": "1-3"}


def test_versions_are_sorted_as_debian_sorts_them() -> None:
    found = debian.newest_first({"3.5.1-1", "3.5.10-1~deb13u1", "3.5.7-1~deb13u2", "3.5.7-1"})
    assert found == ["3.5.10-1~deb13u1", "3.5.7-1", "3.5.7-1~deb13u2", "3.5.1-1"]
