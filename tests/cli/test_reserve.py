"""``nri-numamem reserve``: the demand of a kubelet, the configuration, the proposal."""

import json
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.config.load import load_text
from nri_numamem.host.roots import HostRoots

MACHINE = "machine: {nodes: [{id: 0, memory: 8Gi}, {id: 1, memory: 8Gi}]}\n"
KUBELET = "kind: KubeletConfiguration\nkubeReserved: {memory: 1Gi}\n"
RESERVED = "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n"
ERROR = (
    'E1 err="the total amount \\"2Gi\\" of type \\"memory\\" is not equal to the value '
    '\\"3Gi\\" determined by Node Allocatable feature"'
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("machine.yaml").write_text(MACHINE)
    Path("kubelet.yaml").write_text(KUBELET)
    Path("config.yaml").write_text("")


def reserve(*arguments: str, status: int = 0) -> None:
    assert main(["reserve", "--machine", "machine.yaml", *arguments]) == status


def test_demand_and_proposal(capsys: pytest.CaptureFixture[str]) -> None:
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml")
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "memory 1124Mi = kubeReserved 1Gi + evictionHard 100Mi" in lines
    assert "nothing; the plugin divides the demand among the nodes, as proposed here" in lines
    assert lines.index("node 0: memory 562Mi") + 1 == lines.index("node 1: memory 562Mi")


def test_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text(RESERVED)
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml", status=1)
    shown = capsys.readouterr().out
    assert "  (config.yaml:1)\n  memory: 100Mi too little\n" in shown
    Path("config.yaml").write_text(RESERVED.replace("1Gi", "1125Mi"))
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml", status=1)
    assert "  memory: 1Mi too much\n" in capsys.readouterr().out
    Path("config.yaml").write_text(RESERVED.replace("1Gi", "1124Mi"))
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml")
    assert "This is what the kubelet demands." in capsys.readouterr().out


def test_the_kubelets_own_reservation_counts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("kubelet.yaml").write_text(KUBELET + RESERVED)
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml", "--output", "json", status=1)
    document = json.loads(capsys.readouterr().out)
    assert document["origin"] == "kubelet.yaml"
    assert document["differences"] == {"memory": -100 << 20}
    assert document["demanded"]["memory"]["parts"]["kubeReserved"] == 1 << 30
    assert document["proposal"][1] == {"numaNode": 1, "limits": {"memory": 562 << 20}}


def test_the_plugins_settings_without_a_kubelet(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text("systemReserved: {memory: 924Mi}\n")
    reserve("--config", "config.yaml", "--output", "flag")
    assert capsys.readouterr().out == "--reserved-memory '0:memory=512Mi;1:memory=512Mi'\n"


def test_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.yaml").write_text(RESERVED)
    arguments = ["--kubelet", "kubelet.yaml", "--config", "config.yaml", "--output"]
    for output, parse in (("json", json.loads), ("yaml", yaml.safe_load)):
        reserve(*arguments, output, status=1)
        assert parse(capsys.readouterr().out) == {
            "version": 1,
            "demanded": {
                "memory": {
                    "bytes": 1124 << 20,
                    "parts": {"kubeReserved": 1 << 30, "evictionHard": 100 << 20},
                }
            },
            "configured": [{"numaNode": 0, "limits": {"memory": 1 << 30}}],
            "origin": "config.yaml:1",
            "differences": {"memory": -100 << 20},
            "proposal": [
                {"numaNode": 0, "limits": {"memory": 562 << 20}},
                {"numaNode": 1, "limits": {"memory": 562 << 20}},
            ],
        }


def test_the_proposal_as_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    reserve("--kubelet", "kubelet.yaml", "--config", "config.yaml", "--output", "config")
    settings = load_text(capsys.readouterr().out, "proposal")
    assert [entry.limits for entry in settings.reserved_memory] == [{"memory": 562 << 20}] * 2


def test_the_error_of_a_kubelet(capsys: pytest.CaptureFixture[str]) -> None:
    reserve("--config", "config.yaml", "--error", ERROR)
    shown = capsys.readouterr().out
    assert "  memory 3Gi (--error 3Gi)\n" in shown
    assert "  node 0: memory 1536Mi\n" in shown


def test_a_running_kubelet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = tmp_path / "proc"
    monkeypatch.setattr("nri_numamem.cli.reserve.HostRoots", lambda: HostRoots(proc=proc))
    (proc / "7/cwd/drop-in").mkdir(parents=True)
    (proc / "7/cwd/k.yaml").write_text(KUBELET)
    for name, memory in (("20.conf", "3Gi"), ("10.conf", "2Gi"), ("30.txt", "4Gi")):
        text = KUBELET.replace("1Gi", memory)
        (proc / "7/cwd/drop-in" / name).write_text(text)
    flags = "--config=k.yaml", "--config-dir=drop-in", "--eviction-hard=memory.available<1Gi"
    (proc / "7/cmdline").write_text("\0".join(["/usr/bin/kubelet", *flags, ""]))
    reserve("--kubelet", "7", "--config", "config.yaml")
    assert "  memory 4Gi = kubeReserved 3Gi + evictionHard 1Gi\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--kubelet", "none.yaml"], "none.yaml: No such file"),
        (["--kubelet", "machine.yaml"], "machine.yaml: no 'kind: KubeletConfiguration'"),
        (["--kubelet", "bad.yaml"], "bad.yaml: kubeReserved.memory: 'x' is not a quantity"),
        (["--kubelet", "large.yaml"], "1Gi of hugepages-1Gi are reserved, but no"),
        (["--kubelet", "1"], "process 1 is "),
        (["--kubelet", "8"], "kubelet 8: --kube-reserved: 'x' is not NAME=AMOUNT"),
        (["--kubelet", "9"], "process 9 is a thread of the kernel, not a kubelet; give a conf"),
        (["--error", "nonsense"], "--error: this is not the kubelet's error; give its text"),
        (["--error", ERROR.replace("3Gi", "x")], "--error: 'x' is not a quantity"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    problem: str,
) -> None:
    Path("bad.yaml").write_text(KUBELET.replace("1Gi", "x"))
    Path("large.yaml").write_text(KUBELET.replace("memory: 1Gi", "hugepages-1Gi: 1Gi"))
    for pid, words in (("1", "init\0"), ("8", "kubelet\0--kube-reserved=x\0"), ("9", "")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cmdline").write_text(words)
    monkeypatch.setattr(
        "nri_numamem.cli.reserve.HostRoots", lambda: HostRoots(proc=tmp_path / "proc")
    )
    reserve("--config", "config.yaml", *arguments, status=2)
    shown, error = capsys.readouterr()
    assert shown == ""
    assert error.startswith("nri-numamem: ")
    assert problem in error
    assert error.count("\n") == 1
