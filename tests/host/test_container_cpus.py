"""CPU requests from cgroups: v2, v1, crun's child, nothing known."""

from pathlib import Path

import pytest

from nri_numamem.host.container_cpus import cpu_requests
from nri_numamem.host.sysfs import MachineError

ID = f"{7:064x}"


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
