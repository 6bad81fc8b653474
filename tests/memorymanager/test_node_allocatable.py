import re
from random import Random

import pytest

from nri_numamem.memorymanager import (
    HostReservation,
    Reservation,
    ReservedMemoryError,
    derive,
    resolve_reserved,
)
from nri_numamem.numa import Machine, NumaNode

MI, GI = 2**20, 2**30
MACHINE = Machine((NumaNode(0, 8 * GI, {GI: 2}), NumaNode(1, 2 * GI), NumaNode(2, 0)))


def parts(host: HostReservation) -> dict[str, dict[str, int]]:
    return {resource: dict(amounts) for resource, amounts in host.parts(10 * GI).items()}


def test_without_settings_the_kubelets_eviction_threshold_counts() -> None:
    assert not HostReservation().is_given
    assert parts(HostReservation()) == {"memory": {"evictionHard": 100 * MI}}


def test_three_settings_add_up() -> None:
    host = HostReservation(
        {"memory": "500Mi", "cpu": "1", "hugepages-1048576Ki": "1Gi"},
        {"memory": "1Gi", "ephemeral-storage": "1Gi"},
        {"memory.available": "5%", "nodefs.available": "10%"},
    )
    assert host.is_given
    assert parts(host) == {
        "memory": {"kubeReserved": 500 * MI, "systemReserved": GI, "evictionHard": GI // 2},
        "hugepages-1Gi": {"kubeReserved": GI},
    }


def test_an_eviction_setting_without_memory_reserves_nothing() -> None:
    assert parts(HostReservation(eviction_hard={"nodefs.available": "10%"})) == {}
    assert parts(HostReservation({"memory": "0"}, {}, {"memory.available": "0%"})) == {}


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        (HostReservation({"memory": "x"}), "kubeReserved.memory: 'x' is not a quantity"),
        (HostReservation({}, {"hugepages-3Mi": "1"}), "systemReserved.hugepages-3Mi: "),
        (
            HostReservation({}, {}, {"memory.available": "x%"}),
            "evictionHard.memory.available: 'x%' is not a quantity",
        ),
        (HostReservation({"memory": "5%"}), "kubeReserved.memory: '5%' is not a quantity"),
    ],
)
def test_invalid_amounts(host: HostReservation, problem: str) -> None:
    with pytest.raises(ReservedMemoryError, match=f"^{re.escape(problem)}"):
        host.parts(10 * GI)


def test_shares_are_proportional_to_memory_less_hugepages() -> None:
    """Without its hugepages, node 0 has 6 GiB and node 1 has 2 GiB."""
    assert derive({"memory": 1000 * MI}, MACHINE) == {
        0: {"memory": 750 * MI},
        1: {"memory": 250 * MI},
    }
    assert derive({"memory": 1001, "hugepages-1Gi": 2 * GI}, MACHINE) == {
        0: {"hugepages-1Gi": 2 * GI},
        1: {"memory": 1001},
    }
    assert derive({"memory": 0}, MACHINE) == {}


