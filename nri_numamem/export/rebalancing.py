"""Whether the agent may evict pods by itself: for which pod, which ones, and how often.

A plan says which pods have to restart so that a refused one fits. An operator decides whether that
is worth it; the agent has these rules instead:

================  ==================================================================================
what              rule
================  ==================================================================================
namespaces        the refused pod and the evicted ones are in namespaces of a list
consent           an evicted pod has the annotation ``movable.numamem.io: "true"``
priority          that of the refused pod is not lower than that of an evicted one
controllers       during the cooldown, one eviction at most for the pods of a controller
refused pods      during the cooldown, one plan at most for the pods of a namespace: a pod that
                  fails again and again gets a new name and a new controller at will
beneficiaries     a pod that was made room for is not evicted; nor are, during the cooldown, others
                  of its controller
evictions         at most so many in an hour
================  ==================================================================================

An eviction counts from before it is requested, so a crash cannot hide one. Times are Unix times.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.export.evictions import ClusterPod

HOUR_S = 3600.0
VERSION = 1
MOST = 1000
"""Plans that are known; the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of an administrator."""

    namespaces: frozenset[str]
    evictions_per_hour: int
    cooldown_s: float

    @property
    def cooldown(self) -> str:
        """The cooldown for messages."""
        return f"{self.cooldown_s / 60:g} min"


@dataclass(frozen=True, slots=True)
class PastPlan:
    """A plan that was begun for a pod."""

    time_s: float
    namespace: str
    uid: str
    controller: str


@dataclass(frozen=True, slots=True)
class PastEviction:
    """An eviction that was requested, once or several times."""

    time_s: float
    uid: str
    controller: str


@dataclass(frozen=True, slots=True)
class EvictionHistory:
    """The plans and evictions of the agent on this host."""

    plans: tuple[PastPlan, ...] = ()
    evictions: tuple[PastEviction, ...] = ()

    def begun(self, now_s: float, pod: ClusterPod) -> "EvictionHistory":
        """Return the history with a plan for a pod."""
        plan = PastPlan(now_s, pod.namespace, pod.uid, pod.controller)
        return replace(self, plans=(*self.plans, plan)[-MOST:])

    def evicted(self, now_s: float, pod: ClusterPod, rules: Rules) -> "EvictionHistory":
        """Return the history with an eviction, without those that are too old for every rule."""
        if any(each.uid == pod.uid for each in self.evictions):
            return self  # it was requested before, without an answer
        kept_s = max(HOUR_S, rules.cooldown_s)
        kept = [each for each in self.evictions if now_s - each.time_s < kept_s]
        return replace(self, evictions=(*kept, PastEviction(now_s, pod.uid, pod.controller)))

    def why_no_plan(self, rules: Rules, now_s: float, pod: ClusterPod) -> str:
        """Return why no pod is evicted for a refused one; "" if that is allowed."""
        if pod.namespace not in rules.namespaces:
            return _not_listed(pod)
        for plan in self.plans:
            if plan.namespace == pod.namespace and now_s - plan.time_s < rules.cooldown_s:
                what = f"a plan for a pod of the namespace {pod.namespace} began"
                return f"{what} less than {rules.cooldown} ago (--cooldown)"
        return ""

    def why_not_evicted(
        self, rules: Rules, now_s: float, refused: ClusterPod, pod: ClusterPod
    ) -> str:
        """Return why a pod is not evicted for the refused one; "" if that is allowed."""
        if pod.namespace not in rules.namespaces:
            return _not_listed(pod)
        if not pod.is_consented:
            return f'it lacks the annotation {MOVABLE_ANNOTATION}: "true"'
        if pod.priority > refused.priority:
            return f"its priority {pod.priority} is higher than {refused.priority} of {refused}"
        for plan in self.plans:
            is_recent = now_s - plan.time_s < rules.cooldown_s
            if plan.uid == pod.uid or (is_recent and plan.controller == pod.controller != ""):
                return "other pods were evicted for it, or for another pod of its controller"
        for eviction in self.evictions:
            is_recent = now_s - eviction.time_s < rules.cooldown_s
            if is_recent and eviction.controller == pod.controller:
                what = "another pod of its controller was evicted"
                return f"{what} less than {rules.cooldown} ago (--cooldown)"
        return ""

    def why_too_many(self, rules: Rules, now_s: float, count: int) -> str:
        """Return why so many pods are not evicted now; "" if that is allowed."""
        recent = sum(now_s - each.time_s < HOUR_S for each in self.evictions)
        if recent + count <= rules.evictions_per_hour:
            return ""
        return (
            f"{recent} of {rules.evictions_per_hour} evictions of an hour are used, and the plan "
            f"needs {count} (--max-evictions-per-hour)"
        )


def _not_listed(pod: ClusterPod) -> str:
    return f"the namespace {pod.namespace} is not in the list (--rebalance-namespaces)"


class EvictionHistoryError(ValueError):
    """A document that is not of this module."""


def to_bytes(history: EvictionHistory) -> bytes:
    """Return what from_bytes() reads."""
    plans = [[p.time_s, p.namespace, p.uid, p.controller] for p in history.plans]
    evictions = [[e.time_s, e.uid, e.controller] for e in history.evictions]
    document = {"version": VERSION, "plans": plans, "evictions": evictions}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def from_bytes(data: bytes, now_s: float) -> EvictionHistory:
    """Return the history of a file; raise EvictionHistoryError.

    A time that is later than now is now: the clock was set back, and no rule may last longer.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvictionHistoryError(f"not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise EvictionHistoryError(f"not a document of version {VERSION}")
    plans = _rows(document.get("plans"), (float, str, str, str))
    evictions = _rows(document.get("evictions"), (float, str, str))
    return EvictionHistory(
        tuple(PastPlan(min(now_s, time_s), *texts) for time_s, *texts in plans),
        tuple(PastEviction(min(now_s, time_s), *texts) for time_s, *texts in evictions),
    )


def _rows(value: object, types: Sequence[type]) -> Iterable[Any]:
    if not isinstance(value, list):
        raise EvictionHistoryError("plans and evictions must be lists")
    for row in value:
        if not isinstance(row, list) or [*map(type, row)] != [*types]:
            raise EvictionHistoryError(f"not a row of {len(types)} values: {str(row)[:80]}")
    return value
