"""Events of described pods and containers."""

import pytest

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.state import EngineState
from nri_numamem.kubelet.manifest import CpuAmounts
from nri_numamem.memorymanager import Block, ContainerKind, Pod, PoolUse, QosClass
from nri_numamem.memorymanager import Container as DescribedContainer
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.events import (
    begin_with_accounting,
    begin_with_state,
    container_event,
    sandbox_event,
    sandbox_of_entries,
)
from nri_numamem.scenario.player import Player
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import Admit
from nri_numamem.scenario.values import ScenarioPod
from tests.scenario.documents import GI, pod, scenario

MI = 1 << 20
MAIN = DescribedContainer("main", ContainerKind.APP, {"memory": 8 * MI, "hugepages-2Mi": 4 * MI})


@pytest.mark.parametrize(
    ("qos", "cgroup_parent"),
    [
        (QosClass.GUARANTEED, "/kubepods/podu_1"),
        (QosClass.BURSTABLE, "/kubepods/burstable/podu_1"),
        (QosClass.BEST_EFFORT, "/kubepods/besteffort/podu_1"),
    ],
)
def test_a_sandbox_has_its_pods_sum_and_class(qos: QosClass, cgroup_parent: str) -> None:
    pod = Pod("u/1", guaranteed=True, containers=(MAIN,))
    sandbox = sandbox_event("id", ScenarioPod(pod, "name", "ns", qos))
    hugepages = {2 * MI: 4 * MI}
    assert sandbox == PodSandbox("id", "u/1", "ns", "name", cgroup_parent, 8 * MI, hugepages)


def test_a_sandbox_has_the_annotations_of_its_pod() -> None:
    annotations = {"memory-policy.numamem.io": "bind"}
    described = ScenarioPod(
        Pod("u", guaranteed=True, containers=(MAIN,)), "n", "ns", QosClass.GUARANTEED, annotations
    )
    assert sandbox_event("id", described).annotations == annotations


def test_a_sandbox_has_the_labels_of_its_pod() -> None:
    plain = Pod("u", guaranteed=True, containers=(MAIN,))
    described = ScenarioPod(plain, "n", "ns", QosClass.GUARANTEED, labels={"app": "web"})
    assert sandbox_event("id", described).labels == {"app": "web"}
    assert sandbox_of_entries("id", "u", {}).labels == {}


def test_a_sandbox_of_assignments_has_their_sum() -> None:
    blocks = [Block(NodeSet([0]), "memory", 5), Block(NodeSet([0]), "hugepages-2Mi", 2 * MI)]
    found = sandbox_of_entries("id", "u", {"a": blocks, "b": blocks[:1]})
    assert (found.memory_limit_bytes, found.hugepage_limits) == (10, {2 * MI: 2 * MI})
    assert (found.name, found.cgroup_parent) == ("u", "/kubepods/podu")


def test_a_container_has_its_limits_cpus_and_devices() -> None:
    sandbox = sandbox_of_entries("s", "u", {})
    assert sandbox.memory_limit_bytes is None
    devices = (NodeSet([1]),)
    assert container_event("c", sandbox, MAIN, "0-1", devices) == Container(
        "c",
        "s",
        "main",
        8 * MI,
        {2 * MI: 4 * MI},
        cpuset_cpus="0-1",
        device_nodes=devices,
    )


def test_a_page_size_that_cannot_exist_has_no_limit() -> None:
    odd = DescribedContainer("odd", ContainerKind.APP, {"hugepages-3Mi": 5})
    made = container_event("c", sandbox_of_entries("s", "u", {}), odd)
    assert (made.memory_limit_bytes, made.hugepage_limits) == (None, {})


def test_a_container_has_the_shares_of_its_cpu_request() -> None:
    sandbox = sandbox_of_entries("s", "u", {})
    found = container_event("c", sandbox, MAIN, amounts=CpuAmounts(1500, 2000))
    assert (found.cpu_shares, found.cpu_limit_millicores) == (1536, 2000)
    found = container_event("c", sandbox, MAIN, "0-1", amounts=CpuAmounts(1500, 2000))
    assert (found.cpu_shares, found.cpu_limit_millicores) == (None, 2000)
    found = container_event("c", sandbox, MAIN, amounts=CpuAmounts())
    assert (found.cpu_shares, found.cpu_limit_millicores) == (2, None)


