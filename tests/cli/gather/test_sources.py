"""The sources of an archive for a bug report, each with what goes wrong."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from nri_numamem.cli.gather import sources
from nri_numamem.cli.gather.sources import (
    Item,
    journal,
    kernel_files,
    log_files,
    output_of,
    settings_files,
    state_files,
    versions,
)
from nri_numamem.observe.files import lock_file_of
from nri_numamem.version import VERSION

STATE = Path("/var/lib/nri-numamem/nri_numamem_state")


def write(root: Path, name: str, text: str) -> Path:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def by_name(items: Iterable[Item]) -> dict[str, Item]:
    return {item.name.removeprefix("files"): item for item in items}


def test_settings(tmp_path: Path) -> None:
    names = ("/etc/nri-numamem/config.yaml", "/etc/nri/conf.d/10-nri-numamem.conf")
    for name in (*names, "/etc/nri/conf.d/10-other.conf"):
        write(tmp_path, name, name)
    found = by_name(settings_files(tmp_path))
    assert {name: (item.content.decode(), item.problem) for name, item in found.items()} == {
        name: (name, "") for name in names
    }


@pytest.mark.parametrize(("prefix", "state"), [("", STATE), ("a.", Path("/var/lib/kubelet/a"))])
def test_of_the_state_directory_what_the_plugin_writes(
    tmp_path: Path, prefix: str, state: Path
) -> None:
    own = [state.name, lock_file_of(state).name, f"{prefix}plugin.json"]
    own += [f"{prefix}history-{number}.log" for number in (0, 1)]
    own += [f"{state.name}.corrupt-{number}" for number in range(1, 6)]
    own += [f"{state.name}.version-3", f"{prefix}history-0.log.corrupt"]
    others = ["kubeconfig", f"{state.name}.corrupt-x", f"x{state.name}", "b.plugin.json"]
    others += [f".{state.name}.new", f"{state.name}\n"]
    for name in (*own, *others):
        write(tmp_path, f"{state.parent}/{name}", f"text of {name}")
    (tmp_path / str(state.parent)[1:] / "pki").mkdir()
    found = by_name(state_files(tmp_path, state))
    left_out = found.pop(str(state.parent))
    assert list(found)[: len(own[:5])] == [f"{state.parent}/{name}" for name in own[:5]]
    assert {name: item.content.decode() for name, item in found.items()} == {
        f"{state.parent}/{name}": f"text of {name}" for name in own
    }
    text, _, listed = left_out.problem.partition(": ")
    assert text == "left out, not written by the plugin"
    assert set(listed.split(", ")) == {*others[:-1], f"{state.name}\\n", "pki"}


def test_of_many_other_files_some_are_named(tmp_path: Path) -> None:
    for number in range(25):
        write(tmp_path, f"{STATE.parent}/{number:02}", "")
    (item,) = state_files(tmp_path, STATE)
    assert item.problem.endswith(": 00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 15 more")
    assert not item.is_included


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    secret = write(tmp_path, "/secret", "token")
    log = Path("/var/log/numamem.log")
    for name in ("/etc/nri-numamem/config.yaml", str(STATE), f"{STATE}.corrupt-1", str(log)):
        path = tmp_path / name[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(secret)
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.mkdir()
    items = [*settings_files(tmp_path), *state_files(tmp_path, STATE), *log_files(tmp_path, log)]
    problems = {
        "link": "left out: a symbolic link",
        "fifo": "left out: not a regular file",
        "directory": "Is a directory",
    }
    assert {(item.content, item.problem) for item in items} == {(b"", problems[kind])}
    assert len(items) == 4


def test_directories_are_found_below_the_root(tmp_path: Path) -> None:
    """A link leads to the same place as after chroot(2)."""
    root = tmp_path / "root"
    write(tmp_path, str(STATE), "of this machine")
    write(root, f"/data/{STATE.name}", "of the host")
    (root / "var").mkdir()
    (root / "var/lib").symlink_to(f"{tmp_path}/../../../../../../../srv")
    (root / "srv").mkdir()
    (root / "srv/nri-numamem").symlink_to("/data")
    (item,) = state_files(root, STATE)
    assert (item.name, item.content) == (f"files{STATE}", b"of the host")


def test_a_directory_that_others_can_replace(tmp_path: Path) -> None:
    write(tmp_path, f"/data/{STATE.name}", "text")
    write(tmp_path, "/data/numamem.log", "text")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp/link").symlink_to("/data")
    (item,) = state_files(tmp_path, Path("/tmp/link") / STATE.name)
    assert "a symbolic link in a directory that other users can write" in item.problem
    item, *_ = log_files(tmp_path, Path("/tmp/link/numamem.log"))
    assert "a symbolic link in a directory that other users can write" in item.problem


def test_a_directory_that_becomes_a_link_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, f"/secret/{STATE.name}", "token")
    (tmp_path / "state").symlink_to("secret")
    monkeypatch.setattr(sources, "resolved", lambda root, path: root / str(path).lstrip("/"))
    (item,) = state_files(tmp_path, Path("/state") / STATE.name)
    assert (item.content, item.problem) == (b"", "Not a directory")


def test_missing_files_are_remarks(tmp_path: Path) -> None:
    (item,) = settings_files(tmp_path)
    assert (item.name, item.problem) == ("files/etc/nri-numamem/config.yaml", "does not exist")
    assert not item.is_included
    assert list(state_files(tmp_path, STATE)) == []
    (item,) = log_files(tmp_path, Path("/var/log/x"))
    assert item.problem == "does not exist"


def test_a_large_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FILE_LIMIT_BYTES", 10)
    write(tmp_path, "etc/nri-numamem/config.yaml", "0123456789ab")
    (item,) = settings_files(tmp_path)
    assert (item.content, item.problem) == (b"0123456789", "only the first 10 bytes")
    assert item.is_included


def test_of_a_log_and_its_rotations_the_end_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LOG_LIMIT_BYTES", 10)
    write(tmp_path, "log", "0123456789ab")
    write(tmp_path, "log.2", "older")
    write(tmp_path, "log.9", "of another program")
    first, second = log_files(tmp_path, Path("/log"))
    assert (first.content, first.problem) == (b"23456789ab", "only the last 10 bytes")
    assert (second.name, second.content, second.problem) == ("files/log.2", b"older", "")


def test_the_kernels_files(tmp_path: Path) -> None:
    pools = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB"
    names = ("/sys/devices/system/node/node0/meminfo", f"{pools}/nr_hugepages")
    for name in (*names, f"{pools}/demote"):
        write(tmp_path, name, name)
    command_line = (
        "root=/dev/sda rd.iscsi.password=secret hugepages=4 numa_balancing=0 memory_x.y=1"
    )
    write(tmp_path, "/proc/cmdline", f"{command_line}\n")
    found = by_name(kernel_files(tmp_path))
    assert found["/proc/cmdline"].content == b"hugepages=4 numa_balancing=0 memory_x.y=1\n"
    assert found["/proc/cmdline"].problem == "only words about memory, CPUs and cgroups"
    assert {name for name, item in found.items() if item.is_included} == {*names, "/proc/cmdline"}


def fake_journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = write(tmp_path, "journalctl", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


def test_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_journalctl(tmp_path, monkeypatch, 'echo "$@"')
    item = journal(is_this_host=True)
    assert item.content.startswith(b"-t nri-numamem -n 5000 ")
    assert not item.problem


def test_the_journal_of_this_host_is_not_that_of_another_root() -> None:
    item = journal(is_this_host=False)
    assert item.problem == "left out: it is not below another root directory"


def test_of_a_large_journal_the_end_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LOG_LIMIT_BYTES", 1000)
    fake_journalctl(tmp_path, monkeypatch, "seq 100000")
    item = journal(is_this_host=True)
    assert len(item.content) == 1000
    assert item.content.endswith(b"99999\n100000\n")


def test_the_journal_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_journalctl(tmp_path, monkeypatch, "echo no access >&2; exit 1")
    item = journal(is_this_host=True)
    assert item.problem == "journalctl ended with exit status 1"
    assert item.content == b"no access\n"


def test_the_journal_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_JOURNAL_WAIT_S", 0.2)
    fake_journalctl(tmp_path, monkeypatch, "exec sleep 20")
    assert journal(is_this_host=True).problem == "timed out after 0.2 s"


def test_a_journalctl_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = write(tmp_path, "journalctl", "#!/none\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "No such file" in journal(is_this_host=True).problem


def test_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert journal(is_this_host=True).problem == "journalctl is not installed"


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
