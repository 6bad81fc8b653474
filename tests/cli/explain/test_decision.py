"""Labels and texts of decisions."""

from collections.abc import Mapping

import pytest

from nri_numamem.cli.decisions.names import Names
from nri_numamem.cli.explain.decision import (
    Advice,
    advice_of,
    commands_for,
    facts_of,
    free_on,
    obstacles_text,
)
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.numa import NodeSet
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import recorded


def test_a_resize_names_the_nodes_before() -> None:
    fields = {"previous_nodes": "0", "nodes": "0-1", "request_bytes": {"memory": 1 << 30}}
    assert list(facts_of(recorded(1, "resized", "", fields))) == [
        ("request", "1Gi memory"),
        ("before", "node 0"),
        ("nodes", "0-1"),
    ]


def test_a_hugepage_limit_that_the_plugin_set() -> None:
    limit = {"cpuset_mems": "1", "hugepage_limits_bytes": {"hugepages-1Gi": 2 << 30}}
    facts = dict(facts_of(recorded(1, "admitted", "", {"nodes": "1", "adjustment": limit})))
    assert facts["nodes"] == "1; hugepage limit 2Gi hugepages-1Gi"
    assert facts["merged"] == "any nodes, not preferred"


GI = 1 << 30
NAMES = Names("ns", "web 0", "u", "c")
GET = "kubectl get pod -n ns 'web 0' -o yaml > pod.yaml"
TRY = "nri-numamem simulate --now pod.yaml"


def test_a_refusal_names_for_whom_room_is_set_aside() -> None:
    text = "memory 8Gi on node 0 for ml/train-4"
    assert dict(facts_of(refused(set_aside=[text])))["earmarks"] == text
    assert "earmarks" not in dict(facts_of(refused()))


def entry(event: str, container: str = "c", **fields: object) -> Recorded:
    return recorded(1.0, event, "", {"container": container, **fields})


def refused(**fields: object) -> Recorded:
    usual: dict[str, object] = {
        "container": "c",
        "request_bytes": {"memory": 8 * GI, "hugepages-1Gi": 0},
        "free_bytes": {"0": {"memory": GI}, "1": {"memory": 2 * GI}},
        "candidates": [
            {"nodes": "0", "rule": "not_enough_free", "reason": "7Gi short"},
            {"nodes": "1", "rule": "not_enough_free", "reason": "6Gi short"},
        ],
        "message": "facts; remedy: make room on NUMA nodes 0-1; the kubelet's sentence",
    }
    return recorded(1.0, "rejected", "", {**usual, **fields})


REMEDIES: list[Mapping[str, RecordValue]] = [
    {"kind": "make_room", "text": "make room on NUMA node 1: 6Gi", "nodes": "1"},
    {"kind": "request_less", "text": "request at most 2Gi", "bytes": {"memory": 2 * GI}},
]


def test_the_remedies_of_a_refusal() -> None:
    advice = advice_of(NAMES, refused(remedies=REMEDIES), ())
    assert advice == Advice(tuple(REMEDIES), (GET, TRY))
    assert advice.texts == ("make room on NUMA node 1: 6Gi", "request at most 2Gi")


def test_a_refusal_that_nothing_on_the_host_remedies() -> None:
    assert advice_of(NAMES, refused(), ()) == Advice((), (GET, TRY))


def test_commands_without_pods() -> None:
    assert commands_for(NAMES, ["db/right", "x/y"]) == (
        GET,
        "nri-numamem simulate --now --without db/right --without x/y pod.yaml",
    )


def unmanaged(container: str, *obstacles: str, **fields: object) -> Recorded:
    return entry(
        "not_managed", container, qos_class="Burstable", qos_obstacles=[*obstacles], **fields
    )


def test_the_container_that_keeps_its_pod_from_being_guaranteed() -> None:
    front, proxy = unmanaged("front"), unmanaged("proxy", "no_memory_limit", "no_cpu_limit")
    advice = advice_of(NAMES, front, (front, proxy))
    assert advice.texts[0].startswith("give proxy equal limits and requests for cpu and memory;")
    assert advice.commands == (GET, TRY)
    assert obstacles_text(proxy) == "no memory limit and no CPU limit"
    assert obstacles_text(unmanaged("x", "cpu_request_below_limit", "later")) == (
        "a CPU request below its limit and later"
    )


def test_what_nri_does_not_show_is_not_guessed() -> None:
    front = unmanaged("front")
    assert "NRI does not show memory requests" in advice_of(NAMES, front, (front,)).texts[0]


@pytest.mark.parametrize(
    ("decision", "remedy"),
    [
        (entry("not_managed", qos_class="Guaranteed", cause="memoryManagerPolicy is None"), "set "),
        (entry("not_managed", qos_class="BestEffort", cause="its pod is BestEffort"), "give every"),
        (entry("memory_policy_rejected", cause="x"), "correct the annotation or the setting"),
        (
            entry("burstable_not_pinned", cause="x"),
            "restart the pod when the cause is gone",
        ),
        (
            entry("burstable_unpinned", cause="x"),
            "restart the pod when the cause is gone",
        ),
        (
            entry("resize_rejected", remedies=[{"kind": "make_room", "text": "make room"}]),
            "make room",
        ),
        (entry("resize_rejected"), ""),
        (entry("unreported_container_found", outcome="unpinned"), "restart the pod when it fits"),
        (entry("cpuset_mems_missing", remedy="restart the container"), "restart the container"),
        (entry("request_timed_out"), "restart the pod"),
        (entry("admitted"), ""),
        (None, ""),
    ],
)
def test_other_decisions(decision: Recorded | None, remedy: str) -> None:
    found = "".join(advice_of(NAMES, decision, ()).texts)
    assert found.startswith(remedy)
    assert bool(found) is bool(remedy)


def test_free_amounts() -> None:
    assert free_on(refused(), NodeSet(range(3))) == {"memory": 3 * GI}
    assert free_on(entry("container_ended"), NodeSet([0])) == {}
