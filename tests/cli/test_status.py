"""`status` as a command: exit status, --watch, errors."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli import status
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.main import main
from nri_numamem.observe.files import lock_file_of
from tests.cli.live.live_host import GI, LiveHost, four_nodes


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "postgres", 40 * GI)
    host.save()
    return host


class Sleeps:
    """Lets --watch show the status a number of times, then presses Ctrl-C."""

    def __init__(self, most: int) -> None:
        self.remaining = most

    def __call__(self, seconds: float) -> None:
        assert seconds == 2.0
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt


def test_exit_status(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", *host.arguments()]) == 1
    with host.running():
        assert main(["status", *host.arguments()]) == 0
        host.state_file.write_text("x")
        assert main(["status", *host.arguments()]) == 1
    assert "postgres" in capsys.readouterr().out


def test_a_mounted_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.state_file = tmp_path / "var/lib/nri-numamem/nri_numamem_state"
    host.state_file.parent.mkdir(parents=True)
    host.run("db", "postgres", 40 * GI)
    host.save()
    (tmp_path / "sys/fs").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup").symlink_to("/" / host.cgroups.relative_to(tmp_path))
    config = tmp_path / "etc/nri-numamem/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("kubeletConfigFile: /kubelet.json\n")
    kubelet = {"kind": "KubeletConfiguration", "topologyManagerPolicy": "restricted"}
    (tmp_path / "kubelet.json").write_text(json.dumps(kubelet))
    with host.running():
        assert main(["status", "--root", str(tmp_path), "--output", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["policy"]["topologyManagerPolicy"] == "restricted"
    assert document["state"]["path"] == str(host.state_file)
    (container,) = document["containers"]
    assert (container["podUid"], container["condition"], container["nodes"]) == (
        "db",
        "running",
        [0],
    )
    assert document["problems"] == []


def test_a_missing_permission_is_one_line(
    host: LiveHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(live, "find_holder", refuse)
    assert main(["status", *host.arguments()]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    lock = lock_file_of(host.state_file)
    assert error == f"nri-numamem: {lock}: Permission denied; run as root\n"


@pytest.mark.parametrize(("output", "separator"), [("table", "\n\n"), ("yaml", "\n---\n")])
def test_watch_prints_each_time(
    host: LiveHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    separator: str,
) -> None:
    monkeypatch.setattr("time.sleep", Sleeps(2))
    assert main(["status", "--watch", "--output", output, *host.arguments()]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    first = "nri-numamem " if output == "table" else "version: 1"
    assert shown.count(f"{separator}{first}") == 1


def test_watch_redraws_a_terminal(
    host: LiveHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", Sleeps(3))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["status", "--watch", *host.arguments()]) == 0
    assert capsys.readouterr().out.count("\x1b[H\x1b[2J") == 3


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "--help"])
    shown = capsys.readouterr().out
    assert all(example in shown for example in status.EXAMPLES)
