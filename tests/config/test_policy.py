"""The engine's policy has every setting that decisions depend on."""

from dataclasses import replace

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import load_text
from nri_numamem.config.policy import context_of, policy_of
from nri_numamem.config.settings import Settings, settings_from_mapping
from nri_numamem.engine.core.policy import Policy
from nri_numamem.memorymanager import HostReservation, Reservation
from nri_numamem.numa.idset import CpuSet, NodeSet
from nri_numamem.numa.machine import CpuFollowing, Machine, NumaNode
from nri_numamem.numa.memory_nodes import MemoryNodes, WithoutCpus
from nri_numamem.numa.partitions import Partition

GI = 1 << 30


def test_defaults_are_those_of_the_settings() -> None:
    assert policy_of(Settings()) == Policy()


@pytest.mark.parametrize(
    ("document", "policy"),
    [
        ({"memoryManagerPolicy": "None"}, Policy(memory_manager_policy="None")),
        ({"topologyManagerPolicy": "none"}, Policy(topology_manager_policy="none")),
        ({"topologyManagerScope": "pod"}, Policy(topology_manager_scope="pod")),
        (
            {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "false"}},
            Policy(prefer_closest_numa_nodes=False),
        ),
        (
            {"reservedMemory": [{"numaNode": 1, "limits": {"memory": "1Ki"}}]},
            Policy(reserved_memory=(Reservation(1, {"memory": 1024}),)),
        ),
        (
            {
                "kubeReserved": {"memory": "1Ki"},
                "systemReserved": {"memory": "2Ki"},
                "evictionHard": {"memory.available": "3Ki"},
            },
            Policy(
                host_reservation=HostReservation(
                    {"memory": "1Ki"}, {"memory": "2Ki"}, {"memory.available": "3Ki"}
                )
            ),
        ),
        (
            {"memoryNodes": {"withoutCpus": "use"}},
            Policy(memory_nodes=MemoryNodes(WithoutCpus.USE)),
        ),
        ({"cpuFollowsMemory": "prefer"}, Policy(cpu_following=CpuFollowing.PREFER)),
        (
            {"partitions": [{"name": "web", "nodes": 1, "namespaces": ["web"]}]},
            Policy(partitions=(Partition("web", NodeSet([1]), namespaces=("web",)),)),
        ),
        ({"whenUnsatisfiable": "RunUnpinned"}, Policy(when_unsatisfiable="RunUnpinned")),
    ],
)
def test_each_setting_arrives(document: object, policy: Policy) -> None:
    assert policy_of(settings_from_mapping(document)) == policy


def test_remarks_on_settings_arrive() -> None:
    settings = Settings(
        max_allowable_numa_nodes=9,
        kubelet_memory_manager_policy="Static",
        kubelet_cpu_manager_policy="static",
    )
    policy = policy_of(settings)
    assert policy.notes == settings.notes
    assert len(policy.notes) == 2
    assert policy.is_managed_twice
    assert policy.has_static_cpus


def test_reserved_cpus_arrive_where_cpus_follow_memory() -> None:
    settings = Settings(kubelet_config_file="/k", kubelet_reserved_cpus="0-1")
    assert policy_of(settings).reserved_cpus == CpuSet()
    settings = replace(settings, cpu_follows_memory="require")
    assert policy_of(settings).reserved_cpus == CpuSet({0, 1})
    wrong = replace(settings, kubelet_reserved_cpus="x")
    with pytest.raises(UsageError, match=r"^/k: reservedSystemCPUs: 'x' is not a list of CPUs"):
        policy_of(wrong)


def test_the_context_of_a_machine() -> None:
    machine = Machine((NumaNode(0, 8 * GI),))
    settings = Settings(reserved_memory=(Reservation(0, {"memory": GI}),))
    assert context_of(settings, machine).reserved == {0: {"memory": GI}}
    too_much = replace(
        settings,
        reserved_memory=(Reservation(0, {"memory": 9 * GI}),),
        origins={"reservedMemory": lambda path: f"file:{len(path)}"},
    )
    with pytest.raises(UsageError, match=r"^file:4: reservedMemory\[0\]\.limits\.memory: 9Gi do "):
        context_of(too_much, machine)
    with pytest.raises(UsageError, match=r"^reservedMemory\[0\]"):
        context_of(replace(too_much, origins={}), machine)


def test_settings_that_exclude_every_node_name_file_and_line() -> None:
    settings = load_text("logLevel: info\nmemoryNodes:\n  override: {0: cpuless}\n", "x.yaml")
    with pytest.raises(UsageError, match=r"^x.yaml:3: memoryNodes.override: it excludes every"):
        context_of(settings, Machine((NumaNode(0, 1 << 30, cpus=CpuSet([0])),)))
