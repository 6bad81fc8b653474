from pathlib import Path

import pytest
import yaml

from nri_numamem.cli import inspect
from nri_numamem.cli.main import main
from nri_numamem.host.fake_sysfs import overlay_of, write_overlay
from nri_numamem.host.network import NetworkDevice
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode

GI = 1 << 30


@pytest.fixture
def roots(tmp_path: Path) -> list[str]:
    nodes = (
        NumaNode(0, 4 * GI, {2 << 20: 8}, CpuSet([0, 1, 2, 7]), {0: 10, 8: 40}),
        NumaNode(8, GI, {}, CpuSet(), {0: 40, 8: 10}),
    )
    write_overlay(overlay_of(Machine(nodes)), tmp_path)
    return ["--sysfs-root", str(tmp_path / "sys"), "--proc-root", str(tmp_path / "proc")]


def test_tables(
    roots: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["inspect", *roots]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"NUMA nodes {'─' * 69}",
        "  node  memory  2Mi pages  CPUs   distances to 0,8",
        "     0     4Gi          8  0-2,7  10 40",
        "     8     1Gi          -  none   40 10",
        "",
        f"Hugepage pools, in pages {'─' * 55}",
        "  size  node  total  used  free  surplus  rsvd",
        "   2Mi     0      8     0     8        0",
        "   2Mi   all      8     0     8        0     0",
        "  rsvd: reserved for mappings but not yet faulted in; the kernel counts these",
        "  pages for the whole system only",
    ]


def test_current_use_of_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    nodes = tuple(
        NumaNode(n, 64 * GI, {2 << 20: 100 * n, 1 << 30: 0}, CpuSet([n])) for n in range(3)
    )
    write_overlay(overlay_of(Machine(nodes)), tmp_path)
    pool = "hugepages/hugepages-2048kB"
    (tmp_path / f"sys/devices/system/node/node1/{pool}/free_hugepages").write_text("30\n")
    (tmp_path / f"sys/devices/system/node/node2/{pool}/surplus_hugepages").write_text("5\n")
    (tmp_path / f"sys/kernel/mm/{pool}/resv_hugepages").write_text("7\n")
    roots = ["--sysfs-root", str(tmp_path / "sys"), "--proc-root", str(tmp_path / "proc")]
    assert main(["inspect", *roots]) == 0
    assert capsys.readouterr().out.splitlines()[7:-1] == [
        "  size  node  total  used  free  surplus  rsvd",
        "   2Mi     0      0     0     0        0",
        "   2Mi     1    100    70    30        0",
        "   2Mi     2    200     0   200        5",
        "   2Mi   all    300    70   230        5     7",
    ]


def test_without_pools_there_is_no_table_of_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_overlay(overlay_of(Machine((NumaNode(0, GI, {2 << 20: 0}),))), tmp_path)
    roots = ["--sysfs-root", str(tmp_path / "sys"), "--proc-root", str(tmp_path / "proc")]
    assert main(["inspect", *roots]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["inspect", "--output", "yaml", *roots]) == 0
    (node,) = yaml.safe_load(capsys.readouterr().out)["machine"]["nodes"]
    assert node == {"id": 0, "memory": "1Gi", "hugepages": {"2Mi": 0}}


def test_the_machine_of_a_scenario(roots: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--output", "yaml", *roots]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {
        "machine": {
            "nodes": [
                {
                    "id": 0,
                    "memory": "4Gi",
                    "hugepages": {"2Mi": 8},
                    "cpus": "0-2,7",
                    "distances": {0: 10, 8: 40},
                },
                {"id": 8, "memory": "1Gi", "hugepages": {}, "distances": {0: 40, 8: 10}},
            ]
        }
    }


def test_a_machine_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path)
    assert main(["inspect", "--sysfs-root", root, "--proc-root", root]) == 2
    error = capsys.readouterr().err
    assert error.startswith("nri-numamem: ")
    assert error.count("\n") == 1


def test_network_devices_of_this_host(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = [
        NetworkDevice("ens1f0", "pci 0000:3b:00.0", NodeSet([1])),
        NetworkDevice("eth0", "virtio virtio2", None),
    ]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(inspect, "read_network_devices", lambda _root: devices)
    assert main(["inspect"]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        f"Network devices {'─' * 64}",
        "     node  device  parent",
        "        1  ens1f0  pci 0000:3b:00.0",
        "  unknown  eth0    virtio virtio2",
    ]


def test_a_kernel_without_rtnetlink_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_root: Path) -> list[NetworkDevice]:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(inspect, "read_network_devices", fail)
    assert main(["inspect"]) == 2
    assert capsys.readouterr().err == (
        "nri-numamem: cannot list network devices by rtnetlink: "
        "[Errno 97] Address family not supported by protocol\n"
    )
