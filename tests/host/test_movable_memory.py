"""What a rebalancing plan must know of containers, from files of cgroup v2 and v1."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.engine.queries.rebalance import ContainerFacts
from nri_numamem.host.movable_memory import movable_memory
from nri_numamem.host.roots import HostRoots

Plant = Callable[[Mapping[str, str]], Path]

ID = "a" * 64
PAGE = os.sysconf("SC_PAGE_SIZE")
STAT = "anon N0=4096 N1=8192\nfile N0=1000000 N1=0\nshmem N0=77 N1=0\n"
V2 = {
    "cgroup/cgroup.controllers": "cpuset memory\n",
    f"cgroup/kubepods/podx/{ID}/cgroup.events": "populated 1\n",
    f"cgroup/kubepods/podx/{ID}/memory.numa_stat": STAT,
    f"cgroup/kubepods/podx/{ID}/cgroup.procs": "17\n18\n",
}
HERE = f"cgroup/kubepods/podx/{ID}"


def facts(root: Path) -> ContainerFacts:
    found = movable_memory(HostRoots(proc=root / "proc", cgroup=root / "cgroup"))
    assert list(found) == [ID]
    return found[ID]


def test_anonymous_and_shared_memory(plant: Plant) -> None:
    assert facts(plant(V2)) == ContainerFacts(4096 + 8192 + 77)


def test_a_burstable_pod(plant: Plant) -> None:
    files = {name.replace("podx", "burstable/podx"): text for name, text in V2.items()}
    assert facts(plant(files)) == ContainerFacts(4096 + 8192 + 77)


def test_without_a_memory_controller(plant: Plant) -> None:
    files = {name: text for name, text in V2.items() if "numa_stat" not in name}
    assert facts(plant(files)) == ContainerFacts(None)


def test_a_container_that_ended_is_left_out(plant: Plant) -> None:
    root = plant(V2 | {f"{HERE}/cgroup.events": "populated 0\n"})
    assert movable_memory(HostRoots(proc=root / "proc", cgroup=root / "cgroup")) == {}


def test_hugepages_and_cpus(plant: Plant) -> None:
    root = plant(V2 | {f"{HERE}/hugetlb.2MB.current": "2097152\n"})
    assert facts(root).has_hugepages
    assert not facts(root).has_own_cpus
    (root / HERE / "cpuset.cpus").write_text("\n")
    assert not facts(root).has_own_cpus
    (root / HERE / "cpuset.cpus").write_text("0-3\n")
    assert facts(root).has_own_cpus


def test_cgroup_v1(plant: Plant) -> None:
    pod = f"kubepods/podx/{ID}"
    root = plant(
        {
            f"cgroup/cpuset/{pod}/cgroup.procs": "17\n",
            f"cgroup/cpuset/{pod}/cpuset.effective_cpus": "0-3\n",
            f"cgroup/cpuset/{pod}/cpuset.cpus": "0-3\n",
            "cgroup/cpuset/kubepods/podx/cpuset.cpus": "0-3\n",
            f"cgroup/memory/{pod}/memory.numa_stat": "total=9 N0=4 N1=5\nanon=3 N0=1 N1=2\n",
        }
    )
    assert facts(root) == ContainerFacts(3 * PAGE)
    (root / f"cgroup/cpuset/{pod}/cpuset.cpus").write_text("2\n")
    assert facts(root).has_own_cpus


@pytest.mark.parametrize(
    ("text", "has_policy"),
    [
        ("7f00 interleave:0-1 file=/bin/x mapped=1\n7f01 default\n", True),
        ("7f00 local anon=1\n", True),
        ("7f00 default file=/bin/x\n7f01 bind:0\n", False),
        ("", False),
    ],
)
def test_memory_policies(plant: Plant, text: str, *, has_policy: bool) -> None:
    root = plant(V2 | {"proc/17/numa_maps": text})
    assert facts(root).has_policy is has_policy


def test_a_policy_in_the_cgroup_that_crun_makes(plant: Plant) -> None:
    files = {name: text for name, text in V2.items() if "procs" not in name}
    files |= {f"{HERE}/container/cgroup.procs": "9\n", "proc/9/numa_maps": "7f00 bind:0 x\n"}
    assert facts(plant(files)).has_policy


def test_a_process_that_cannot_be_read(plant: Plant) -> None:
    root = plant(V2)
    (root / "proc/17/numa_maps").mkdir(parents=True)
    assert not facts(root).has_policy
    assert not facts(plant({f"{HERE}/cgroup.procs": ""})).has_policy
