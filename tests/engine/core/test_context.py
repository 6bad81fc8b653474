"""The context: policy, machine, and which pods are managed."""

import pytest

from nri_numamem.engine.core.context import Context, qos_of_cgroup_parent
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import QosClass, Reservation, ReservedMemoryError
from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryNodes,
    MemoryNodesError,
    NodeClass,
    NodeSet,
    NumaNode,
    WithoutCpus,
)

MI = 1 << 20
GI = 1 << 30
MACHINE = Machine((NumaNode(0, GI), NumaNode(1, GI)))
NODES = (NumaNode(0, GI, cpus=CpuSet([0]), memory_tier=4), NumaNode(1, GI, is_movable_only=True))
RESERVED = (Reservation(0, {"memory": MI}), Reservation(1, {"memory": 2 * MI}))

UID = "6f2d4c1e-8a77-4f6b-9d5e-0a1b2c3d4e5f"
SLICE_UID = UID.replace("-", "_")
GUARANTEED, BURSTABLE = QosClass.GUARANTEED, QosClass.BURSTABLE
BEST_EFFORT, UNKNOWN = QosClass.BEST_EFFORT, QosClass.UNKNOWN


def context(**values: object) -> Context:
    return Context.of(MACHINE, Policy(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "is_strict"),
    [
        ("none", False),
        ("best-effort", False),
        ("restricted", True),
        ("single-numa-node", True),
    ],
)
def test_the_topology_policy(policy: str, *, is_strict: bool) -> None:
    made = context(topology_manager_policy=policy, topology_manager_scope="pod")
    assert made.is_strict is is_strict
    assert made.places_pods is (policy != "none")


def test_a_reservation_needs_its_node() -> None:
    with pytest.raises(ReservedMemoryError):
        context(reserved_memory=(Reservation(7, {"memory": 1}),))


@pytest.mark.parametrize(
    ("values", "pod", "reason"),
    [
        ({}, PodSandbox("s", "u", "ns", "p", "/kubepods/podu"), None),
        (
            {"memory_manager_policy": "None"},
            PodSandbox("s", "u", "ns", "p", "/kubepods/podu"),
            "memoryManagerPolicy is None",
        ),
        ({}, PodSandbox("s", "u", "ns", "p", "/kubepods/burstable/podu"), "its pod is Burstable"),
        ({}, PodSandbox("s", "u", "ns", "p", "/x"), "no QoS class in the cgroup parent '/x'"),
        (
            {},
            PodSandbox("s", "", "ns", "p", "/kubepods/podu"),
            "the runtime does not send the uid of its pod",
        ),
    ],
)
def test_why_a_pod_is_not_managed(
    values: dict[str, object], pod: PodSandbox, reason: str | None
) -> None:
    assert context(**values).unmanaged_reason(pod) == reason
    assert context(**values).manages(pod) is (reason is None)


def test_hints_of_other_providers_count_if_the_policy_merges_hints() -> None:
    container = Container("c", "s", "main", device_nodes=(NodeSet([1]),))
    merged = context().other_providers_of(container)
    assert merged == OtherProviders(devices=(NodeSet([1]),))
    assert context().other_providers_of(Container("c", "s", "main")) is NO_OTHER_PROVIDERS
    alone = context(topology_manager_policy="none")
    assert alone.other_providers_of(container) is NO_OTHER_PROVIDERS


def excluding_context(**values: object) -> Context:
    cpus = {0: CpuSet([0]), 1: CpuSet([1]), 2: CpuSet(), 3: CpuSet()}
    nodes = tuple(NumaNode(n, GI, cpus=found, distances={0: 10}) for n, found in cpus.items())
    return Context.of(Machine(nodes), Policy(**values))  # type: ignore[arg-type]


def test_excluded_nodes_are_in_no_part_of_the_context_but_the_machine() -> None:
    made = excluding_context()
    assert made.machine.node_set == NodeSet([0, 1, 2, 3])
    assert list(made.empty_accounting().machine_state) == [0, 1]
    assert list(made.reserved) == [0, 1]
    assert list(made.topology.preferences.distances.rows) == [0, 1]
    assert not made.topology.preferences.last_resort
    assert made.uses(NodeSet([0, 1]))
    assert not made.uses(NodeSet([1, 2]))


def test_last_resort_nodes_are_in_the_accounting() -> None:
    made = excluding_context(memory_nodes=MemoryNodes(WithoutCpus.LAST_RESORT))
    assert list(made.empty_accounting().machine_state) == [0, 1, 2, 3]
    assert made.topology.preferences.last_resort == NodeSet([2, 3])


