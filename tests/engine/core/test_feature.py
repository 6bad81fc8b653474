"""What a feature does whose hooks are not defined: nothing."""

from dataclasses import replace

import pytest

from nri_numamem.engine.admission.placement import place_by_hints
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision, Transition
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodSandbox,
    StopPodSandbox,
    Synchronize,
)
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS
from nri_numamem.engine.core.request import Request
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import Machine, NodeSet, NumaNode
from nri_numamem.topologymanager import Placement
from tests.engine.conftest import Host

MACHINE = Machine((NumaNode(0, 1 << 30), NumaNode(1, 1 << 30)))


def context_with(*features: Feature) -> Context:
    return Context.of(MACHINE, Policy(), features)


def test_undefined_hooks_change_nothing() -> None:
    feature, context = Feature(), context_with()
    host = Host(Engine(context))
    pod, state = host.run("a"), host.engine.state
    container = Container("c", pod.sandbox_id, "main", 1 << 20)
    event, request = CreateContainer(pod, container), Request({"memory": 1 << 20})
    decision, done = Decision(NO_PLAN, lambda: Transition(state)), Transition(state)
    assert feature.is_on(context)
    assert list(feature.warnings(context)) == []
    assert feature.qos_classes == frozenset()
    assert feature.unmanaged_reason(context, pod, container) == ""
    assert feature.without_own(context, container) is container
    assert not feature.compares_cpu_requests(context)
    assert not feature.charges_evenly(context, pod, "main", NodeSet([0]))
    assert feature.preferring(context, state, pod, container) is context
    assert feature.request(context, event, request) is request
    assert feature.explained(context, pod, _placement(host), NO_OTHER_PROVIDERS, done) is done
    assert feature.requested(state, event) is event
    assert feature.complete(context, state, event, decision) is decision
    assert feature.add_updates(context, state, event, decision) is decision
    assert not feature.limits_nodes
    assert feature.allowed_nodes(context, pod) is None
    assert feature.unpinned_nodes(context, pod) == NodeSet()
    assert feature.decided(context, state, event) is None
    assert feature.began(state, state, Synchronize((), ())) is state
    assert not feature.keeps_nodes(context, state, pod, container, NodeSet([0]))


def _placement(host: Host) -> Placement:
    accounting = host.engine.state.accounting
    placed = place_by_hints(host.engine.context, accounting, ("a", "main"), {"memory": 1})
    assert isinstance(placed, Placement)
    return placed


class _On(Feature):
    """A feature that manages pods of another class, and lists the events that reach it."""

    qos_classes = frozenset({QosClass.BEST_EFFORT})

    def __init__(self, reason: str | None = "") -> None:
        self.reason = reason
        self.seen: list[str] = []

    def unmanaged_reason(
        self, context: Context, pod: PodSandbox, container: Container | None
    ) -> str | None:
        return self.reason

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        self.seen.append(type(event).__name__)
        return decision


class _Off(_On):
    def is_on(self, context: Context) -> bool:
        return False


def test_a_new_pod_or_container_reaches_a_feature_that_is_off_only_with_annotations() -> None:
    on, off = _On(), _Off()
    host = Host(Engine(context_with(off, on)))
    assert host.engine.context.features == (on,)
    pod = host.run("a")
    host.handle(CreateContainer(pod, Container("c", pod.sandbox_id, "main", 1 << 20)))
    assert on.seen == ["RunPodSandbox", "CreateContainer"]
    assert off.seen == []
    annotated = replace(pod, annotations={"memory.numamem.io": "limit"})
    host.handle(CreateContainer(annotated, Container("d", pod.sandbox_id, "other", 1 << 20)))
    host.handle(StopPodSandbox(pod))
    assert off.seen == ["CreateContainer", "StopPodSandbox"]


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (_On(None), None),
        (_On("it is small"), "its pod is BestEffort, and it is small"),
        (_On(), "its pod is BestEffort"),
        (_Off(None), "its pod is BestEffort"),
        (Feature(), "its pod is BestEffort"),
    ],
)
def test_a_feature_may_manage_pods_of_another_class(feature: Feature, reason: str | None) -> None:
    context = context_with(feature)
    pod = PodSandbox("s", "a", "ns", "pod-a", "/kubepods/besteffort/poda")
    assert context.unmanaged_reason(pod) == reason
    assert context.may_manage(pod.cgroup_parent) is (type(feature) is _On)
    assert not context.may_manage("/kubepods/burstable/poda")
