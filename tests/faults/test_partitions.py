"""The check of partitions in a life: the nodes of a pod, and containers on other nodes."""

from collections.abc import Mapping

import pytest

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from tests.faults.node import Node, Pod, RuntimeTraits
from tests.faults.partitions import nodes_of, partitioned_life, problems
from tests.laboratory import objects
from tests.sequences.machine import GI
from tests.sequences.node_life import node_life
from tests.sequences.operations import Spec
from tests.sequences.settings import NAMESPACE, LifeSettings

# Node 3 has no CPUs, and is not used.
MACHINE = Machine(
    tuple(
        NumaNode(number, 4 * GI, {}, CpuSet([number] if number < 3 else [])) for number in range(4)
    )
)


def _entry(name: str, nodes: str, exclusive: str, *, confine: bool) -> Mapping[str, object]:
    return {
        "name": name,
        "nodes": nodes,
        "namespaces": [name],
        "exclusive": exclusive,
        "confine": confine,
    }


@pytest.mark.parametrize(
    ("exclusive", "confine", "of_rest", "of_partition"),
    [
        ("none", False, ("0-2", ""), ("1", "")),
        ("guaranteed", True, ("0,2", ""), ("1", "1")),
        ("all", False, ("0,2", "0,2-3"), ("1", "")),
    ],
)
def test_the_nodes_of_a_pod_follow_from_the_settings(
    exclusive: str, *, confine: bool, of_rest: tuple[str, str], of_partition: tuple[str, str]
) -> None:
    settings = LifeSettings(partitions=(_entry("a", "1", exclusive, confine=confine),))
    for namespace, expected in ((NAMESPACE, of_rest), ("a", of_partition)):
        found = nodes_of(settings, MACHINE, namespace)
        assert tuple(str(nodes) for nodes in found) == expected


def test_a_partition_may_be_closed_to_another_one() -> None:
    entries = (_entry("a", "1", "all", confine=False), _entry("b", "2", "none", confine=False))
    settings = LifeSettings(partitions=entries)
    assert nodes_of(settings, MACHINE, "b") == (NodeSet([2]), NodeSet([0, 2, 3]))


@pytest.mark.parametrize(
    ("qos", "mems", "is_sure", "is_found"),
    [
        (QosClass.GUARANTEED, "1", True, False),
        (QosClass.GUARANTEED, "0", True, True),
        (QosClass.GUARANTEED, "", True, False),
        (QosClass.BURSTABLE, "1-2", True, False),
        (QosClass.BURSTABLE, "1", True, True),
        (QosClass.BURSTABLE, "", True, True),
        (QosClass.BURSTABLE, "", False, False),
    ],
)
def test_containers_on_other_nodes_are_found(
    qos: QosClass, mems: str, *, is_sure: bool, is_found: bool
) -> None:
    node = Node(RuntimeTraits(is_crio=False, hides_hugepages=True), has_partitions=True)
    spec = Spec("app", GI, {})
    pod = Pod(objects.pod("pod", qos=qos), qos, (spec,), "pod", NodeSet([1]), NodeSet([1, 2]))
    node.pods[pod.message.id] = pod
    message = node.new_message(pod, spec)
    message.linux.resources.cpu.mems = mems
    node.add(pod, spec, message).is_sure = is_sure
    assert bool([*problems(node)]) == is_found


def test_nodes_that_another_plugin_set_are_the_pods_own() -> None:
    node = Node(RuntimeTraits(is_crio=False, hides_hugepages=True), has_partitions=True)
    spec = Spec("app", GI, {})
    pod = Pod(objects.pod("pod"), QosClass.GUARANTEED, (spec,), "pod", NodeSet([1]))
    node.pods[pod.message.id] = pod
    message = node.new_message(pod, spec)
    message.linux.resources.cpu.mems = "0"
    node.add(pod, spec, message)
    assert [*problems(node)] == ["default/pod/app is on 0, its partition has 1"]
    node.preset_nodes[pod.uid] = NodeSet([0])
    assert not [*problems(node)]


def test_a_quarter_of_the_lives_have_partitions_and_the_others_stay_the_same() -> None:
    lives = [partitioned_life(seed) for seed in range(100)]
    having = [life for life in lives if life.settings.partitions]
    assert 15 < len(having) < 35
    assert all(life == node_life(life.seed) for life in lives if life not in having)