def test_settings_that_exclude_every_node_are_refused() -> None:
    override = {0: NodeClass.CPULESS, 1: NodeClass.CPULESS}
    with pytest.raises(MemoryNodesError, match="leave at least one node dram"):
        excluding_context(memory_nodes=MemoryNodes(override=override))


def test_the_first_record_has_policy_reservations_and_classes() -> None:
    policy = Policy(notes=("a note",), is_managed_twice=True)
    (record,) = Context.of(Machine(NODES), policy).start_records("1.2")
    assert (record.event, record.level) == ("machine", "warning")
    assert fields_of(record)["version"] == "1.2"
    assert fields_of(record)["notes"] == ["a note"]
    assert fields_of(record)["reserved_memory_source"] == "derived"
    assert fields_of(record)["nodes"] == {
        "0": {
            "memory": GI,
            "reserved": {"memory": 100 * MI},
            "class": "dram",
            "use": "used",
            "memory_tier": 4,
        },
        "1": {"memory": GI, "reserved": {}, "class": "movable", "use": "excluded"},
    }


def test_a_reservation_on_an_excluded_node_is_a_warning() -> None:
    machine, warning = Context.of(Machine(NODES), Policy(reserved_memory=RESERVED)).start_records(
        "1.2"
    )
    assert machine.level == "info"
    assert fields_of(machine)["reserved_memory_source"] == "settings"
    assert (warning.event, warning.level) == ("reservation_without_effect", "warning")
    assert fields_of(warning) == {
        "setting": "reservedMemory[1]",
        "nodes": "1",
        "limits_bytes": {"memory": 2 * MI},
    }
    used = Policy(reserved_memory=RESERVED, memory_nodes=MemoryNodes(WithoutCpus.USE))
    assert len(Context.of(Machine(NODES), used).start_records("1.2")) == 1


def test_a_machine_without_cpus_is_a_warning() -> None:
    nodes = (NumaNode(0, GI), NumaNode(3, GI))
    machine, warning = Context.of(Machine(nodes), Policy()).start_records("1.2")
    assert (warning.event, warning.level) == ("no_node_has_cpus", "warning")
    assert fields_of(warning) == {"numa_nodes": "0,3"}
    found = fields_of(machine)["nodes"]
    assert isinstance(found, dict)
    assert [node["use"] for node in found.values()] == ["used", "used"]


@pytest.mark.parametrize(
    ("cgroup_parent", "expected"),
    [
        (f"/kubepods/pod{UID}", GUARANTEED),
        (f"/kubepods/burstable/pod{UID}", BURSTABLE),
        (f"/kubepods/besteffort/pod{UID}", BEST_EFFORT),
        (f"/kubelet/kubepods/pod{UID}", GUARANTEED),
        (f"/kubelet/kubepods/burstable/pod{UID}", BURSTABLE),
        (f"/kubepods.slice/kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE_UID}.slice",
            BURSTABLE,
        ),
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE_UID}.slice",
            BEST_EFFORT,
        ),
        (f"kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (f"kubepods-burstable-pod{SLICE_UID}.slice", BURSTABLE),
        (f"kubepods-besteffort-pod{SLICE_UID}.slice", BEST_EFFORT),
        (f"kubelet-kubepods-pod{SLICE_UID}.slice", GUARANTEED),
        (f"kubelet-kubepods-burstable-pod{SLICE_UID}.slice", BURSTABLE),
        ("/kubepods/pod0123456789abcdef0123456789abcdef/", GUARANTEED),  # a static pod's hash
    ],
)
def test_the_kubelets_patterns(cgroup_parent: str, expected: QosClass) -> None:
    assert qos_of_cgroup_parent(cgroup_parent) is expected


@pytest.mark.parametrize(
    "cgroup_parent",
    [
        "",
        "/",
        "system.slice",
        "/kubepods",  # cgroupsPerQOS=false
        "/kubepods/pod",
        "/kubepods/burstable",
        f"/my-burstable/pod{UID}",
        f"/burstable/pod{UID}",
        f"/elsewhere/burstable/pod{UID}",
        f"pod{UID}",
        f"user-pod{SLICE_UID}.slice",
        "machine.slice",
        "/kubepods" + "/a" * 5000 + "/kubepods/pod1",
    ],
)
def test_a_cgroup_that_is_not_the_kubelets_is_unknown(cgroup_parent: str) -> None:
    assert qos_of_cgroup_parent(cgroup_parent) is UNKNOWN


def test_a_root_with_a_class_in_its_name_does_not_decide() -> None:
    parent = f"/my-burstable/kubepods/pod{UID}"
    assert qos_of_cgroup_parent(parent) is GUARANTEED
    escaped = f"/my\\x2dburstable.slice/my\\x2dburstable-kubepods-pod{SLICE_UID}.slice"
    assert qos_of_cgroup_parent(escaped) is GUARANTEED
