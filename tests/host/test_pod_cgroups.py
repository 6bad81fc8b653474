"""All pods of a host by both cgroup drivers and versions, and CPU requests of containers."""

from pathlib import Path

import pytest

from nri_numamem.host.pod_cgroups import (
    count_other_pods,
    cpu_requests,
    guaranteed_pods,
    has_pod_cgroups,
    other_pod_directories,
    other_pods,
)
from nri_numamem.host.sysfs import MachineError

ID = f"{7:064x}"


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_cgroupfs_driver(tmp_path: Path, version: str) -> None:
    top = tmp_path if version == "v2" else tmp_path / "cpuset"
    make(top, "kubepods/poda-1/c", "kubepods/burstable/podb", "kubepods/besteffort/podc")
    make(top, "kubepods/burstable/podd", "system.slice/x.service/podz", "user")
    if version == "v2":
        (tmp_path / "cgroup.controllers").write_text("")
    assert guaranteed_pods(tmp_path) == {"a-1": top / "kubepods/poda-1"}
    assert count_other_pods(tmp_path) == {"Burstable": 2, "BestEffort": 1}
    assert other_pods(tmp_path) == {"b": "Burstable", "c": "BestEffort", "d": "Burstable"}
    found = other_pod_directories(tmp_path)
    assert found["c"] == ("BestEffort", top / "kubepods/besteffort/podc")


@pytest.mark.parametrize(
    ("parent", "prefix"), [("", ""), ("kubelet.slice", "kubelet-")], ids=["plain", "kind"]
)
def test_systemd_driver(tmp_path: Path, parent: str, prefix: str) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    top = tmp_path / parent / f"{prefix}kubepods.slice"
    make(top, f"{prefix}kubepods-poda_1.slice", f"{prefix}kubepods-burstable.slice")
    make(top / f"{prefix}kubepods-burstable.slice", f"{prefix}kubepods-burstable-podb.slice")
    assert guaranteed_pods(tmp_path) == {"a-1": top / f"{prefix}kubepods-poda_1.slice"}
    assert count_other_pods(tmp_path) == {"Burstable": 1, "BestEffort": 0}


def test_a_host_without_pods(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("")
    make(tmp_path, "a/b/c/kubepods/poda", "kubepodsx", "user.slice")
    assert guaranteed_pods(tmp_path) == {}
    assert count_other_pods(tmp_path) == {"Burstable": 0, "BestEffort": 0}
    assert guaranteed_pods(tmp_path / "missing") == {}
    assert not has_pod_cgroups(tmp_path)
    make(tmp_path, "kubepods.slice")
    assert has_pod_cgroups(tmp_path)


def v2(root: Path, text: str | None, child: str = "") -> None:
    root.mkdir(exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu\n")
    directory = root / "kubepods/poda" / ID / child
    directory.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (directory / "cpu.max").write_text(f"{text}\n")


def v1(root: Path, quota: int | None, shares: int | str | None = None) -> None:
    (root / "cpuset/kubepods/poda" / ID).mkdir(parents=True)
    directory = root / "cpu/kubepods/poda" / ID
    directory.mkdir(parents=True)
    if quota is not None:
        (directory / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (directory / "cpu.cfs_period_us").write_text("100000\n")
    if shares is not None:
        (directory / "cpu.shares").write_text(f"{shares}\n")


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        ("150000 100000", 1500),
        ("1000 100000", 10),
        ("33 100000", 1),
        ("8330 5000", 1666),
        ("max 100000", None),
        (None, None),
    ],
)
def test_cgroup_v2(tmp_path: Path, text: str | None, millicores: int | None) -> None:
    v2(tmp_path, text)
    assert cpu_requests(tmp_path) == {ID: millicores}


def test_older_crun_sets_limits_in_its_child(tmp_path: Path) -> None:
    v2(tmp_path, "max 100000")
    v2(tmp_path, "200000 100000", "container")
    assert cpu_requests(tmp_path) == {ID: 2000}


@pytest.mark.parametrize(
    ("quota", "shares", "millicores"),
    [
        (150000, 1536, 1500),
        (-1, 102, 100),
        (-1, 1, 1),
        (None, 2048, 2000),
        (None, None, None),
    ],
)
def test_cgroup_v1(
    tmp_path: Path, quota: int | None, shares: int | None, millicores: int | None
) -> None:
    v1(tmp_path, quota, shares)
    assert cpu_requests(tmp_path) == {ID: millicores}


@pytest.mark.parametrize("millicores", [1, 2, 3, 10, 99, 100, 333, 999, 1000, 1001, 12345, 64000])
def test_the_kubelet_s_rounding_is_undone(tmp_path: Path, millicores: int) -> None:
    v1(tmp_path, -1, millicores * 1024 // 1000)
    v2(tmp_path / "v2", f"{millicores * 5000 // 1000} 5000")
    assert cpu_requests(tmp_path) == {ID: millicores}
    assert cpu_requests(tmp_path / "v2") == {ID: millicores}


@pytest.mark.parametrize("text", ["5", "5 x", "x 5", "5 0", "1 2 3", ""])
def test_what_no_kernel_writes(tmp_path: Path, text: str) -> None:
    v2(tmp_path, text)
    with pytest.raises(MachineError, match=r"cpu.max: .* is not a quota and a period"):
        cpu_requests(tmp_path)


def test_shares_that_no_kernel_writes(tmp_path: Path) -> None:
    v1(tmp_path, None, "many")
    with pytest.raises(MachineError, match=r"cpu.shares: 'many' is not a number"):
        cpu_requests(tmp_path)


def test_only_guaranteed_pods(tmp_path: Path) -> None:
    v2(tmp_path, "100000 100000")
    (tmp_path / "kubepods/burstable/podb" / f"{8:064x}").mkdir(parents=True)
    assert set(cpu_requests(tmp_path)) == {ID}
