"""The unit for a program, units that an administrator changed, and a systemctl in its place."""

import stat
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import systemd

SOURCE = Path(__file__).resolve().parents[3] / "systemd/nri-numamem.service"


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


def test_the_reason_of_a_service_that_does_not_start(calls: Path) -> None:
    journalctl = calls.with_name("journalctl")
    line = "nri-numamem: config.yaml:1: unknown key x"
    journalctl.write_text(f'#!/bin/sh\necho "$@" >>{calls}\necho "{line}"\n')
    journalctl.chmod(journalctl.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(OSError, match=rf"{line}$"):
        systemd.run(("restart", "bad.service"))
    assert "-u bad.service -t nri-numamem -n 1 -o cat" in calls.read_text()
    with pytest.raises(OSError, match=r"first line$"):
        systemd.run(("stop", "bad.service"))
    journalctl.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(OSError, match=r"first line$"):
        systemd.run(("start", "bad.service"))
    journalctl.write_text("#!/none\n")
    with pytest.raises(OSError, match=r"first line$"):
        systemd.run(("start", "bad.service"))


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


def test_only_the_start_differs_from_the_source() -> None:
    text = systemd.unit_for("/usr/bin/nri-numamem")
    source, made = SOURCE.read_text().splitlines(), text.splitlines()
    assert made[:1] == [
        "# Written by nri-numamem install; change it with: systemctl edit nri-numamem"
    ]
    differing = [line for line in made[2:] if line not in source]
    assert differing == ["ExecStart=/usr/bin/nri-numamem run"]
    assert len(made) == len(source) + 2


def test_a_socket() -> None:
    assert "\nExecStart=/p run --socket /run/x.sock\n" in systemd.unit_for("/p", "/run/x.sock")


@pytest.mark.parametrize("socket", [None, "/s"])
def test_an_unchanged_unit(socket: str | None) -> None:
    text = systemd.unit_for("/p", socket)
    assert systemd.is_own(text)
    assert not systemd.is_own(text.replace("Nice=-5", "Nice=0"))
    assert not systemd.is_own("[Unit]\n")


def test_a_copy_of_the_source() -> None:
    assert systemd.is_own(SOURCE.read_text())
    assert not systemd.is_own(SOURCE.read_text().replace("Nice=-5", "Nice=0"))
    assert not systemd.is_own(None)
