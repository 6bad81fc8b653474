"""`export` as a command: the object on standard output, lines on standard error, exit status."""

import json
import os
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from tests.cli.export.export_host import ExportHost
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import WAIT_S, SimulatedHost, wait_for


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> ExportHost:
    host = ExportHost(tmp_path)
    host.run_pod("a")
    host.save()
    return host


def test_both_formats_have_the_same_object(
    host: ExportHost, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--dry-run", "--node-name", "worker-1", *host.arguments()]
    with host.running():
        assert main(arguments) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert main([*arguments, "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert yaml.safe_load(shown.out) == document
        assert main(arguments) == 0
        assert capsys.readouterr().out == shown.out
    assert document["metadata"]["name"] == "worker-1"
    assert [zone["name"] for zone in document["zones"]] == [f"node-{node}" for node in range(4)]
    available = [zone["resources"][0]["available"] for zone in document["zones"]]
    assert available == ["500m", "1", "1", "1"]


def test_the_name_of_the_environment(
    host: ExportHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-8")
    assert main(["export", "--dry-run", *host.arguments()]) == 0
    assert "name: worker-8\n" in capsys.readouterr().out
    assert main(["export", "--dry-run", "--node-name", "w", *host.arguments()]) == 0
    assert "name: w\n" in capsys.readouterr().out


def test_the_default_name_is_the_kubelets(
    host: ExportHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uname = os.uname()
    named = os.uname_result((uname.sysname, "Worker-7.Example", *uname[2:]))
    monkeypatch.setattr("os.uname", lambda: named)
    assert main(["export", "--dry-run", *host.arguments()]) == 0
    assert "name: worker-7.example\n" in capsys.readouterr().out


def test_missing_inputs_are_lines(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    (host.kubelet / "config.yaml").unlink()
    assert main(["export", "--dry-run", "--node-name", "w", *host.arguments()]) == 0
    lines = capsys.readouterr().err.splitlines()
    starts = ["nri-numamem: no plugin runs: ", "nri-numamem: no reserved CPUs: "]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


def test_without_a_state_there_is_no_object(
    host: ExportHost, capsys: pytest.CaptureFixture[str]
) -> None:
    host.state_file.unlink()
    assert main(["export", "--dry-run", "--node-name", "w", *host.arguments()]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"nri-numamem: {host.state_file} does not exist; start the plugin")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            [],
            (
                "no API server: this is not a pod, and /etc/nri-numamem/kubeconfig does not exist; "
                "name a kubeconfig with --kubeconfig, or print the object with --dry-run"
            ),
        ),
        (
            ["--dry-run", "--node-name", "Worker_1"],
            (
                "--node-name: 'Worker_1' is not a valid Node name; give the name that "
                "`kubectl get nodes` shows"
            ),
        ),
        (
            ["--dry-run", "--node-name", "w", "--reserved-cpus", "x"],
            (
                "--reserved-cpus: 'x' is not a list of CPUs such as 0-1,3; give a list such as "
                "0-1,64-65"
            ),
        ),
    ],
)
def test_wrong_command_lines(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *arguments]) == 2
    assert capsys.readouterr().err == f"nri-numamem: {line}\n"


def test_reserved_cpus_can_be_named(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--dry-run", "--node-name", "w", "--reserved-cpus", "1-2", "-o", "json"]
    assert main(["export", *arguments, *host.arguments()]) == 0
    zones = json.loads(capsys.readouterr().out)["zones"]
    assert [zone["resources"][0]["allocatable"] for zone in zones] == ["1", "0", "0", "1"]


def test_a_running_plugin_gives_what_the_object_shows(
    simulated_host: SimulatedHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("topologyManagerPolicy: single-numa-node\n")
    roots = simulated_host.roots
    arguments = [
        *("export", "--dry-run", "--node-name", "w", "-o", "json"),
        *("--state-file", str(simulated_host.state_file), "--sysfs-root", str(roots.sysfs)),
        *("--proc-root", str(roots.proc), "--cgroup-root", str(roots.cgroup)),
        *("--kubelet-root", str(tmp_path / "kubelet"), "--pod-logs", str(tmp_path / "pods")),
    ]

    def available() -> list[int]:
        assert main(arguments) == 0
        zones = json.loads(capsys.readouterr().out)["zones"]
        return [int(zone["resources"][1]["available"]) for zone in zones]

    def is_written(expected: list[int]) -> bool:
        return simulated_host.state_file.exists() and available() == expected

    def create(runtime: FakeRuntime, name: str, size_bytes: int) -> str:
        pod = runtime.run_pod_sandbox(objects.pod(name, memory_limit_bytes=size_bytes))
        simulated_host.make_cgroup(pod)
        container = objects.container(pod, "main", memory_limit_bytes=size_bytes)
        return runtime.create_container(pod, container).linux.resources.cpu.mems

    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config))
        runtime.accept(WAIT_S)
        runtime.synchronize()
        assert create(runtime, "a", 1 << 30) == "0"
        wait_for(simulated_host.state_file.exists)
        whole = available()[1]
        left = whole - (1 << 30)
        wait_for(lambda: is_written([left, whole]))
        with pytest.raises(PluginRefused):
            create(runtime, "b", whole + 1)
        assert create(runtime, "c", whole) == "1"
        wait_for(lambda: is_written([left, 0]))
        assert create(runtime, "d", left) == "0"
        wait_for(lambda: is_written([0, 0]))
        assert simulated_host.stop(process) == 0