MACHINE = {"nodes": [{"id": n, "memory": "11Gi", "hugepages": {"1Gi": 2}} for n in (0, 1)]}


def player_with(*admitted: str, start: EngineState | None = None, **options: object) -> Player:
    pods = [pod("a", "6Gi", init="1Gi"), pod("b", "6Gi"), pod("c", "12Gi")]
    document = scenario(pods=pods, machine=MACHINE, **options)  # type: ignore[arg-type]
    player = Player(scenario_from_document(document), start)
    for uid in admitted:
        assert player.play(Admit(uid)).rejection is None
    return player


def state_of(player: Player) -> EngineState:
    return player._engine.state


def test_the_pods_of_a_host_hold_their_memory() -> None:
    before = player_with("a", "b")
    after = player_with(start=state_of(before))
    assert after.accounting.assignments == before.accounting.assignments
    assert after.play(Admit("c")).rejection is not None
    after.end_pod("c")
    after.end_pod("a")
    after.end_pod("b")
    assert after.accounting.assignments == {}
    assert after.play(Admit("c")).cpuset_mems == {"c0": "0-1"}


def test_running_containers_are_not_created_again() -> None:
    after = player_with(start=state_of(player_with("b")))
    outcome = after.play(Admit("b"))
    assert outcome.cpuset_mems == {"c0": "0"}
    assert list(after.accounting.assignments) == ["b"]


def test_ended_containers_do_not_run() -> None:
    begun = begin_with_state(state_of(player_with("a")))
    assert list(begun.running) == [("a", "c0")]
    assert set(begun.state.accounting.assignments["a"]) == {"c0", "init"}


def test_the_reservation_of_a_whole_pod_does_not_run() -> None:
    settings = {"topologyManagerScope": "pod"}
    begun = begin_with_state(state_of(player_with("a", settings=settings)))
    assert list(begun.running) == [("a", "c0")]


def test_pods_whose_cgroup_is_gone_get_a_sandbox() -> None:
    state = state_of(player_with("b"))
    begun = begin_with_state(EngineState(state.accounting, holders=state.holders, keys=state.keys))
    sandbox = begun.sandboxes["b"]
    assert isinstance(sandbox, PodSandbox)
    assert sandbox.sandbox_id == state.holders["b", "c0"].sandbox_id
    assert begun.state.pods == {sandbox.sandbox_id: sandbox}


def test_hugepages_that_the_kernel_lacks_are_not_given() -> None:
    manifest = pod("h", "1Gi")
    limits = manifest["spec"]["containers"][0]["resources"]["limits"]
    limits["hugepages-1Gi"] = "2Gi"
    parsed = scenario_from_document(scenario(pods=[manifest], machine=MACHINE))
    used = PoolUse({0: {"hugepages-1Gi": Pool(GI, GI)}, 1: {"hugepages-1Gi": Pool(0, 2 * GI)}}, {})
    assert Player(parsed).play(Admit("h")).cpuset_mems == {"c0": "0"}
    assert Player(parsed, pool_use=used).play(Admit("h")).cpuset_mems == {"c0": "1"}


def test_the_pods_of_a_written_accounting() -> None:
    block = {"numaAffinity": [0], "type": "memory", "size": "2Gi"}
    entries = {"b": {"c0": [block]}, "other": {"c": [block]}}
    document = scenario(pods=[pod("b", "2Gi")], machine=MACHINE, state={"entries": entries})
    parsed = scenario_from_document(document)
    numbers = iter("1234")
    begun = begin_with_accounting(parsed, lambda: next(numbers))
    assert [sandbox.name for sandbox in begun.sandboxes.values()] == ["b", "other"]
    limits = [sandbox.memory_limit_bytes for sandbox in begun.sandboxes.values()]
    assert limits == [2 * GI, 2 * GI]
    assert begun.sandboxes["b"].cgroup_parent == "/kubepods/podb"
    assert list(begun.running) == [("b", "c0"), ("other", "c")]
