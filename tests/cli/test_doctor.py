"""All checks together: a good host, an empty one, files that cannot be read."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from nri_numamem.cli.main import main
from tests.cli.doctor.host_files import CONTAINERD, KUBELET, PLUGINS, STATE, HostFiles


def test_a_good_host(good_host: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = {name: finding.verdict for name, finding in good_host.findings().items()}
    assert verdicts == dict.fromkeys(
        [
            "nri",
            "hugepage_limits",
            "plugin_directory",
            "instances",
            "instance",
            "state_file",
            "configuration",
            "kubelet_memory_manager",
            "cgroups",
            "numa",
        ],
        Verdict.OK,
    )
    assert main(["doctor", "--root", str(good_host.root)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Checks of this host: 10 ok ")
    assert "pid 7, since today, launched" in " ".join(shown.split())
    assert "NUMA nodes 0-1, 16Gi" in shown


def test_an_empty_host(tmp_path: Path) -> None:
    found = HostFiles.findings(_EmptyHost(tmp_path))
    assert found["runtime"].text.startswith("neither /etc/containerd/config.toml nor ")
    assert found["nri"].verdict is Verdict.UNKNOWN
    assert found["configuration"].text.endswith("exists: all defaults")
    assert found["instance"].verdict is Verdict.FAIL
    assert found["numa"].verdict is Verdict.FAIL


class _EmptyHost(HostFiles):
    def __init__(self, root: Path) -> None:
        self.root = root


def test_what_cannot_be_read_is_unknown(good_host: HostFiles) -> None:
    for name in (CONTAINERD, KUBELET, "proc/net/unix", "sys/fs/cgroup/cgroup.controllers", STATE):
        good_host.path(name).unlink()
        good_host.path(name).mkdir()
    found = good_host.findings()
    for check in ("runtime", "kubelet", "cgroups", "state_file"):
        assert found[check].verdict is Verdict.UNKNOWN
        assert "Is a directory" in found[check].text


def test_control_characters_are_escaped(
    good_host: HostFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    good_host.write(f"{PLUGINS}/\x1b[2J", "")
    good_host.path(f"{PLUGINS}/\x1b[2J").chmod(0o755)
    assert main(["doctor", "--root", str(good_host.root)]) == 2
    shown = capsys.readouterr().out
    assert "\\u001b[2J" in shown
    assert shown.replace("\n", "").isprintable()


def test_other_files_than_the_default_ones(
    good_host: HostFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    """The paths are on the host, and the state file counts beside a wrong configuration."""
    good_host.write("data/config.yaml", "topologyManagerScop: pod\n")
    arguments = ["doctor", "--root", str(good_host.root), "--config", "/data/config.yaml"]
    assert main([*arguments, "--state-file", "/data/state", "--output", "json"]) == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = {finding["check"]: finding for finding in findings}
    assert "data/config.yaml:1: topologyManagerScop: unknown key" in found["configuration"]["text"]
    assert "no instance holds /data/state.lock" in found["instance"]["text"]
    assert found["kubelet_memory_manager"]["verdict"] == "ok"


def test_a_relative_state_file_is_one_of_this_process(
    good_host: HostFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good_host.path("data").mkdir()
    monkeypatch.chdir("/")
    arguments = ["doctor", "--root", str(good_host.root), "--state-file", "data/state"]
    main([*arguments, "--output", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = {finding["check"]: finding for finding in findings}
    assert "no instance holds /data/state.lock" in found["instance"]["text"]


def test_what_fails_comes_first(good_host: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
    good_host.path("sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    good_host.write(STATE, "{")
    good_host.path(KUBELET).unlink()
    good_host.path(KUBELET).mkdir()
    main(["doctor", "--root", str(good_host.root), "--output", "json"])
    found = [each["verdict"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert found[:3] == ["fail", "warn", "unknown"]
    assert set(found[3:]) == {"ok"}
