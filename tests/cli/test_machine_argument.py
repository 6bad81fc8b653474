"""The machine of ``--machine FILE``, and this host's."""

from pathlib import Path

import pytest

from nri_numamem.cli.machine_argument import machine_of
from nri_numamem.config.errors import UsageError
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.laboratory.fake_sysfs import overlay_of, write_overlay


def test_a_machine_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text("machine: {nodes: [{id: 3, memory: 8Gi}]}\n")
    assert machine_of(path) == Machine((NumaNode(3, 8 << 30),))


def test_the_machine_of_a_mounted_host(tmp_path: Path) -> None:
    machine = Machine((NumaNode(0, 8 << 30, {}, CpuSet([0]), {0: 10}),))
    write_overlay(overlay_of(machine), tmp_path)
    found = machine_of(None, HostRoots(tmp_path / "sys", tmp_path / "proc"))
    assert [node.memory_bytes for node in found.nodes] == [8 << 30]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("steps: []\n", " no key machine; give a scenario, or what `nri-numamem inspect "),
        ("- 1\n", " no key machine; "),
        ("steps: []\nmachine: {}\n", "2: machine.nodes: no NUMA node; write - {id: 0"),
    ],
)
def test_a_file_without_a_machine(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        machine_of(path)
    assert str(caught.value).startswith(f"{path}:{problem}")


def test_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine_of(None).nodes
    missing = HostRoots(Path("/no/such"), Path("/no/such"))
    monkeypatch.setattr("nri_numamem.cli.machine_argument.HostRoots", lambda: missing)
    with pytest.raises(UsageError, match=r"^/no/such/devices/system: no such "):
        machine_of(None)
