"""The memory policy of a new container: chosen, limited by the settings, refused or ignored."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest, PolicySupport
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import HostReservation, Reservation
from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryNodes,
    MemoryPolicies,
    MemoryPolicy,
    NodeSet,
    OnUnsupported,
    PolicyMode,
    WithoutCpus,
)
from tests.engine.conftest import GI, MI, Answer, Host, four_nodes, handle

ALL = tuple(PolicyMode)
INTERLEAVE = PolicyMode.INTERLEAVE
REJECT = OnUnsupported.REJECT
RESERVED = (Reservation(0, {"memory": 64 * MI}),)


def machine(cpuless: int | None = None, empty: int | None = None) -> Machine:
    nodes = (
        replace(
            node,
            cpus=CpuSet() if node.node_id == cpuless else node.cpus,
            memory_bytes=0 if node.node_id == empty else node.memory_bytes,
        )
        for node in four_nodes().nodes
    )
    return Machine(tuple(nodes))


def new_host(
    policies: MemoryPolicies | None = None,
    machine: Machine | None = None,
    without_cpus: WithoutCpus = WithoutCpus.EXCLUDE,
    memory_manager_policy: str = "Static",
    topology_manager_policy: str = "best-effort",
) -> Host:
    policy = Policy(
        reserved_memory=RESERVED,
        memory_policies=MemoryPolicies(ALL) if policies is None else policies,
        memory_nodes=MemoryNodes(without_cpus),
        memory_manager_policy=memory_manager_policy,
        topology_manager_policy=topology_manager_policy,
    )
    return Host(Engine(new_context(machine or four_nodes(), policy)))


def create(
    host: Host,
    annotation: str = "",
    *,
    qos: str = "",
    memory: int = 200 * MI,
    mems: str = "",
    devices: tuple[str, ...] = (),
    cpus: str = "",
    obstacle: str = "",
    missing: PolicyMode | None = None,
    namespace: str = "ns",
    uid: str = "a",
) -> Answer:
    """Create a container of a new pod; `qos` is the level of its cgroup parent."""
    annotations = {"memory-policy.numamem.io": annotation} if annotation else {}
    pod = replace(host.run(uid, qos), namespace=namespace, annotations=annotations)
    container = events.Container(
        f"container-{uid}",
        pod.sandbox_id,
        "main",
        memory,
        cpuset_mems=mems,
        cpuset_cpus=cpus,
        device_nodes=tuple(map(NodeSet.parse, devices)),
    )
    support = PolicySupport(obstacle, frozenset({missing}) if missing else frozenset())
    request = PolicyRequest(annotation, "kata", support)
    return handle(host.engine, events.CreateContainer(pod, container, policy_request=request))


def policy_in(answer: Answer) -> MemoryPolicy | None:
    return None if answer.adjustment is None else answer.adjustment.memory_policy


def names(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


def cause(answer: Answer) -> object:
    return fields_of(answer.records[-1])["cause"]


def test_a_pinned_container_gets_the_policy_on_its_nodes() -> None:
    answer = create(new_host(), "interleave", memory=1200 * MI)
    assert answer.adjustment == Adjustment(
        "0-1", memory_policy=MemoryPolicy(INTERLEAVE, NodeSet({0, 1}))
    )
    assert names(answer) == ["admitted", "memory_policy_set"]
    assert fields_of(answer.records[-1]) == {
        "pod": "pod-a",
        "namespace": "ns",
        "container": "main",
        "pod_uid": "a",
        "container_id": "container-a",
        "policy": "interleave",
        "source": "annotation",
        "runtime_handler": "kata",
        "nodes": "0-1",
    }


def test_the_accounting_is_that_without_a_policy() -> None:
    with_policy, without = new_host(), new_host(MemoryPolicies())
    create(with_policy, "interleave")
    create(without, "interleave")
    assert with_policy.engine.state == without.engine.state


@pytest.mark.parametrize("qos", ["burstable/", "besteffort/"])
def test_a_container_that_is_not_managed_gets_the_policy_on_all_nodes(qos: str) -> None:
    answer = create(new_host(), "bind", qos=qos)
    expected = MemoryPolicy(PolicyMode.BIND, NodeSet({0, 1, 2, 3}))
    assert answer.adjustment == Adjustment(memory_policy=expected)
    assert names(answer) == ["not_managed", "memory_policy_set"]


def test_the_plugin_need_not_manage_memory() -> None:
    answer = create(new_host(memory_manager_policy="None"), "interleave")
    assert policy_in(answer) == MemoryPolicy(INTERLEAVE, NodeSet({0, 1, 2, 3}))


@pytest.mark.parametrize("action", [WithoutCpus.EXCLUDE, WithoutCpus.LAST_RESORT])
def test_nodes_without_cpus_are_left_out_of_all_nodes(action: WithoutCpus) -> None:
    host = new_host(machine=machine(cpuless=2), without_cpus=action)
    answer = create(host, "interleave", qos="burstable/")
    assert policy_in(answer) == MemoryPolicy(INTERLEAVE, NodeSet({0, 1, 3}))
    used = new_host(machine=machine(cpuless=2), without_cpus=WithoutCpus.USE)
    answer = create(used, "interleave", qos="burstable/")
    assert policy_in(answer) == MemoryPolicy(INTERLEAVE, NodeSet({0, 1, 2, 3}))


def test_the_runtimes_own_nodes_limit_the_policy() -> None:
    host = new_host(machine=machine(cpuless=2, empty=1))
    for uid, qos in {"a": "", "b": "burstable/"}.items():
        answer = create(host, "interleave", uid=uid, qos=qos, mems="1-2,7")
        assert policy_in(answer) == MemoryPolicy(INTERLEAVE, NodeSet({2}))


@pytest.mark.parametrize(
    ("mems", "text"),
    [
        ("x", "its cpuset.mems 'x' is not a list of NUMA nodes"),
        ("7", "there is no memory on its NUMA nodes 7"),
    ],
)
def test_nodes_that_cannot_be_used(mems: str, text: str) -> None:
    answer = create(new_host(), "interleave", qos="burstable/", mems=mems)
    assert answer.adjustment is None
    assert names(answer) == ["not_managed", "memory_policy_ignored"]
    assert cause(answer) == text


def test_a_machine_without_memory_on_its_nodes() -> None:
    nodes = tuple(replace(node, memory_bytes=0, hugepages={}) for node in four_nodes().nodes)
    policy = Policy(
        memory_manager_policy="None",
        memory_policies=MemoryPolicies(ALL),
        host_reservation=HostReservation(eviction_hard={"memory.available": "0"}),
    )
    host = Host(Engine(new_context(Machine(nodes), policy)))
    assert cause(create(host, "bind")) == "there is no memory on the machine's NUMA nodes"


def test_preferred_nodes_are_those_of_devices_then_of_cpus() -> None:
    preferred = PolicyMode.PREFERRED
    host = new_host()
    big = 1200 * MI
    answer = create(host, "preferred", memory=big, devices=("3",), cpus="8-15")
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "2-3"
    assert policy_in(answer) == MemoryPolicy(preferred, NodeSet({3}))
    host = new_host()
    answer = create(host, "preferred", memory=big, cpus="4-7")
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert policy_in(answer) == MemoryPolicy(preferred, NodeSet({1}))
    # A container without nodes of its own may have a parent that lacks the nodes of its CPUs.
    answer = create(host, "preferred", qos="burstable/", cpus="4-7", uid="b")
    assert policy_in(answer) == MemoryPolicy(preferred, NodeSet({0, 1, 2, 3}))


def test_devices_and_cpus_have_no_effect_with_the_policy_none() -> None:
    host = new_host(topology_manager_policy="none")
    answer = create(host, "preferred", memory=1200 * MI, devices=("1",))
    assert answer.adjustment is not None
    assert str(getattr(policy_in(answer), "nodes", "")) == answer.adjustment.cpuset_mems


def test_the_default_of_a_namespace() -> None:
    policies = MemoryPolicies((PolicyMode.BIND,), defaults={"shop": PolicyMode.LOCAL})
    host = new_host(policies)
    answer = create(host, namespace="shop")
    assert policy_in(answer) == MemoryPolicy(PolicyMode.LOCAL)
    assert fields_of(answer.records[-1])["source"] == "default"
    assert policy_in(create(host, namespace="other", uid="b")) is None
    answer = create(host, "bind", namespace="shop", uid="c")
    assert getattr(policy_in(answer), "mode", None) is PolicyMode.BIND


def test_an_annotation_that_is_ignored_leaves_the_default() -> None:
    policies = MemoryPolicies((PolicyMode.BIND,), defaults={"shop": PolicyMode.LOCAL})
    answer = create(new_host(policies), "interleave", namespace="shop")
    assert policy_in(answer) == MemoryPolicy(PolicyMode.LOCAL)
    ignored, made = "memory_policy_ignored", "memory_policy_set"
    assert names(answer) == ["admitted", ignored, made]


@pytest.mark.parametrize(
    ("annotation", "policies", "text"),
    [
        (
            "interleave",
            MemoryPolicies(),
            "memoryPolicy.modes is empty, so annotations choose no policy",
        ),
        ("bind", MemoryPolicies((INTERLEAVE,)), "memoryPolicy.modes allows only interleave"),
        (
            "bind",
            MemoryPolicies(ALL, ("shop",)),
            "memoryPolicy.namespaces does not list the pod's namespace",
        ),
        ("all", MemoryPolicies(ALL), f"it is none of {', '.join(ALL)}"),
    ],
)
def test_an_annotation_never_exceeds_the_settings(
    annotation: str, policies: MemoryPolicies, text: str
) -> None:
    answer = create(new_host(policies), annotation)
    assert answer.adjustment == Adjustment("0")
    assert names(answer) == ["admitted", "memory_policy_ignored"]
    assert cause(answer) == text
    assert answer.records[-1].level == ("warning" if policies.is_active else "debug")
    rejects = replace(policies, on_unsupported=REJECT)
    answer = create(new_host(rejects), annotation)
    if not policies.is_active:
        assert answer.refusal is None
        return
    assert names(answer) == ["memory_policy_rejected"]
    assert answer.refusal == (
        "numamem: container main of pod ns/pod-a refused, MemoryPolicyError: the memory policy "
        f"{annotation!r} of the pod's annotation cannot be set: {text}"
    )


def test_a_runtime_that_sets_no_policies() -> None:
    answer = create(new_host(), "bind", obstacle="it is old")
    assert answer.adjustment == Adjustment("0")
    assert cause(answer) == "it is old"
    policies = MemoryPolicies(defaults={"ns": INTERLEAVE}, on_unsupported=REJECT)
    host = new_host(policies)
    before = host.engine.state
    answer = create(host, obstacle="it is old")
    assert answer.refusal is not None
    assert "'interleave' of memoryPolicy.defaults cannot be set: it is old" in answer.refusal
    assert answer.adjustment is None
    assert host.engine.state.accounting == before.accounting


def test_a_mode_that_the_kernel_lacks() -> None:
    host, weighted = new_host(), PolicyMode.WEIGHTED_INTERLEAVE
    answer = create(host, weighted, missing=weighted)
    assert policy_in(answer) is None
    assert cause(answer) == "the kernel lacks the mode weighted-interleave"
    assert policy_in(create(host, "bind", missing=weighted, uid="b")) is not None


def test_the_runtime_does_not_matter_to_a_container_without_a_policy() -> None:
    answer = create(new_host(MemoryPolicies(ALL, on_unsupported=REJECT)), obstacle="it is old")
    assert answer.adjustment == Adjustment("0")
    assert names(answer) == ["admitted"]


def test_a_container_that_fits_nowhere_is_refused_as_without_a_policy() -> None:
    answer = create(new_host(), "bind", memory=9 * GI)
    assert answer.refusal is not None
    assert names(answer) == ["rejected"]


def test_a_refused_policy_leaves_the_reason_to_no_rejection() -> None:
    host = new_host(MemoryPolicies(ALL, on_unsupported=REJECT))
    assert create(host, "no", memory=200 * MI).refusal
    assert host.engine.rejection is None
    assert policy_in(create(host, "local", uid="b")) == MemoryPolicy(PolicyMode.LOCAL)
