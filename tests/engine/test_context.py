"""The context: policy, machine, and which pods are managed."""

import pytest

from nri_numamem.engine.context import Context
from nri_numamem.engine.events import Container, PodSandbox
from nri_numamem.engine.policy import Policy
from nri_numamem.engine.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.memorymanager import Reservation, ReservedMemoryError
from nri_numamem.numa import Machine, NodeSet, NumaNode

GI = 1 << 30
MACHINE = Machine((NumaNode(0, GI), NumaNode(1, GI)))


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


def test_nodes_of_the_machine_may_be_assigned() -> None:
    made = context()
    assert made.allows(made.empty_accounting(), NodeSet([0, 1]))
    assert not made.allows(made.empty_accounting(), NodeSet([0, 2]))


def test_the_record_names_policy_and_reservations() -> None:
    record = context(notes=("a note",), is_managed_twice=True).record("1.2")
    assert record.level == "warning"
    assert record.fields["version"] == "1.2"
    assert record.fields["notes"] == ["a note"]
    assert context().record("1.2").level == "info"
