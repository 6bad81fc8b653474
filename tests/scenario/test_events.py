"""Events of described pods and containers."""

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.kubelet.manifest import CpuAmounts
from nri_numamem.memorymanager import Block, ContainerKind, Pod, QosClass
from nri_numamem.memorymanager import Container as DescribedContainer
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.events import container_event, sandbox_event, sandbox_of_entries
from nri_numamem.scenario.values import ScenarioPod

MI = 1 << 20
MAIN = DescribedContainer("main", ContainerKind.APP, {"memory": 8 * MI, "hugepages-2Mi": 4 * MI})


@pytest.mark.parametrize(
    ("qos", "cgroup_parent"),
    [
        (QosClass.GUARANTEED, "/kubepods/podu_1"),
        (QosClass.BURSTABLE, "/kubepods/burstable/podu_1"),
        (QosClass.BEST_EFFORT, "/kubepods/besteffort/podu_1"),
    ],
)
def test_a_sandbox_has_its_pods_sum_and_class(qos: QosClass, cgroup_parent: str) -> None:
    pod = Pod("u/1", guaranteed=True, containers=(MAIN,))
    sandbox = sandbox_event("id", ScenarioPod(pod, "name", "ns", qos))
    hugepages = {2 * MI: 4 * MI}
    assert sandbox == PodSandbox("id", "u/1", "ns", "name", cgroup_parent, 8 * MI, hugepages)


def test_a_sandbox_has_the_annotations_of_its_pod() -> None:
    annotations = {"memory-policy.numamem.io": "bind"}
    described = ScenarioPod(
        Pod("u", guaranteed=True, containers=(MAIN,)), "n", "ns", QosClass.GUARANTEED, annotations
    )
    assert sandbox_event("id", described).annotations == annotations


def test_a_sandbox_of_assignments_has_their_sum() -> None:
    blocks = [Block(NodeSet([0]), "memory", 5), Block(NodeSet([0]), "hugepages-2Mi", 2 * MI)]
    found = sandbox_of_entries("id", "u", {"a": blocks, "b": blocks[:1]})
    assert (found.memory_limit_bytes, found.hugepage_limits) == (10, {2 * MI: 2 * MI})
    assert (found.name, found.cgroup_parent) == ("u", "/kubepods/podu")


def test_a_container_has_its_limits_cpus_and_devices() -> None:
    sandbox = sandbox_of_entries("s", "u", {})
    assert sandbox.memory_limit_bytes is None
    devices = (NodeSet([1]),)
    assert container_event("c", sandbox, MAIN, "0-1", devices) == Container(
        "c",
        "s",
        "main",
        8 * MI,
        {2 * MI: 4 * MI},
        cpuset_cpus="0-1",
        device_nodes=devices,
    )


def test_a_page_size_that_cannot_exist_has_no_limit() -> None:
    odd = DescribedContainer("odd", ContainerKind.APP, {"hugepages-3Mi": 5})
    made = container_event("c", sandbox_of_entries("s", "u", {}), odd)
    assert (made.memory_limit_bytes, made.hugepage_limits) == (None, {})


def test_a_container_has_the_shares_of_its_cpu_request() -> None:
    sandbox = sandbox_of_entries("s", "u", {})
    found = container_event("c", sandbox, MAIN, amounts=CpuAmounts(1500, 2000))
    assert (found.cpu_shares, found.cpu_limit_millicores) == (1536, 2000)
    found = container_event("c", sandbox, MAIN, "0-1", amounts=CpuAmounts(1500, 2000))
    assert (found.cpu_shares, found.cpu_limit_millicores) == (None, 2000)
    found = container_event("c", sandbox, MAIN, amounts=CpuAmounts())
    assert (found.cpu_shares, found.cpu_limit_millicores) == (2, None)
