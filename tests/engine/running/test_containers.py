"""The running containers of a Synchronize: which have nodes, which have none, and their order."""

from collections.abc import Iterable

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.running.containers import Running, classify
from nri_numamem.memorymanager import State
from nri_numamem.numa import Machine, NumaNode

CONTEXT = Context.of(Machine((NumaNode(0, 1 << 30), NumaNode(1, 1 << 30))), Policy())


def pod(name: str, level: str = "", uid: str | None = None) -> PodSandbox:
    uid = name if uid is None else uid
    return PodSandbox(name, uid, "ns", name, f"/kubepods/{level}pod{name}")


PODS = {
    each.sandbox_id: each
    for each in (
        pod("a"),
        pod("b"),
        pod("burstable", "burstable/"),
        pod("nameless", uid=""),
        PodSandbox("other", "u", "ns", "other", "/machine.slice/other"),
        PodSandbox("another", "v", "ns", "another", "/machine.slice/another"),
    )
}


def classified(*containers: Container) -> Running:
    event = Synchronize(tuple(PODS.values()), containers)
    return classify(CONTEXT, EngineState(State({})), PODS, event)


def ids(found: Iterable[tuple[PodSandbox, Container, *tuple[object, ...]]]) -> list[str]:
    return [container.container_id for _pod, container, *_ in found]


def test_containers_with_and_without_nodes_in_the_order_of_sandbox_age_and_id() -> None:
    found = classified(
        Container("5", "b", "x", 1, cpuset_mems="1"),
        Container("4", "a", "z", 1, cpuset_mems="0-1", creation_order=2),
        Container("3", "a", "y", 1, cpuset_mems="0", creation_order=3),
        Container("2", "b", "y", 1),
        Container("1", "a", "x", 1),
        Container("0", "b", "z", 1, cpuset_mems="1"),
    )
    assert ids(found.pinned) == ["4", "3", "0", "5"]
    assert [str(reported.nodes) for *_, reported in found.pinned] == ["0-1", "0", "1", "1"]
    assert ids(found.unpinned) == ["1", "2"]
    assert found.not_managed == {}


def test_others_are_counted_by_cause_without_the_names_of_cgroups() -> None:
    found = classified(
        Container("1", "burstable", "x", 1, cpuset_mems="0"),
        Container("2", "other", "x", 1),
        Container("3", "another", "x", 1),
        Container("4", "nameless", "x", 1),
        Container("5", "a", "", 1, cpuset_mems="0"),
        Container("6", "burstable", "", 1),
    )
    assert found == Running(
        [],
        [],
        {
            "no QoS class": 2,
            "the runtime does not send its name": 1,
            "its pod is Burstable": 2,
            "the runtime does not send the uid of its pod": 1,
        },
    )


def test_ended_unknown_and_unreadable_containers_are_left_out() -> None:
    found = classified(
        Container("1", "a", "x", 1, cpuset_mems="0", ended=True),
        Container("2", "gone", "x", 1, cpuset_mems="0"),
        Container("3", "a", "y", 1, cpuset_mems="no nodes"),
        Container("4", "b", "y", 1, cpuset_mems="no nodes"),
    )
    assert found == Running([], [], {})
