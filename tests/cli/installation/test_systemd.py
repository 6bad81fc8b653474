"""systemctl, with a program in its place."""

import stat
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import systemd


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file in which a systemctl notes its arguments; it fails at "bad"."""
    script = tmp_path / "systemctl"
    log = tmp_path / "calls"
    script.write_text(
        f'#!/bin/sh\necho "$@" >>{log}\n'
        'case "$*" in *bad*) echo "first line" >&2; echo second >&2; exit 4;; '
        "*quiet*) exit 3;; esac\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return log


def test_arguments_and_errors(calls: Path) -> None:
    systemd.run(("start", "x"))
    assert calls.read_text() == "start x\n"
    with pytest.raises(OSError, match=r"first line$"):
        systemd.run(("bad",))
    with pytest.raises(OSError, match=r"exit status 3$"):
        systemd.run(("quiet",))


def test_a_systemctl_that_hangs(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "_TIMEOUT_S", 0.0)
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        systemd.run(("start", "x"))


def test_only_this_host_has_a_systemd(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    assert systemd.is_running(Host())
    assert not systemd.is_running(Host(tmp_path))
    assert not systemd.is_active(Host())
    assert not systemd.is_active(Host(tmp_path))
    assert calls.read_text() == "is-active --quiet nri-numamem.service\n"
    assert not systemd.is_active(Host(), "other.service")
    assert calls.read_text().endswith("is-active --quiet other.service\n")
    monkeypatch.setattr(systemd, "run", lambda _arguments: None)
    assert systemd.is_active(Host())
    monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")
    assert not systemd.is_running(Host())
