"""What runs in pods' cgroups: names of both runtimes, both versions of cgroups, what has ended."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.host.cgroups import cgroup_directory
from nri_numamem.host.containers import (
    RunningContainer,
    cgroup_path,
    container_folders,
    is_populated,
    pod_directories,
    process_start,
    running_container,
)
from nri_numamem.host.sysfs import MachineError
from nri_numamem.numa.idset import NodeSet

Plant = Callable[[Mapping[str, str]], Path]

A, B, C, D = ("a" * 64, "0b" * 32, "c" * 64, "d" * 64)
RUNS = {"cgroup.events": "populated 1\nfrozen 0\n", "cpuset.mems": "1\n", "memory.max": "4096\n"}


def container(path: str, **changed: str | None) -> dict[str, str]:
    """Return the files of a running container; `changed` by name with _ for dots, None: missing."""
    files = RUNS | {name.replace("_", "."): text for name, text in changed.items()}
    return {f"{path}/{name}": text for name, text in files.items() if text is not None}


def test_containers_are_found_by_the_names_of_their_cgroups(plant: Plant) -> None:
    names = {
        A: f"cri-containerd-{A}.scope",
        B: f"crio-{B}.scope",
        C: C,
        D: f"crio-{D}",
    }
    others = (f"crio-conmon-{A}.scope", "tasks", "x" * 64, "a" * 63, f"{A}.slice", "container")
    root = plant({f"pod/{name}/x": "" for name in (*names.values(), *others)} | {"pod/file": ""})
    assert container_folders(root / "pod") == names


UID = "0b2f4c6e-1a3d-4e5f-8a9b-0c1d2e3f4a5b"
STATIC = "5" * 32
SLICES = {
    UID: f"kubepods-pod{UID.replace('-', '_')}.slice",
    STATIC: f"a-kubepods-pod{STATIC}.slice",
}
PLAIN = {UID: f"pod{UID}", STATIC: f"pod{STATIC}"}


@pytest.mark.parametrize("names", [SLICES, PLAIN])
def test_pods_below_one_parent(tmp_path: Path, names: dict[str, str]) -> None:
    others = ("burstable", "pod", "kubepods-burstable.slice", "kubepods-pod.slice", "cgroup.procs")
    for name in (*names.values(), *others):
        (tmp_path / name).mkdir()
    assert pod_directories(tmp_path) == {uid: tmp_path / name for uid, name in names.items()}


def test_missing_directories_are_empty(plant: Plant) -> None:
    root = plant({"a file": ""})
    for name in ("nothing", "a file"):
        assert container_folders(root / name) == {}
        assert pod_directories(root / name) == {}
        assert not is_populated(root / name)
        assert running_container(root, root / name) is None


def test_a_directory_that_cannot_be_read(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(MachineError, match=r"loop: .*; run as root with the host's cgroups"):
        container_folders(loop)


def test_a_running_container(plant: Plant) -> None:
    root = plant(container("pod/c") | container("pod/u", cpuset_mems="\n"))
    assert running_container(root, root / "pod/c") == RunningContainer(4096, NodeSet([1]))
    assert running_container(root, root / "pod/u") == RunningContainer(4096, NodeSet())


@pytest.mark.parametrize(
    "changed",
    [
        {"cgroup_events": "populated 0\nfrozen 0\n"},
        {"cgroup_events": "frozen 1\n"},
        {"cgroup_events": None},
        {"cpuset_mems": None},
        {"memory_max": "max\n"},
        {"memory_max": None},
    ],
)
def test_containers_without_processes_limit_or_cpuset(
    plant: Plant, changed: dict[str, str | None]
) -> None:
    root = plant(container("pod/c", **changed))
    assert running_container(root, root / "pod/c") is None


def test_limits_in_cruns_child_cgroup(plant: Plant) -> None:
    below = {"pod/c/container/cpuset.mems": "0", "pod/c/container/memory.max": "8192"}
    root = plant(container("pod/c", memory_max="max", cpuset_mems="") | below)
    assert running_container(root, root / "pod/c") == RunningContainer(8192, NodeSet([0]))


def test_a_container_in_cgroup_v1(plant: Plant) -> None:
    root = plant(
        {
            "cpuset/kubepods/pod1/cpuset.mems": "0-1\n",
            "cpuset/kubepods/pod1/c/cpuset.mems": "1\n",
            "cpuset/kubepods/pod1/c/cpuset.effective_mems": "1\n",
            "cpuset/kubepods/pod1/c/cgroup.procs": "17\n",
            "memory/kubepods/pod1/c/memory.limit_in_bytes": "4096\n",
            "cpuset/kubepods/pod1/d/cpuset.mems": "1\n",
            "cpuset/kubepods/pod1/d/cgroup.procs": "\n",
            "cpuset/kubepods/pod1/d/container/cgroup.procs": "18\n",
            "memory/kubepods/pod1/d/memory.limit_in_bytes": "9223372036854771712\n",
            "cpuset/kubepods/pod1/e/cpuset.mems": "1\n",
            "cpuset/kubepods/pod1/e/cgroup.procs": "\n",
        }
    )
    pod = root / "cpuset/kubepods/pod1"
    assert running_container(root, pod / "c") == RunningContainer(4096, NodeSet([1]))
    assert is_populated(pod / "d")
    assert running_container(root, pod / "d") is None
    assert not is_populated(pod / "e")


@pytest.mark.parametrize("version", [1, 2])
def test_the_path_of_a_directory_maps_back_to_it(plant: Plant, version: int) -> None:
    root = plant({"cgroup.controllers": ""} if version == 2 else {})
    directory = cgroup_directory(root, "kubepods-pod1.slice", "cpuset")
    assert directory is not None
    path = cgroup_path(root, directory)
    assert path == "/kubepods.slice/kubepods-pod1.slice"
    assert cgroup_directory(root, path, "cpuset") == directory


def test_invalid_content(plant: Plant) -> None:
    root = plant(container("pod/c", memory_max="much") | container("pod/d", cpuset_mems="all"))
    with pytest.raises(MachineError, match=r"memory\.max: 'much' is not a limit in bytes"):
        running_container(root, root / "pod/c")
    with pytest.raises(MachineError, match=r"cpuset\.mems: 'all' is not a list of NUMA nodes"):
        running_container(root, root / "pod/d")


def test_the_start_of_a_process(plant: Plant) -> None:
    fields = " ".join(str(number) for number in range(3, 53))
    root = plant(
        {
            "7/stat": f"7 (a ) 1 (b) {fields}\n",
            "8/stat": "8 (cut) S 1\n",
            "9/stat": "9 (odd) " + "x " * 30,
            "6/stat/x": "",
        }
    )
    assert [process_start(root, pid) for pid in (7, 8, 9, 6, 5, 0)] == [22, 0, 0, 0, 0, 0]
