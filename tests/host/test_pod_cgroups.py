"""All pods of a host: both cgroup drivers, both versions of cgroups, below another cgroup."""

from pathlib import Path

import pytest

from nri_numamem.host.pod_cgroups import (
    count_other_pods,
    guaranteed_pods,
    has_pod_cgroups,
    other_pod_directories,
    other_pods,
)


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
