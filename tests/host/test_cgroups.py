"""Cgroups: every notation of a name, both versions of cgroups, and cgroups that are not there."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.host.cgroups import (
    cgroup_directory,
    cgroup_exists,
    container_directory,
    pod_hugepage_limits,
    pod_memory_limit,
    set_mems,
)
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa.idset import NodeSet

Plant = Callable[[Mapping[str, str]], Path]

MIB = 1 << 20
GIB = 1 << 30
UID = "0b2f4c6e_1a3d_4e5f_8a9b_0c1d2e3f4a5b"
V2 = {"cgroup.controllers": "cpuset cpu io memory hugetlb pids\n"}

POD_NAMES = [
    ("/kubepods/pod12", "kubepods/pod12"),
    ("/kubepods/burstable/pod12", "kubepods/burstable/pod12"),
    ("/kubelet/kubepods/pod12/", "kubelet/kubepods/pod12"),
    (f"/kubepods.slice/kubepods-pod{UID}.slice", f"kubepods.slice/kubepods-pod{UID}.slice"),
    (f"kubepods-pod{UID}.slice", f"kubepods.slice/kubepods-pod{UID}.slice"),
    (
        "kubepods-burstable-pod12.slice",
        "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12.slice",
    ),
    (
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod12.slice",
        "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod12.slice",
    ),
    ("system.slice", "system.slice"),
]
CONTAINER_NAMES = [
    ("/kubepods/pod12/abc", "kubepods/pod12/abc"),
    ("/kubepods/pod12/crio-abc", "kubepods/pod12/crio-abc"),
    (
        "kubepods-pod12.slice:cri-containerd:abc",
        "kubepods.slice/kubepods-pod12.slice/cri-containerd-abc.scope",
    ),
    (
        "kubepods-besteffort-pod12.slice:crio:abc",
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12.slice/crio-abc.scope",
    ),
]


def container_mems(root: Path, cgroups_path: str) -> NodeSet | None:
    """Return the `cpuset.mems` of a container by the name of its cgroup."""
    directory = container_directory(root, cgroups_path)
    return set_mems(directory) if directory else None


@pytest.mark.parametrize(("name", "path"), POD_NAMES + CONTAINER_NAMES)
def test_every_notation_maps_to_a_directory(plant: Plant, name: str, path: str) -> None:
    root = plant(V2)
    assert cgroup_directory(root, name, "hugetlb") == root / path
    (root / "cgroup.controllers").unlink()
    assert cgroup_directory(root, name, "hugetlb") == root / "hugetlb" / path


def test_a_cgroup_exists_if_its_directory_does(plant: Plant) -> None:
    root = plant(V2)
    assert not cgroup_exists(root, "kubepods-pod12.slice")
    (root / "kubepods.slice/kubepods-pod12.slice").mkdir(parents=True)
    assert cgroup_exists(root, "kubepods-pod12.slice")
    (root / "cgroup.controllers").unlink()
    assert not cgroup_exists(root, "kubepods-pod12.slice")
    (root / "cpuset/kubepods.slice/kubepods-pod12.slice").mkdir(parents=True)
    assert cgroup_exists(root, "kubepods-pod12.slice")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/kubepods/../../etc",
        "./x",
        "a\0b",
        "-.slice",
        ".slice",
        "a--b.slice",
        "-a.slice",
        "kubepods-pod12.slice:cri-containerd",
        "kubepods-pod12.slice:cri-containerd:",
        "kubepods-pod12.slice:cri-containerd:../x",
        "kubepods:cri-containerd:abc",
        ":cri-containerd:abc",
        "a--b.slice:crio:abc",
        "kubepods-pod12.slice:crio:a\0b",
        "kubepods/a\nb",
        "kubepods/" + "x" * 256,
        pytest.param("a" + "-a" * 200_000 + ".slice", id="its parents are 40 GB of names"),
        "/kubepods" + "/a" * 5000,
    ],
)
def test_invalid_names_have_no_directory(tmp_path: Path, name: str) -> None:
    assert cgroup_directory(tmp_path, name, "cpuset") is None
    assert not cgroup_exists(tmp_path, name)
    assert pod_hugepage_limits(tmp_path, name) == {}
    assert pod_memory_limit(tmp_path, name) is None
    assert container_mems(tmp_path, name) is None


def test_hugepage_limits_of_a_pod(plant: Plant) -> None:
    pod = "kubepods.slice/kubepods-pod12.slice"
    files = {
        "hugetlb.1GB.max": "2147483648\n",
        "hugetlb.1GB.rsvd.max": "1\n",
        "hugetlb.2MB.max": "67108864\n",
        "hugetlb.2MB.current": "5\n",
        "hugetlb.64KB.max": "0\n",
        "hugetlb.32MB.max": "max\n",
        "memory.max": "7\n",
    }
    root = plant(V2 | {f"{pod}/{name}": text for name, text in files.items()})
    limits = pod_hugepage_limits(root, "kubepods-pod12.slice")
    assert limits == {64 << 10: 0, 2 * MIB: 64 * MIB, GIB: 2 * GIB}
    assert list(limits) == [64 << 10, 2 * MIB, GIB]


def test_hugepage_limits_of_cgroup_v1(plant: Plant) -> None:
    files = {
        "hugetlb.1GB.limit_in_bytes": "9223372035781033984\n",
        "hugetlb.2MB.limit_in_bytes": "67108864\n",
        "hugetlb.2MB.rsvd.limit_in_bytes": "9223372036852678656\n",
        "hugetlb.2MB.usage_in_bytes": "0\n",
    }
    root = plant({f"hugetlb/kubepods/pod12/{name}": text for name, text in files.items()})
    assert pod_hugepage_limits(root, "/kubepods/pod12") == {2 * MIB: 64 * MIB}


@pytest.mark.parametrize(
    ("files", "limit_bytes"),
    [
        (V2 | {"kubepods/pod12/memory.max": "4096\n"}, 4096),
        (V2 | {"kubepods/pod12/memory.max": "max\n"}, None),
        ({"memory/kubepods/pod12/memory.limit_in_bytes": "8192\n"}, 8192),
        ({"memory/kubepods/pod12/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        (V2, None),
    ],
)
def test_memory_limit_of_a_pod(
    plant: Plant, files: Mapping[str, str], limit_bytes: int | None
) -> None:
    assert pod_memory_limit(plant(files), "/kubepods/pod12") == limit_bytes


def test_a_pod_without_cgroup_has_no_limits(plant: Plant) -> None:
    root = plant(V2)
    assert pod_hugepage_limits(root, "/kubepods/pod12") == {}


def test_a_limit_that_is_removed_while_it_is_read(plant: Plant) -> None:
    root = plant(V2 | {"kubepods/pod12/x": ""})
    (root / "kubepods/pod12/hugetlb.2MB.max").symlink_to("nowhere")
    assert pod_hugepage_limits(root, "/kubepods/pod12") == {}


@pytest.mark.parametrize("text", ["", "-1", "many", "1" * 30])
def test_invalid_limits(plant: Plant, text: str) -> None:
    root = plant(V2 | {"kubepods/pod12/hugetlb.2MB.max": text})
    with pytest.raises(MachineError, match=r"hugetlb\.2MB\.max: .* is not a limit in bytes; "):
        pod_hugepage_limits(root, "/kubepods/pod12")


def test_invalid_page_sizes(plant: Plant) -> None:
    root = plant(V2 | {"kubepods/pod12/hugetlb.3MB.max": "0"})
    with pytest.raises(MachineError, match=r"hugetlb\.3MB\.max: '3MB' does not name a page size"):
        pod_hugepage_limits(root, "/kubepods/pod12")


@pytest.mark.parametrize(("name", "path"), CONTAINER_NAMES)
def test_nodes_of_a_container(plant: Plant, name: str, path: str) -> None:
    files = {"cpuset.mems": "1,3\n", "cpuset.mems.effective": "1\n"}
    root = plant(V2 | {f"{path}/{file}": text for file, text in files.items()})
    assert container_mems(root, name) == NodeSet([1, 3])


def test_nodes_that_were_not_set(plant: Plant) -> None:
    root = plant(V2 | {"a/b/cpuset.mems": "\n", "a/b/cpuset.mems.effective": "0-3\n"})
    assert container_mems(root, "/a/b") == NodeSet()


@pytest.mark.parametrize(
    ("scope", "child", "nodes"),
    [
        pytest.param("0", None, [0], id="runc"),
        pytest.param("", "3", [3], id="crun before 1.18"),
        pytest.param("2", "2", [2], id="crun"),
        pytest.param("2", "", [2], id="an empty child"),
        pytest.param("", "", [], id="nothing is set"),
        pytest.param("0", "1", [0], id="the container made a child"),
    ],
)
def test_nodes_of_the_child_cgroup_count_where_the_scope_has_none(
    plant: Plant, scope: str, child: str | None, nodes: list[int]
) -> None:
    files = {"pod/c/cpuset.mems": scope}
    if child is not None:
        files["pod/c/container/cpuset.mems"] = child
    root = plant(V2 | files)
    assert container_mems(root, "/pod/c") == NodeSet(nodes)


@pytest.mark.parametrize(("scope", "nodes"), [("0", [0]), ("0-1", [])])
def test_a_child_cgroup_does_not_count_in_cgroup_v1(
    plant: Plant, scope: str, nodes: list[int]
) -> None:
    mems = {"pod": "0-1", "pod/c": scope, "pod/c/container": "1"}
    root = plant(
        {f"cpuset/{path}/cpuset.mems": text for path, text in mems.items()}
        | {f"cpuset/{path}/cpuset.effective_mems": text for path, text in mems.items()}
    )
    assert container_mems(root, "/pod/c") == NodeSet(nodes)


def test_nodes_equal_to_the_parents_were_not_set_in_cgroup_v1(plant: Plant) -> None:
    mems = {"a": "0-1", "a/b": "0", "a/c": "0-1", "d": "0"}
    root = plant(
        {f"cpuset/{path}/cpuset.mems": text for path, text in mems.items()}
        | {f"cpuset/{path}/cpuset.effective_mems": text for path, text in mems.items()}
    )
    assert container_mems(root, "/a/b") == NodeSet([0])
    assert container_mems(root, "/a/c") == NodeSet()
    assert container_mems(root, "/d") == NodeSet([0])  # the root's are not shown here


def test_a_container_without_cpuset(plant: Plant) -> None:
    root = plant(V2 | {"a/b/memory.max": "max", "a/f": "a file"})
    for name in ("/a/b", "/a/d", "/a/f/g"):
        assert container_mems(root, name) is None
        assert set_mems(root / name[1:]) is None


def test_invalid_nodes(plant: Plant) -> None:
    root = plant(V2 | {"a/b/cpuset.mems": "first"})
    with pytest.raises(MachineError, match=r"a/b/cpuset\.mems: 'first' is not a list of NUMA"):
        container_mems(root, "/a/b")
