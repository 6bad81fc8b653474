"""Which evidence shows that a container's memory request is its limit, and what refutes it."""

from dataclasses import replace

import pytest

from nri_numamem.memorymanager import default_state
from nri_numamem.memorymanager.burstable import (
    BurstableFacts,
    BurstablePods,
    Evidence,
    find_evidence,
    is_refuted,
    mask_unavailable_memory,
    oom_score_adj_of,
)
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.numa import MEMORY, Machine, NumaNode

GI = 1 << 30
ALL = tuple(Evidence)
RESERVATION, ANNOTATION, LIMITS = ALL
NO_FACTS = BurstableFacts()


def kubelet_score(request: int, capacity: int) -> int:
    """As GetContainerOOMScoreAdjust of the kubelet's pkg/kubelet/qos/policy.go."""
    score = 1000 - (1000 * request) // capacity
    return 3 if score < 3 else 999 if score == 1000 else score


def found(
    settings: BurstablePods,
    facts: BurstableFacts = NO_FACTS,
    annotation: str = "",
    limit: int | None = 10 * GI,
    namespace: str = "db",
) -> Evidence | str:
    return find_evidence(settings, namespace, annotation, limit, facts, 100 * GI)


def test_the_setting_is_off_by_default() -> None:
    assert not BurstablePods().is_active
    assert not BurstablePods().allows("db")
    cause = "burstablePods.evidence is empty"
    assert found(BurstablePods(), BurstableFacts(10 * GI), "guaranteed") == cause


def test_each_evidence_counts_only_if_it_is_accepted() -> None:
    reserved = BurstableFacts(reserved_bytes=10 * GI)
    assert found(BurstablePods((RESERVATION,)), reserved) is RESERVATION
    assert found(BurstablePods((ANNOTATION,)), annotation="guaranteed") is ANNOTATION
    assert found(BurstablePods((LIMITS,), ("db",))) is LIMITS
    nothing = "none of burstablePods.evidence (memory-reservation) applies"
    assert found(BurstablePods((RESERVATION,)), annotation="guaranteed") == nothing
    nothing = "none of burstablePods.evidence (annotation) applies"
    assert found(BurstablePods((ANNOTATION,)), reserved) == nothing
    assert found(BurstablePods((ANNOTATION,)), annotation="yes") == nothing
    assert found(BurstablePods((RESERVATION, LIMITS), ("db",)), reserved) is RESERVATION
    assert found(BurstablePods((RESERVATION, LIMITS), ("db",))) is LIMITS


def test_only_listed_namespaces_and_containers_with_a_limit() -> None:
    settings = BurstablePods((LIMITS,), ("db", "cache"))
    assert found(settings, namespace="cache") is LIMITS
    cause = "burstablePods.namespaces does not list its namespace"
    assert found(settings, namespace="web") == cause
    for limit in (None, 0):
        assert found(settings, limit=limit) == "the container has no memory limit"


def test_a_reservation_that_is_not_the_limit_refutes_everything() -> None:
    settings = BurstablePods(ALL, ("db",))
    cause = "its memory.low or memory.min differs from its memory limit"
    assert found(settings, BurstableFacts(10 * GI - 1), "guaranteed") == cause
    assert found(settings, BurstableFacts(10 * GI), "guaranteed") is RESERVATION


def test_a_score_refutes_statements_and_not_a_reservation() -> None:
    cause = "its oom_score_adj shows a memory request below its memory limit"
    for evidence in (ANNOTATION, LIMITS):
        settings = BurstablePods((evidence,), ("db",))
        assert found(settings, BurstableFacts(None, 901), "guaranteed") == cause
        assert found(settings, BurstableFacts(None, 900), "guaranteed") is evidence
    settings = BurstablePods((RESERVATION,))
    assert found(settings, BurstableFacts(10 * GI, 999)) is RESERVATION


@pytest.mark.parametrize("capacity", [GI, 3 * GI - 4096, 1000 * GI + 12288, 7])
def test_a_request_of_the_limit_is_never_refuted(capacity: int) -> None:
    for part in range(0, 1010, 3):
        limit = capacity * part // 1000 + part % 5
        assert not is_refuted(limit, kubelet_score(limit, capacity), capacity)
        # Sidecars, pod-level resources and critical pods have lower values.
        assert not is_refuted(limit, -997, capacity)


def test_a_request_one_step_below_the_limit_is_refuted() -> None:
    capacity = 1000 * GI
    assert is_refuted(500 * GI, kubelet_score(500 * GI - 1, capacity), capacity)
    assert not is_refuted(500 * GI + 1, kubelet_score(500 * GI, capacity), capacity)
    assert not is_refuted(500 * GI, None, capacity)
    assert not is_refuted(500 * GI, 999, 0)
    # Both bounds of the kubelet.
    assert not is_refuted(1, 999, capacity)
    assert not is_refuted(2 * capacity, 3, capacity)
    assert is_refuted(capacity, 4, capacity)


@pytest.mark.parametrize(
    ("wanted", "present", "expected"),
    [(None, 900, None), (-500, None, None), (-500, 900, -500), (500, 300, None), (7, 7, None)],
)
def test_a_score_is_only_lowered(
    wanted: int | None, present: int | None, expected: int | None
) -> None:
    settings = BurstablePods(ALL, oom_score_adj=wanted)
    assert oom_score_adj_of(settings, BurstableFacts(None, present)) == expected


def test_memory_that_the_kernel_lacks_is_masked_and_free_again_afterwards() -> None:
    nodes = (NumaNode(node, 4 * GI, {}, distances={0: 10, 1: 10, 2: 10}) for node in range(3))
    state = default_state(Machine(tuple(nodes)), {})
    masked = mask_unavailable_memory(MaskedState(state), {0: GI, 1: 9 * GI})
    free = [masked.state.machine_state[node].table(MEMORY).free for node in range(3)]
    assert free == [GI, 4 * GI, 4 * GI]
    assert masked.amounts == {0: {MEMORY: 3 * GI}}
    assert masked.unmask(masked.state) == state


def test_masked_hugepages_stay_masked() -> None:
    nodes = (NumaNode(0, 4 * GI, {}, distances={0: 10}),)
    state = default_state(Machine(nodes), {})
    earlier = MaskedState(state, {0: {"hugepages-2Mi": 5}})
    both = mask_unavailable_memory(earlier, {0: 0})
    assert both.amounts == {0: {"hugepages-2Mi": 5, MEMORY: 4 * GI}}
    assert replace(both, amounts={}).unmask(both.state) == both.state
