"""The tracked files of a repository."""

import os
from pathlib import Path

import pytest
from release import sources
from release.errors import ReleaseError

from tests.packaging.release_builds import run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "folder").mkdir(parents=True)
    (root / "folder/program").write_text("#!/bin/sh\n")
    (root / "folder/program").chmod(0o775)
    (root / "text").write_text("text\n")
    (root / "text").chmod(0o664)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    return root


def git(root: Path, *arguments: str) -> None:
    person = ("-c", "user.name=test", "-c", "user.email=test@test.invalid")
    done = run("git", "-C", root, *person, *arguments)
    assert done.returncode == 0, done.stderr


def test_only_tracked_files_that_exist_are_sources(repository: Path) -> None:
    (repository / "more").touch()
    assert sources.tracked(repository) == ["folder/program", "text"]
    (repository / "text").unlink()
    assert sources.tracked(repository) == ["folder/program"]


def test_changes_are_found(repository: Path) -> None:
    assert sources.changed(repository) == []
    (repository / "more").touch()
    (repository / "text").write_text("other\n")
    assert sorted(sources.changed(repository)) == ["more", "text"]


def test_the_newest_file_counts(repository: Path) -> None:
    for name in sources.tracked(repository):
        os.utime(repository / name, (1000, 1000))
    os.utime(repository / "text", (2000, 2000))
    (repository / "more").touch()
    assert sources.newest_s(repository) == 2000


def test_copies_have_fixed_modes(repository: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    sources.copy(target, repository)
    modes = {path.name: path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()}
    assert modes == {"program": 0o755, "text": 0o644}


def test_a_folder_is_copied_with_the_files_of_its_links(repository: Path, tmp_path: Path) -> None:
    (repository / "folder/link").symlink_to("../text")
    git(repository, "add", ".")
    sources.copy(tmp_path / "copy", repository, "folder/")
    copied = {path.name: path for path in (tmp_path / "copy").rglob("*") if not path.is_dir()}
    assert copied.keys() == {"program", "link"}
    assert not copied["link"].is_symlink()
    assert copied["link"].read_text() == "text\n"


def test_another_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReleaseError, match="not a clone of the repository"):
        sources.tracked(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReleaseError, match="git is not installed"):
        sources.tracked(tmp_path)
