"""The names of pods, from the directory of their logs."""

from pathlib import Path

import pytest

from nri_numamem.host.pod_logs import pod_names
from nri_numamem.host.sysfs import MachineError


def test_names_of_pods(tmp_path: Path) -> None:
    uid = "0e3a1d7c-6c0b-4a0e-8f8e-0a1b2c3d4e5f"
    static = "d41d8cd98f00b204e9800998ecf8427e"
    for name in (
        f"shop_db-0_{uid}",
        f"kube-system_kube-proxy.x-worker-1_{static}",
        uid,
        "a_b",
        "Shop_db_1",
        "a_b_c_d",
        "a_b_c!",
    ):
        (tmp_path / name).mkdir()
    assert pod_names(tmp_path) == {
        uid: ("shop", "db-0"),
        static: ("kube-system", "kube-proxy.x-worker-1"),
    }


def test_a_missing_directory(tmp_path: Path) -> None:
    assert pod_names(tmp_path / "pods") == {}


def test_no_directory(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("")
    with pytest.raises(MachineError, match=r"pods: Not a directory; run as root, and name the"):
        pod_names(tmp_path / "pods")
