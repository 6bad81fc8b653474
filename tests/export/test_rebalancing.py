"""The rules by which the agent evicts pods, and the file of what it has done."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.export.evictions import ClusterPod, cluster_pod
from nri_numamem.export.rebalancing import (
    HOUR_S,
    MOST,
    EvictionHistory,
    EvictionHistoryError,
    PastEviction,
    PastPlan,
    Rules,
    from_bytes,
    to_bytes,
)

RULES = Rules(frozenset({"ml", "shop"}), evictions_per_hour=3, cooldown_s=600.0)
BIG = ClusterPod("ml", "big", "u-big", "c-big", 10, is_consented=False)
SMALL = ClusterPod("shop", "small", "u-small", "c-small", 10, is_consented=True)
OTHER = replace(SMALL, uid="u-other")
NOW_S = 1e9


def test_a_namespace_has_one_plan_in_a_cooldown() -> None:
    history = EvictionHistory().begun(NOW_S, BIG)
    other = replace(BIG, uid="u2", controller="c2", name="big-2")
    assert EvictionHistory().why_no_plan(RULES, NOW_S, BIG) == ""
    cause = "a plan for a pod of the namespace ml began less than 10 min ago (--cooldown)"
    assert history.why_no_plan(RULES, NOW_S + 1, other) == cause
    assert history.why_no_plan(RULES, NOW_S + 599.9, other) == cause
    assert history.why_no_plan(RULES, NOW_S + 600, other) == ""
    assert history.why_no_plan(RULES, NOW_S, SMALL) == ""
    assert history.why_no_plan(RULES, NOW_S, replace(BIG, namespace="x")) == (
        "the namespace x is not in the list (--rebalance-namespaces)"
    )


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        (SMALL, ""),
        (
            replace(SMALL, namespace="x"),
            "the namespace x is not in the list (--rebalance-namespaces)",
        ),
        (
            replace(SMALL, is_consented=False),
            f'it lacks the annotation {MOVABLE_ANNOTATION}: "true"',
        ),
        (replace(SMALL, priority=11), "its priority 11 is higher than 10 of ml/big"),
        (replace(SMALL, priority=9), ""),
    ],
)
def test_the_pods_decide(pod: ClusterPod, cause: str) -> None:
    assert EvictionHistory().why_not_evicted(RULES, NOW_S, BIG, pod) == cause


def test_a_beneficiary_is_no_victim() -> None:
    history = EvictionHistory().begun(NOW_S, SMALL)
    cause = "other pods were evicted for it, or for another pod of its controller"
    sibling = replace(SMALL, uid="u2")
    assert history.why_not_evicted(RULES, NOW_S, BIG, SMALL) == cause
    assert history.why_not_evicted(RULES, NOW_S, BIG, sibling) == cause
    later_s = NOW_S + RULES.cooldown_s
    assert history.why_not_evicted(RULES, later_s, BIG, SMALL) == cause
    assert history.why_not_evicted(RULES, later_s, BIG, sibling) == ""
    bare = EvictionHistory().begun(NOW_S, replace(SMALL, uid="u3", controller=""))
    assert bare.why_not_evicted(RULES, NOW_S, BIG, replace(SMALL, controller="")) == ""


def test_a_controller_has_one_eviction_in_a_cooldown() -> None:
    history = EvictionHistory().evicted(NOW_S, SMALL, RULES)
    replacement = replace(SMALL, uid="u2")
    assert history.why_not_evicted(RULES, NOW_S + 599, BIG, replacement) == (
        "another pod of its controller was evicted less than 10 min ago (--cooldown)"
    )
    assert history.why_not_evicted(RULES, NOW_S + 600, BIG, replacement) == ""
    assert history.why_not_evicted(RULES, NOW_S, BIG, replace(SMALL, controller="c2")) == ""


def test_evictions_of_an_hour_are_counted() -> None:
    history = EvictionHistory().evicted(NOW_S, SMALL, RULES).evicted(NOW_S + 1, OTHER, RULES)
    assert history.evicted(NOW_S + 2, SMALL, RULES) == history
    assert history.why_too_many(RULES, NOW_S + 2, 1) == ""
    assert history.why_too_many(RULES, NOW_S + 2, 2) == (
        "2 of 3 evictions of an hour are used, and the plan needs 2 (--max-evictions-per-hour)"
    )
    assert history.why_too_many(RULES, NOW_S + HOUR_S, 2) == ""


def test_what_no_rule_needs_is_forgotten() -> None:
    history = EvictionHistory().evicted(NOW_S, SMALL, RULES)
    assert len(history.evicted(NOW_S + HOUR_S - 1, OTHER, RULES).evictions) == 2
    assert len(history.evicted(NOW_S + HOUR_S, OTHER, RULES).evictions) == 1
    long = replace(RULES, cooldown_s=2 * HOUR_S)
    assert len(history.evicted(NOW_S + HOUR_S, OTHER, long).evictions) == 2
    for number in range(MOST + 1):
        history = history.begun(NOW_S, replace(BIG, uid=str(number)))
    assert [history.plans[0].uid, len(history.plans)] == ["1", MOST]


def test_the_file_has_everything() -> None:
    history = EvictionHistory(
        (PastPlan(NOW_S, "ml", "u", "c"), PastPlan(NOW_S + 1, "ml", "v", "")),
        (PastEviction(NOW_S, "u", "c"),),
    )
    assert from_bytes(to_bytes(history), NOW_S + 1) == history
    assert from_bytes(to_bytes(EvictionHistory()), NOW_S) == EvictionHistory()


def test_a_time_in_the_future_is_now() -> None:
    history = EvictionHistory((PastPlan(NOW_S, "ml", "u", "c"),), (PastEviction(NOW_S, "u", "c"),))
    restored = from_bytes(to_bytes(history), NOW_S - 500)
    assert restored.plans[0].time_s == restored.evictions[0].time_s == NOW_S - 500


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a document of version 1"),
        (b'{"version":2}', "not a document of version 1"),
        (b'{"version":1,"plans":[]}', "plans and evictions must be lists"),
        (b'{"version":1,"plans":[],"evictions":[[1.0]]}', r"not a row of 3 values: \[1.0\]"),
        (b'{"version":1,"plans":[[1.0,"a","b",3]],"evictions":[]}', "not a row of 4 values"),
        (b'{"version":1,"plans":[],"evictions":[7]}', "not a row of 3 values: 7"),
    ],
)
def test_another_file_is_an_error(data: bytes, text: str) -> None:
    with pytest.raises(EvictionHistoryError, match=text):
        from_bytes(data, NOW_S)


def test_a_pod_of_the_api_server() -> None:
    owners = [{"uid": "c1"}, {"uid": "c2", "controller": True}]
    document = {
        "metadata": {
            "namespace": "shop",
            "name": "small",
            "uid": "u",
            "annotations": {MOVABLE_ANNOTATION: "true"},
            "ownerReferences": owners,
        },
        "spec": {"priority": 7},
    }
    assert cluster_pod(document) == ClusterPod("shop", "small", "u", "c2", 7, is_consented=True)
    assert str(cluster_pod(document)) == "shop/small"
    empty = ClusterPod("", "", "", "", 0, is_consented=False)
    assert cluster_pod({}) == empty
    assert cluster_pod({"status": {"phase": "Failed"}}).is_ended
    assert cluster_pod({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).is_ended
    assert not cluster_pod({"status": {"phase": "Pending"}}).is_ended
    assert cluster_pod({"metadata": {"ownerReferences": "x"}, "spec": {"priority": "9"}}) == empty
