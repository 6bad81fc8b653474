from pathlib import Path

from nri_numamem.host.roots import HostRoots


def test_the_defaults_are_the_kernels_mount_points() -> None:
    roots = HostRoots()
    assert (roots.sysfs, roots.proc) == (Path("/sys"), Path("/proc"))
    assert roots.cgroup.is_relative_to(roots.sysfs)


def test_a_simulated_host_has_its_own_directories(tmp_path: Path) -> None:
    roots = HostRoots(sysfs=tmp_path / "sys")
    assert roots.sysfs == tmp_path / "sys"
    assert roots == HostRoots(tmp_path / "sys", Path("/proc"), Path("/sys/fs/cgroup"))
