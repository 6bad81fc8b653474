from pathlib import Path

import pytest

from nri_numamem.host import hugepage_users as module
from nri_numamem.host.hugepage_users import (
    HugepageFile,
    HugepageUser,
    HugepageUsers,
    hugepage_users,
)

MI = 1 << 20
IN_POD = "0::/kubepods/podx/c"
# Lines of Linux 6.18.
MAPS = """\
5590c1d2f000 default file=/usr/bin/python3.11 mapped=7 mapmax=2 active=0 N0=7 kernelpagesize_kB=4
7efc64800000 default file=/SYSV00000000\\040(deleted) huge dirty=1 N0=1 kernelpagesize_kB=2048
7efc64a00000 prefer (many):0-1 file=/dev/hugepages/rtemap_0 huge dirty=1 N1=1 \
kernelpagesize_kB=2048
7efc64c00000 default file=/anon_hugepage\\040(deleted) huge anon=2 N0=1 N1=1 kernelpagesize_kB=2048
7efc65000000 default huge N3=1
"""


def write(
    root: Path,
    pid: int,
    status: str,
    cgroup: str | None = "0::/user.slice",
    maps: str | None = None,
) -> None:
    directory = root / str(pid)
    directory.mkdir()
    (directory / "status").write_text(status)
    for name, text in (("cgroup", cgroup), ("numa_maps", maps)):
        if text is not None:
            (directory / name).write_text(f"{text}\n")


def user(name: str, size_mi: int) -> str:
    return f"Name:\t{name}\nHugetlbPages:\t{size_mi * 1024:8} kB\n"


def mount(root: Path, place: str, options: str = "rw,relatime,pagesize=2M") -> Path:
    """Mount hugetlbfs in the mount namespace of the host's first process."""
    mounts = root / "1/mounts"
    mounts.parent.mkdir(exist_ok=True)
    escaped = place.replace(" ", "\\040")
    with mounts.open("a") as file:
        file.write(f"proc /proc proc rw 0 0\nnone {escaped} hugetlbfs {options} 0 0\n")
    directory = root / "1/root" / place.lstrip("/")
    directory.mkdir(parents=True)
    return directory


def test_processes_outside_of_pods_with_hugepages(tmp_path: Path) -> None:
    write(tmp_path, 1, "Name:\tinit\nHugetlbPages:\t       0 kB\n")
    write(tmp_path, 2, user("dpdk test", 4))
    write(tmp_path, 3, user("larger", 8), cgroup=None)
    write(tmp_path, 4, "HugetlbPages:\t    4096 kB\n")
    write(tmp_path, 5, "Name:\tkernel thread\n")
    for pid, cgroup in (
        (6, IN_POD),
        (7, "0::/kubepods.slice/kubepods-podx.slice/cri-containerd-1.scope"),
        (8, "5:hugetlb:/kubelet.slice/kubelet-kubepods.slice"),
    ):
        write(tmp_path, pid, user("pod", 4), cgroup)
    (tmp_path / "self").mkdir()
    (tmp_path / "9").mkdir()
    assert hugepage_users(tmp_path) == HugepageUsers(
        (
            HugepageUser(3, "larger", 8 * MI),
            HugepageUser(2, "dpdk test", 4 * MI),
            HugepageUser(4, "", 4 * MI),
        )
    )


def test_the_nodes_and_sizes_of_a_process(tmp_path: Path) -> None:
    write(tmp_path, 2, user("dpdk", 8), maps=MAPS)
    (found,) = hugepage_users(tmp_path).processes
    assert found.pages == {0: {"hugepages-2Mi": 4 * MI}, 1: {"hugepages-2Mi": 4 * MI}}


@pytest.mark.parametrize(
    "maps",
    [
        None,
        "",
        "5590c1d2f000 default N0=7 kernelpagesize_kB=4",
        "7efc64800000 default huge N0=1 kernelpagesize_kB=0",
        MAPS * 10_000,
    ],
)
def test_nodes_that_are_unknown(tmp_path: Path, maps: str | None) -> None:
    """No such file, no hugepages, no page size, too long."""
    write(tmp_path, 2, user("dpdk", 8), maps=maps)
    assert hugepage_users(tmp_path).processes == (HugepageUser(2, "dpdk", 8 * MI),)


def test_the_mappings_of_few_processes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAPS_LIMIT", 1)
    write(tmp_path, 2, user("small", 2), maps=MAPS)
    write(tmp_path, 3, user("large", 4), maps=MAPS)
    large, small = hugepage_users(tmp_path).processes
    assert large.pages is not None
    assert small.pages is None


def test_a_process_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "1/status").mkdir(parents=True)
    assert hugepage_users(tmp_path) == HugepageUsers()
    assert hugepage_users(tmp_path / "missing") == HugepageUsers()


def test_files_that_no_process_has_mapped(tmp_path: Path) -> None:
    top = mount(tmp_path, "/dev/huge pages")
    (top / "dpdk/run").mkdir(parents=True)
    (top / "dpdk/run/left over").write_bytes(bytes(4 * MI))
    (top / "rtemap_0").write_bytes(bytes(2 * MI))
    (top / "rtemap_1").write_bytes(bytes(2 * MI))
    (top / "in_a_pod").write_bytes(bytes(2 * MI))
    (top / "empty").touch()
    (top / "link").symlink_to("rtemap_1")
    volumes = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/pages"
    (mount(tmp_path, volumes) / "of_a_pod").write_bytes(bytes(2 * MI))
    write(tmp_path, 2, user("dpdk", 8), maps=MAPS)
    in_pod = "7efc00000000 default file=/pages/in_a_pod huge N0=1 kernelpagesize_kB=2048"
    write(tmp_path, 3, user("pod", 2), IN_POD, in_pod)
    assert hugepage_users(tmp_path).files == (
        HugepageFile("/dev/huge pages/dpdk/run/left over", "hugepages-2Mi", 4 * MI),
        HugepageFile("/dev/huge pages/rtemap_1", "hugepages-2Mi", 2 * MI),
    )


def test_few_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILES_LIMIT", 2)
    for place in ("/a", "/b"):
        top = mount(tmp_path, place, "rw,pagesize=1024M")
        for name in "abc":
            (top / name).write_bytes(b"x")
    found = hugepage_users(tmp_path).files
    assert [(file.path, file.resource) for file in found] == [
        ("/a/a", "hugepages-1Gi"),
        ("/a/b", "hugepages-1Gi"),
    ]


def test_mounts_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "1/mounts").mkdir(parents=True)
    assert hugepage_users(tmp_path).files == ()
    (tmp_path / "1/mounts").rmdir()
    mount(tmp_path, "/gone").rmdir()
    mount(tmp_path, "/no-size", "rw,relatime")
    assert hugepage_users(tmp_path).files == ()
