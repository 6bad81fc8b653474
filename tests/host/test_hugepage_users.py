from pathlib import Path

from nri_numamem.host.hugepage_users import HugepageUser, hugepage_users

MI = 1 << 20


def write(root: Path, pid: int, status: str, cgroup: str | None = "0::/user.slice") -> None:
    directory = root / str(pid)
    directory.mkdir()
    (directory / "status").write_text(status)
    if cgroup is not None:
        (directory / "cgroup").write_text(f"{cgroup}\n")


def test_processes_outside_of_pods_with_hugepages(tmp_path: Path) -> None:
    write(tmp_path, 1, "Name:\tinit\nHugetlbPages:\t       0 kB\n")
    write(tmp_path, 2, "Name:\tdpdk test\nHugetlbPages:\t    4096 kB\n")
    write(tmp_path, 3, "Name:\tlarger\nHugetlbPages:\t    8192 kB\n", cgroup=None)
    write(tmp_path, 4, "HugetlbPages:\t    4096 kB\n")
    write(tmp_path, 5, "Name:\tkernel thread\n")
    for pid, cgroup in (
        (6, "0::/kubepods/podx/c"),
        (7, "0::/kubepods.slice/kubepods-podx.slice/cri-containerd-1.scope"),
        (8, "5:hugetlb:/kubelet.slice/kubelet-kubepods.slice"),
    ):
        write(tmp_path, pid, "Name:\tpod\nHugetlbPages:\t    4096 kB\n", cgroup)
    (tmp_path / "self").mkdir()
    (tmp_path / "9").mkdir()
    assert hugepage_users(tmp_path) == (
        HugepageUser(3, "larger", 8 * MI),
        HugepageUser(2, "dpdk test", 4 * MI),
        HugepageUser(4, "", 4 * MI),
    )


def test_a_process_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1/status").mkdir(parents=True)
    assert hugepage_users(tmp_path) == ()
    assert hugepage_users(tmp_path / "missing") == ()
