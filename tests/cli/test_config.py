"""The actions of ``nri-numamem config``: default, show and check."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.config.example import example_text
from nri_numamem.observe.plugin_file import encode
from tests.observe.test_plugin_file import FACTS

MACHINE = "machine: {nodes: [{id: 0, memory: 8Gi}, {id: 1, memory: 8Gi}]}\n"
CONFIG = """\
logLevel: debug
reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi}}
topologyManagerPolicyOptions: {max-allowable-numa-nodes: 16}
"""


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[str, str]:
    """Write a configuration and a machine; return their paths."""
    config, machine = tmp_path / "config.yaml", tmp_path / "machine.yaml"
    config.write_text(CONFIG)
    machine.write_text(MACHINE)
    return str(config), str(machine)


def test_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "default"]) == 0
    assert capsys.readouterr().out == example_text()


def test_show_as_json(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    config, _ = files
    kubelet = tmp_path / "kubelet.yaml"
    kubelet.write_text("kind: KubeletConfiguration\nkubeReserved: {memory: 1Gi}\n")
    arguments = ["config", "show", config, "--kubelet-config", str(kubelet), "--output", "json"]
    assert main(arguments) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    assert shown["logLevel"] == {"value": "debug", "origin": f"{config}:1"}
    assert shown["reservedMemory"]["origin"] == f"{config}:2"
    assert shown["kubeReserved"] == {"value": {"memory": "1Gi"}, "origin": f"{kubelet}:2"}
    assert shown["logFormat"] == {"value": "auto", "origin": "default"}
    assert shown["logFile"] == {"value": None, "origin": "default"}


def test_show_as_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(CONFIG)
    assert main(["config", "show", "own.yaml"]) == 0
    heading, _, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("Settings of own.yaml ")
    shown = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert shown["logLevel"].split() == ["debug", "own.yaml:1"]
    assert shown["logFile"].split() == ["unset", "default"]
    assert shown["reservedMemory"].startswith("[{numaNode: 0, limits: {memory: 1Gi}}]  ")


def test_lists_are_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    text = f"podPlacementStrategies: {{namespaces: [shop, bold]}}\npartitions:\n{WEB}"
    Path("config.yaml").write_text(text)
    assert main(["config", "show", "config.yaml"]) == 0
    shown = capsys.readouterr().out
    assert " {namespaces: [shop, bold]} " in shown
    assert "namespaces: [web-*]" in shown


def test_check_for_a_machine(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    config, machine = files
    assert main(["config", "check", config, "--machine", machine]) == 0
    valid, *nodes, note = capsys.readouterr().out.splitlines()
    assert valid == f"{config}: valid"
    assert nodes == [
        "  node 0: reserved memory 1Gi (reservedMemory)",
        "  node 1: reserved nothing (reservedMemory)",
    ]
    assert note.startswith("  note: topologyManagerPolicyOptions.max-allowable-numa-nodes has no ")


WEB = "- {name: web, nodes: 1, namespaces: [web-*], exclusive: guaranteed}\n"
MORE = """\
- {name: jobs, count: 3, selector: {job: "yes"}}
- {name: ml, nodes: "2,4", namespaces: [ml], exclusive: all}
- {name: default, confine: true}
"""


def test_partitions_are_listed(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    config, machine = files
    Path(config).write_text(f"partitions:\n{WEB}{MORE}")
    assert main(["config", "check", config, "--machine", machine]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == f"{config}: valid"
    jobs, *others = [line for line in shown if " partition jobs " in line]
    assert others == []
    text = "  partition jobs is unusable: count is 3; NUMA nodes in no other partition: 0"
    assert jobs == text
    assert [line for line in shown if " partition " in line and line != jobs] == [
        "  partition web: node 1, exclusive guaranteed",
        "  partition ml is unusable: NUMA nodes 2,4 cannot be used on this machine",
        "  partition default: node 0, confine",
    ]


def test_check_for_this_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("")
    assert main(["config", "check", str(config)]) == 0
    shown = capsys.readouterr().out
    assert "node 0: reserved memory " in shown
    assert "(the host's reservation)" in shown


@pytest.mark.parametrize(
    ("config", "machine", "problem"),
    [
        (CONFIG.replace("1Gi", "9Gi"), MACHINE, "config.yaml:3: reservedMemory[0].limits.memory: "),
        (CONFIG.replace("debug", "loud"), MACHINE, "config.yaml:1: logLevel: unknown value 'loud'"),
        (
            "logLevel: info\npartitions:\n" + WEB.replace("1", "0-1"),
            MACHINE,
            "config.yaml:2: partitions: the exclusive ones have all NUMA nodes of this ",
        ),
        (CONFIG, "machine: {}\n", "machine.yaml:1: machine.nodes: no NUMA node; write - {id: 0"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    files: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    config: str,
    machine: str,
    problem: str,
) -> None:
    for path, text in zip(files, (config, machine), strict=True):
        Path(path).write_text(text)
    assert main(["config", "check", files[0], "--machine", files[1]]) == 2
    shown, error = capsys.readouterr()
    assert shown == ""
    assert error.startswith("nri-numamem: ")
    assert problem in error
    assert error.count("\n") == 1


def test_the_settings_of_the_running_plugin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    state_file = tmp_path / "nri_numamem_state"
    show = ["config", "show", "--running", "--state-file", str(state_file)]
    assert main(show) == 2
    assert f"{tmp_path}/plugin.json: does not exist; start the plugin" in capsys.readouterr().err
    (tmp_path / "plugin.json").write_bytes(encode(FACTS))
    assert main([*show, "--output", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["settings"]
    assert shown["logLevel"] == {"value": "debug", "origin": "NRI configuration:1"}
    assert main(show) == 0
    output = capsys.readouterr().out
    assert "Settings of the plugin with pid 17 " in output
    (tmp_path / "plugin.json").write_bytes(encode(replace(FACTS, ended_s=FACTS.started_s + 1)))
    assert main(show) == 0
    assert "Settings of the plugin with pid 17, which has ended " in capsys.readouterr().out
    assert "kubelet/config.yaml:7" in output
    (tmp_path / "plugin.json").write_text("{}")
    assert main(show) == 2
    assert "not a document of the plugin; run this as root" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["show", "check"])
def test_options_are_not_abbreviated(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["config", action, "--kubelet", "FILE"])
    assert "unrecognized arguments: --kubelet; did you mean --kubelet-config?" in (
        capsys.readouterr().err
    )
