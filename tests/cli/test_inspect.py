import json
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli import host_arguments, inspect
from nri_numamem.cli.main import main
from nri_numamem.host.network import NetworkDevice
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

GI = 1 << 30


@pytest.fixture
def roots(tmp_path: Path) -> list[str]:
    nodes = (
        NumaNode(0, 4 * GI, {2 << 20: 8}, CpuSet([0, 1, 2, 7]), {0: 10, 8: 40}),
        NumaNode(8, GI, {}, CpuSet(), {0: 40, 8: 10}, is_movable_only=True, memory_tier=22),
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
        "  node  memory  2Mi pages  class    use       tier  CPUs   distances to 0,8",
        "     0     4Gi          8  dram     used         -  0-2,7  10 40",
        "     8     1Gi          -  movable  excluded    22  none   40 10",
        "  excluded: no container is placed there (memoryNodes)",
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
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:] == ["  no node shows CPUs: sysfs is incomplete, and all nodes are used"]
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
                {
                    "id": 8,
                    "memory": "1Gi",
                    "hugepages": {},
                    "distances": {0: 40, 8: 10},
                    "movableOnly": True,
                    "memoryTier": 22,
                },
            ]
        }
    }


def test_json_is_the_same_machine(roots: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--output", "yaml", *roots]) == 0
    nodes = yaml.safe_load(capsys.readouterr().out)["machine"]["nodes"]
    assert main(["inspect", "--output", "json", *roots]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [node["id"] for node in document["machine"]["nodes"]] == [0, 8]
    # The keys of an object are text in JSON.
    assert document == json.loads(json.dumps({"machine": {"nodes": nodes}}))


def test_the_settings_decide_about_nodes_without_cpus(
    roots: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memoryNodes: {withoutCpus: lastResort}\n")
    assert main(["inspect", *roots, "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "movable  last resort" in lines[3]
    assert lines[4] == "  last resort: used only for what fits nowhere else"
    config.write_text("memoryNodes: {override: {0: cpuless}}\n")
    assert main(["inspect", *roots, "--config", str(config)]) == 2
    assert "leave at least one node dram" in capsys.readouterr().err
    assert main(["inspect", *roots, "--config", str(tmp_path / "none.yaml")]) == 2


def test_the_default_settings_count_if_the_file_exists(
    roots: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memoryNodes: {withoutCpus: use}\n")
    monkeypatch.setattr(host_arguments, "DEFAULT_CONFIG", config)
    assert main(["inspect", *roots]) == 0
    assert "movable  used" in capsys.readouterr().out


def test_nodes_without_cpus_and_memory_share_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    distances = {n: 10 if n == 0 else 80 for n in range(34)}
    nodes = [
        NumaNode(0, 480 * GI, cpus=CpuSet(range(72)), distances=distances),
        NumaNode(1, 480 * GI, cpus=CpuSet(range(72, 144)), distances=distances),
        *(NumaNode(n, 0, distances=distances) for n in range(2, 10)),
        NumaNode(10, 96 * GI, distances=distances, is_movable_only=True),
        *(NumaNode(n, 0, distances=distances) for n in range(11, 34)),
    ]
    write_overlay(overlay_of(Machine(tuple(nodes))), tmp_path)
    roots = ["--sysfs-root", str(tmp_path / "sys"), "--proc-root", str(tmp_path / "proc")]
    assert main(["inspect", *roots]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "   node  memory  class    use       CPUs    distances to 0-1,10",
        "      0   480Gi  dram     used      0-71    10 80 80",
        "      1   480Gi  dram     used      72-143  10 80 80",
        "    2-9       0  cpuless  excluded  none    -",
        "     10    96Gi  movable  excluded  none    10 80 80",
        "  11-33       0  cpuless  excluded  none    -",
        "  excluded: no container is placed there (memoryNodes)",
    ]


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
