"""Events are values with the defaults of facts that a runtime does not send."""

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.engine import Engine
from tests.engine.conftest import Host

POD = events.PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
CONTAINER = events.Container("c", "s", "main")


def test_fields_that_the_runtime_does_not_send_are_unknown() -> None:
    assert POD.memory_limit_bytes is None
    assert CONTAINER.memory_limit_bytes is None
    assert CONTAINER.hugepage_limits is None
    assert CONTAINER.cgroup_mems is None
    assert events.CreateContainer(POD, CONTAINER).pool_use is None


def test_equal_events_are_equal_values() -> None:
    again = events.PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
    assert events.RunPodSandbox(POD) == events.RunPodSandbox(again)


def test_the_engine_decides_every_kind_of_event(host: Host) -> None:
    of_pods = [
        events.RunPodSandbox,
        events.UpdatePodSandbox,
        events.StopPodSandbox,
        events.RemovePodSandbox,
    ]
    of_containers = [
        events.CreateContainer,
        events.UpdateContainer,
        events.StopContainer,
        events.RemoveContainer,
    ]
    engine: Engine = host.engine
    of_features = {events.FeatureEvent}  # tests/engine/features has theirs
    some: list[events.Event] = [
        *(kind(POD) for kind in of_pods),
        *(kind(POD, CONTAINER) for kind in of_containers),
        events.PodCgroupGone(POD),
        events.Synchronize((), ()),
        events.ContainersFound(()),
        events.CpusetsRead(()),
        events.MachineChanged(engine.context.machine),
        events.HostCpus(),
    ]
    assert {type(event) for event in some} == set(events.Event.__args__) - of_features
    for event in some:
        assert engine.apply(event).plan.is_noop


def test_an_event_of_a_feature_decides_itself(host: Host) -> None:
    with pytest.raises(NotImplementedError):
        host.engine.apply(events.FeatureEvent())


def test_the_annotation_of_a_container_precedes_that_of_the_pod() -> None:
    pod = events.PodSandbox(
        sandbox_id="s",
        uid="u",
        namespace="shop",
        name="db",
        cgroup_parent="",
        annotations={"x.numamem.io": "pod", "x.numamem.io/container.main": "main"},
    )
    assert pod.annotation("x", "main") == "main"
    assert pod.annotation("x", "sidecar") == "pod"
    assert pod.annotation("y", "main") == ""