@pytest.mark.parametrize("seed", range(5))
def test_shares_add_up_on_random_machines(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        nodes = [NumaNode(n, random.randrange(GI), {2 * MI: random.randrange(9)}) for n in range(5)]
        pages = sum(node.hugepages[2 * MI] for node in nodes)
        totals = {"memory": random.randrange(100 * MI), "hugepages-2Mi": 2 * MI * pages // 2}
        shares = derive(totals, Machine(tuple(nodes)))
        for resource, total in totals.items():
            assert sum(limits.get(resource, 0) for limits in shares.values()) == total
        pools = {node.node_id: node.hugepages[2 * MI] for node in nodes}
        for node_id, limits in shares.items():
            assert limits.get("hugepages-2Mi", 0) <= 2 * MI * pools[node_id]


def test_a_resource_that_no_node_has_cannot_be_reserved() -> None:
    with pytest.raises(ReservedMemoryError, match="2Mi of hugepages-2Mi are reserved, but no"):
        derive({"hugepages-2Mi": 2 * MI}, MACHINE)


def test_without_reservations_per_node_the_hosts_is_distributed() -> None:
    assert resolve_reserved((), HostReservation(), MACHINE) == {
        0: {"memory": 75 * MI},
        1: {"memory": 25 * MI},
        2: {},
    }


@pytest.mark.parametrize(
    ("host", "problem", "path"),
    [
        (
            HostReservation({"memory": "20Gi"}),
            (
                "kubeReserved.memory: kubeReserved 20Gi + evictionHard 100Mi = 20580Mi of memory "
                "are reserved, but the NUMA nodes have 8Gi besides their hugepages; reserve less"
            ),
            ("kubeReserved", "memory"),
        ),
        (
            HostReservation({}, {}, {"memory.available": "100%"}),
            "evictionHard.memory.available: evictionHard 10Gi of memory are reserved, but ",
            ("evictionHard", "memory.available"),
        ),
        (
            HostReservation({}, {}, {"memory.available": "110%"}),
            "evictionHard.memory.available: 110% is more than 100%; write a smaller percentage",
            ("evictionHard", "memory.available"),
        ),
        (
            HostReservation({"hugepages-1Gi": "9Gi"}),
            (
                "kubeReserved.hugepages-1Gi: kubeReserved 9Gi of hugepages-1Gi are reserved, but "
                "the NUMA nodes have 2Gi; reserve less"
            ),
            ("kubeReserved", "hugepages-1Gi"),
        ),
    ],
)
def test_the_hosts_reservation_must_fit(
    host: HostReservation, problem: str, path: tuple[str, ...]
) -> None:
    with pytest.raises(ReservedMemoryError, match=f"^{re.escape(problem)}") as caught:
        resolve_reserved((), host, MACHINE)
    assert caught.value.path == path


def test_reservations_per_node_alone_are_not_compared() -> None:
    written = [Reservation(1, {"memory": GI})]
    assert resolve_reserved(written, HostReservation(), MACHINE) == {
        0: {},
        1: {"memory": GI},
        2: {},
    }


def test_reservations_per_node_must_add_up_to_the_hosts() -> None:
    host = HostReservation({"memory": "500Mi"}, {"memory": "424Mi"})
    right = [Reservation(0, {"memory": 24 * MI}), Reservation(1, {"memory": 1000 * MI})]
    assert resolve_reserved(right, host, MACHINE)[1] == {"memory": 1000 * MI}


@pytest.mark.parametrize(
    ("written", "host", "problem"),
    [
        (
            [Reservation(0, {"memory": GI})],
            HostReservation({"memory": "500Mi"}, {"memory": "500Mi"}),
            (
                'the total amount "1Gi" of type "memory" is not equal to the value "1100Mi" '
                "determined by Node Allocatable feature; kubeReserved 500Mi + systemReserved 500Mi "
                "+ evictionHard 100Mi = 1100Mi, reservedMemory adds up to 1Gi; "
                "write reservedMemory: [{numaNode: 0, limits: {memory: 825Mi}}, "
                "{numaNode: 1, limits: {memory: 275Mi}}]"
            ),
        ),
        (
            [Reservation(0, {"memory": 100 * MI, "hugepages-1Gi": GI})],
            HostReservation({"cpu": "1"}),
            (
                'the total amount "1Gi" of type "hugepages-1Gi" is not equal to the value "0" '
                "determined by Node Allocatable feature; nothing is reserved, reservedMemory "
                "adds up to 1Gi; add hugepages-1Gi to kubeReserved or systemReserved, or remove "
                "it from reservedMemory"
            ),
        ),
        (
            [Reservation(0, {"memory": 90 * MI, "hugepages-1Gi": GI})],
            HostReservation({"hugepages-1Gi": "1Gi"}),
            (
                'the total amount "90Mi" of type "memory" is not equal to the value "100Mi" '
                "determined by Node Allocatable feature; evictionHard 100Mi, "
                "reservedMemory adds up to 90Mi; write reservedMemory: "
                "[{numaNode: 0, limits: {memory: 75Mi, hugepages-1Gi: 1Gi}}, "
                "{numaNode: 1, limits: {memory: 25Mi}}]"
            ),
        ),
        (
            [Reservation(0, {"memory": 100 * MI, "hugepages-1Gi": GI})],
            HostReservation({"hugepages-1Gi": "2Gi"}),
            (
                'the total amount "1Gi" of type "hugepages-1Gi" is not equal to the value "2Gi" '
                "determined by Node Allocatable feature; kubeReserved 2Gi, reservedMemory "
                "adds up to 1Gi; write reservedMemory: "
                "[{numaNode: 0, limits: {hugepages-1Gi: 2Gi, memory: 100Mi}}]"
            ),
        ),
    ],
)
def test_the_error_has_a_line_to_paste(
    written: list[Reservation], host: HostReservation, problem: str
) -> None:
    with pytest.raises(ReservedMemoryError, match=f"^{re.escape(problem)}$"):
        resolve_reserved(written, host, MACHINE)
