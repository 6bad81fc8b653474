"""Remedies, from the records of decisions alone."""

import pytest

from nri_numamem.cli.explain.advice import (
    Advice,
    advice_of,
    amounts_text,
    free_on,
    obstacles_text,
    request_of,
)
from nri_numamem.cli.explain.select import Names
from nri_numamem.observe.history.lines import Entry

GI = 1 << 30
NAMES = Names("ns", "web 0", "u", "c")
GET = "kubectl get pod -n ns 'web 0' -o yaml > pod.yaml"
TRY = "nri-numamem simulate --now pod.yaml"


def entry(event: str, container: str = "c", **fields: object) -> Entry:
    return Entry(1.0, event, "", {"container": container, **fields})


def refused(**fields: object) -> Entry:
    usual: dict[str, object] = {
        "container": "c",
        "request_bytes": {"memory": 8 * GI, "hugepages-1Gi": 0},
        "free_bytes": {"0": {"memory": GI}, "1": {"memory": 2 * GI}},
        "candidates": [
            {"nodes": "0", "rule": "not_enough_free"},
            {"nodes": "1", "rule": "not_enough_free"},
        ],
        "message": "facts; remedy: make room on NUMA nodes 0-1; the kubelet's sentence",
    }
    return Entry(1.0, "rejected", "", {**usual, **fields})


def holder(pod: str, nodes: str, size_gi: int) -> dict[str, object]:
    return {"namespace": "db", "pod": pod, "nodes": nodes, "held_bytes": {"memory": size_gi * GI}}


def test_the_smallest_pod_whose_end_is_enough() -> None:
    holders = [holder("large", "0", 50), holder("right", "1", 6), holder("small", "0", 6)]
    advice = advice_of(NAMES, refused(holders=holders), ())
    assert advice.remedy == (
        "ending db/right frees 6Gi memory on NUMA node 1, which then holds the request"
    )
    assert advice.commands == (GET, "nri-numamem simulate --now --without db/right pod.yaml")


@pytest.mark.parametrize(
    "holders", [[], [holder("group", "0-1", 90)], [holder("", "0", 50)], [holder("x", "1", 2)]]
)
def test_otherwise_the_remedy_of_the_refusal(holders: list[object]) -> None:
    advice = advice_of(NAMES, refused(holders=holders), ())
    assert advice == Advice("make room on NUMA nodes 0-1", (GET, TRY))


def test_a_refusal_without_a_remedy() -> None:
    advice = advice_of(NAMES, refused(message=""), ())
    assert advice.remedy == "free memory on the NUMA nodes, or request less"


def unmanaged(container: str, *obstacles: str, **fields: object) -> Entry:
    return entry(
        "not_managed", container, qos_class="Burstable", qos_obstacles=[*obstacles], **fields
    )


def test_the_container_that_keeps_its_pod_from_being_guaranteed() -> None:
    front, proxy = unmanaged("front"), unmanaged("proxy", "no_memory_limit", "no_cpu_limit")
    advice = advice_of(NAMES, front, (front, proxy))
    assert advice.remedy.startswith("give proxy equal limits and requests for cpu and memory;")
    assert advice.commands == (GET, TRY)
    assert obstacles_text(proxy) == "no memory limit and no CPU limit"
    assert obstacles_text(unmanaged("x", "cpu_request_below_limit", "later")) == (
        "a CPU request below its limit and later"
    )


def test_what_nri_does_not_show_is_not_guessed() -> None:
    front = unmanaged("front")
    assert "NRI does not show memory requests" in advice_of(NAMES, front, (front,)).remedy


@pytest.mark.parametrize(
    ("decision", "remedy"),
    [
        (entry("not_managed", qos_class="Guaranteed", cause="memoryManagerPolicy is None"), "set "),
        (entry("not_managed", qos_class="BestEffort", cause="its pod is BestEffort"), "give every"),
        (entry("memory_policy_rejected", cause="x"), "correct the annotation or the setting"),
        (entry("burstable_not_pinned", cause="x"), "see docs/burstable-pods.md"),
        (entry("burstable_unpinned", cause="x"), "see docs/burstable-pods.md"),
        (entry("resize_rejected"), "free memory on its NUMA nodes"),
        (entry("unreported_container_found", outcome="unpinned"), "free memory on the NUMA nodes"),
        (entry("cpuset_mems_missing", remedy="restart the container"), "restart the container"),
        (entry("request_timed_out"), "restart the pod"),
        (entry("admitted"), ""),
        (None, ""),
    ],
)
def test_other_decisions(decision: Entry | None, remedy: str) -> None:
    found = advice_of(NAMES, decision, ()).remedy
    assert found.startswith(remedy)
    assert bool(found) is bool(remedy)


def test_amounts() -> None:
    assert amounts_text({"hugepages-1Gi": GI, "memory": 2 * GI}) == "2Gi memory, 1Gi hugepages-1Gi"
    assert amounts_text({"memory": 0}) == "nothing"
    assert free_on(refused(), "0-2") == {"memory": 3 * GI}
    assert free_on(entry("x", free_bytes=3), "0") == {}
    whole = refused(pod_request_bytes={"memory": 90 * GI})
    assert request_of(whole) == {"memory": 90 * GI}
    assert request_of(refused()) == {"memory": 8 * GI}
