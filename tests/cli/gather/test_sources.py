"""The sources of an archive for a bug report, each with what goes wrong."""

from pathlib import Path

import pytest

from nri_numamem.cli.gather import sources
from nri_numamem.cli.gather.sources import host_files, journal, log_file, output_of, versions
from nri_numamem.version import VERSION


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_of_the_host(tmp_path: Path) -> None:
    pools = "sys/devices/system/node/node0/hugepages/hugepages-2048kB"
    names = (
        "etc/nri-numamem/config.yaml",
        "etc/nri/conf.d/10-nri-numamem.conf",
        "var/lib/nri-numamem/memory_manager_state",
        "var/lib/nri-numamem/history-0.log",
        "sys/devices/system/node/node0/meminfo",
        f"{pools}/nr_hugepages",
    )
    for name in (*names, "etc/nri/conf.d/10-other.conf", f"{pools}/demote"):
        write(tmp_path, name, name)
    (tmp_path / "var/lib/nri-numamem/link").symlink_to("/etc/shadow")
    found = {i.name: i for i in host_files(tmp_path, tmp_path / "var/lib/nri-numamem")}
    assert sorted(found) == sorted(f"files/{name}" for name in names)
    for name in names:
        item = found[f"files/{name}"]
        assert (item.content.decode(), item.problem) == (name, "")


def test_missing_settings_are_a_remark(tmp_path: Path) -> None:
    (item,) = host_files(tmp_path, tmp_path / "state")
    assert (item.name, item.problem) == ("files/etc/nri-numamem/config.yaml", "does not exist")
    assert not item.is_included


def test_a_file_that_cannot_be_read_is_a_remark(tmp_path: Path) -> None:
    (tmp_path / "etc/nri-numamem/config.yaml").mkdir(parents=True)
    (item,) = host_files(tmp_path, tmp_path / "state")
    assert item.problem == "Is a directory"


def test_a_large_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FILE_LIMIT_BYTES", 10)
    write(tmp_path, "etc/nri-numamem/config.yaml", "0123456789ab")
    (item,) = host_files(tmp_path, tmp_path / "state")
    assert (item.content, item.problem) == (b"0123456789", "only the first 10 bytes")
    assert item.is_included


def test_of_a_log_the_end_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LOG_LIMIT_BYTES", 10)
    item = log_file(tmp_path, write(tmp_path, "log", "0123456789ab"))
    assert (item.content, item.problem) == (b"23456789ab", "")


def fake_journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = write(tmp_path, "journalctl", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_journalctl(tmp_path, monkeypatch, 'echo "$@"')
    item = journal()
    assert item.content.startswith(b"-t nri-numamem -n 5000 ")
    assert not item.problem


def test_the_journal_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_journalctl(tmp_path, monkeypatch, "echo no access >&2; exit 1")
    assert journal().problem == "no access"


def test_the_journal_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_JOURNAL_WAIT_S", 0.2)
    fake_journalctl(tmp_path, monkeypatch, "exec sleep 20")
    assert "timed out" in journal().problem


def test_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert journal().problem == "journalctl is not installed"


def test_versions() -> None:
    lines = versions().content.decode().splitlines()
    assert lines[0] == f"nri-numamem {VERSION}"
    assert any(line.startswith("protobuf ") for line in lines)
    assert lines[-1].startswith("Linux ")


def test_output_and_errors_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    def run(arguments: list[str]) -> int:
        print(arguments)
        raise RuntimeError("a bug")

    item = output_of("x.txt", run, ["inspect"])
    text = item.content.decode()
    assert text.startswith("['inspect']\nTraceback ")
    assert text.endswith("RuntimeError: a bug\n")
    assert item.description == "output of nri-numamem inspect"
    assert capsys.readouterr().out == ""
