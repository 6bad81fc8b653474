"""Files of a host below a root."""

import os
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host, UnreadableError, at


def test_absolute_paths_are_below_the_root(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.path("/etc/x") == tmp_path / "etc/x"
    (tmp_path / "x").write_bytes(b"a\xffb")
    assert host.read("/x") == "a\N{REPLACEMENT CHARACTER}b"


def test_links_are_resolved_below_the_root(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "link").symlink_to("/target")
    (tmp_path / "directory").symlink_to("/")
    assert host.path("/directory/link") == tmp_path / "target"
    assert host.entry("/directory/link") == tmp_path / "link"
    assert host.entry("/link") == tmp_path / "link"


def test_this_host(tmp_path: Path) -> None:
    """The link /proc/self/root leads to the root directory, whatever its text."""
    assert Host().is_this_host
    assert Host(Path("/proc/self/root")).is_this_host
    assert not Host(tmp_path).is_this_host
    assert not Host(tmp_path / "none").is_this_host


def test_missing_files(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.read("/none") is None
    assert host.toml("/none/none") is None
    assert host.names("/none") == []


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[")
    host = Host(tmp_path)
    with pytest.raises(UnreadableError, match=r"^/: Is a directory$"):
        host.read("/")
    with pytest.raises(UnreadableError, match=r"^/bad\.toml: "):
        host.toml("/bad.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 50_000)
    with pytest.raises(UnreadableError, match=r"^/deep\.toml: "):
        host.toml("/deep.toml")


def test_a_directory_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(UnreadableError, match=r"^/opt: Permission denied$"):
        Host(tmp_path).names("/opt")


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert Host(tmp_path).read("/fifo") == ""


def test_nested_keys() -> None:
    assert at({"a": {"b": 1}}, "a", "b") == 1
    assert at({"a": 1}, "a", "b") is at(None, "a") is None
