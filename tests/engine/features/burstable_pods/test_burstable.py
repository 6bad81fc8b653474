"""Containers of Burstable pods: pinned, left unpinned, unpinned by a resize, found again."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.burstable import BurstableFacts, BurstablePods, Evidence
from nri_numamem.numa import MEMORY, MemoryPolicies, NodeSet, PolicyMode
from tests.engine.conftest import GI, MI, Answer, Host, NewHost, four_nodes

RESERVED = tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
ON = BurstablePods((Evidence.MEMORY_RESERVATION,))
ANNOTATED = {"memory.numamem.io": "guaranteed"}
BURSTABLE = "burstable/"


def policy_of(burstable: BurstablePods = ON, **settings: str) -> Policy:
    return Policy(reserved_memory=RESERVED, burstable_pods=burstable, **settings)  # type: ignore[arg-type]


def run(
    host: Host, uid: str, qos: str = BURSTABLE, annotations: Mapping[str, str] | None = None
) -> events.PodSandbox:
    """Start a pod whose sum of limits is smaller than what its containers may use."""
    pod = replace(host.run(uid, qos, memory=100 * MI), annotations=annotations or {})
    host.pods[pod.sandbox_id] = pod
    return pod


def create(
    host: Host,
    pod: events.PodSandbox,
    name: str = "main",
    memory: int = 200 * MI,
    *,
    reserved: int | None = -1,
    score: int | None = None,
    available: Mapping[int, int] | None = None,
    sets_score: bool = True,
    facts: bool = True,
    mems: str = "",
) -> Answer:
    """Create a container; `reserved` -1 stands for its limit."""
    known = BurstableFacts(memory if reserved == -1 else reserved, score)
    container = events.Container(
        f"{pod.uid}-{name}-{len(host.containers)}",
        pod.sandbox_id,
        name,
        memory or None,
        cpuset_mems=mems,
        burstable=known if facts else None,
    )
    event = events.CreateContainer(
        pod, container, available_memory=available, sets_oom_score_adj=sets_score
    )
    answer = host.handle(event)
    if answer.refusal is None:
        nodes = answer.adjustment.cpuset_mems if answer.adjustment else mems
        host.containers[container.container_id] = replace(container, cpuset_mems=nodes)
    return answer


def update(
    host: Host, container: events.Container, memory: int | None, reserved: int | None = None
) -> Answer:
    pod = host.pods[container.sandbox_id]
    answer = host.handle(events.UpdateContainer(pod, container, memory, reserved_bytes=reserved))
    mems = {one.container_id: one.cpuset_mems for one in answer.updates}
    assert container.burstable is not None
    host.containers[container.container_id] = replace(
        container,
        memory_limit_bytes=memory or container.memory_limit_bytes,
        cpuset_mems=mems.get(container.container_id, container.cpuset_mems),
        burstable=replace(
            container.burstable,
            reserved_bytes=reserved or container.burstable.reserved_bytes,
        ),
    )
    return answer


def names(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


def cause(answer: Answer) -> object:
    return fields_of(answer.records[-1])["cause"]


def charged(host: Host) -> dict[str, int]:
    """Return container name -> charged memory."""
    return {
        holder.container_name: block.size
        for key, holder in host.engine.state.holders.items()
        for block in host.engine.state.blocks(key) or ()
        if block.type == MEMORY
    }


def test_a_container_with_evidence_is_pinned_and_charged_with_its_limit(new_host: NewHost) -> None:
    host = new_host(policy_of(replace(ON, oom_score_adj=-500)))
    pod = run(host, "a")
    answer = create(host, pod, memory=1200 * MI, score=700)
    assert answer.adjustment == Adjustment("0-1", oom_score_adj=-500)
    assert names(answer) == ["admitted", "burstable_pinned"]
    fields = fields_of(answer.records[-1])
    assert (fields["evidence"], fields["nodes"]) == ("memory-reservation", "0-1")
    assert (fields["oom_score_adj"], fields["new_oom_score_adj"]) == (700, -500)
    assert charged(host) == {"main": 1200 * MI}
    # Neither the runtime's old NRI nor an unknown value lets the score be set.
    answer = create(host, pod, "second", score=700, sets_score=False)
    assert answer.adjustment == Adjustment("2")
    assert fields_of(create(host, pod, "third").records[-1])["new_oom_score_adj"] is None


def test_one_container_of_a_pod_is_pinned_and_another_is_not(new_host: NewHost) -> None:
    host = new_host(policy_of())
    pod = run(host, "a")
    assert create(host, pod, "db").adjustment == Adjustment("0")
    answer = create(host, pod, "exporter", reserved=100 * MI)
    assert answer == Answer(records=answer.records)
    assert names(answer) == ["not_managed"]
    assert cause(answer) == (
        "its pod is Burstable, and its memory.low or memory.min differs from its memory limit"
    )
    assert create(host, pod, "unlimited", memory=0, reserved=None).adjustment is None
    assert charged(host) == {"db": 200 * MI}
    # The pod's sum of limits bounds nothing: another pod begins although it looks outstanding.
    assert host.engine.state.outstanding == {}
    assert create(host, run(host, "b"), memory=900 * MI).adjustment == Adjustment("1")


@pytest.mark.parametrize(
    "settings",
    [
        policy_of(BurstablePods()),
        policy_of(memory_manager_policy="None"),
        policy_of(replace(ON, namespaces=("other",))),
    ],
)
def test_without_the_setting_nothing_changes(new_host: NewHost, settings: Policy) -> None:
    host = new_host(settings)
    answer = create(host, run(host, "a"))
    assert answer == Answer(records=answer.records)
    assert names(answer) == ["not_managed"]
    assert charged(host) == {}


def test_an_annotation_without_the_setting_has_no_effect_but_a_record(new_host: NewHost) -> None:
    host = new_host(policy_of(BurstablePods()))
    for qos, pod_class in ((BURSTABLE, "Burstable"), ("besteffort/", "BestEffort")):
        pod = run(host, pod_class, qos, ANNOTATED)
        answer = create(host, pod, facts=False)
        assert answer == Answer(records=answer.records)
        assert names(answer) == ["not_managed", "burstable_not_pinned"]
        assert cause(answer) == f"its pod is {pod_class}, and burstablePods.evidence is empty"
        assert answer.records[-1].level == "debug"
    assert names(create(host, run(host, "g", "", ANNOTATED), facts=False)) == ["admitted"]
    other = run(host, "o", annotations={"cpus.numamem.io": "follow"})
    assert names(create(host, other, facts=False)) == ["not_managed"]


def test_a_best_effort_pod_is_never_pinned(new_host: NewHost) -> None:
    host = new_host(policy_of(BurstablePods(tuple(Evidence), ("ns",))))
    answer = create(host, run(host, "a", "besteffort/", ANNOTATED), facts=False)
    assert answer.adjustment is None
    assert cause(answer) == "its pod is BestEffort"
    assert answer.records[-1].level == "warning"


def test_an_annotation_may_be_for_one_container(new_host: NewHost) -> None:
    host = new_host(policy_of(BurstablePods((Evidence.ANNOTATION,))))
    pod = run(host, "a", annotations={"memory.numamem.io/container.db": "guaranteed"})
    assert create(host, pod, "db", reserved=None).adjustment == Adjustment("0")
    assert create(host, pod, "web", reserved=None).adjustment is None
    refuted = create(host, run(host, "b", annotations=ANNOTATED), reserved=None, score=999)
    assert names(refuted) == ["not_managed", "burstable_not_pinned"]
    assert cause(refuted) == (
        "its pod is Burstable, and its oom_score_adj shows a memory request below its memory limit"
    )


def test_a_container_that_fits_nowhere_starts_unpinned(new_host: NewHost) -> None:
    host = new_host(policy_of(topology_manager_policy="restricted"))
    answer = create(host, run(host, "a"), memory=5 * GI)
    assert answer == Answer(records=answer.records)
    assert names(answer) == ["burstable_not_pinned"]
    assert cause(answer) == "no NUMA nodes can hold it"
    assert "NUMA" in str(fields_of(answer.records[-1])["message"])
    assert charged(host) == {}
    assert host.engine.state.reasons.unpinned == {}


def test_a_container_is_pinned_only_where_its_limit_is_free_or_reclaimable(
    new_host: NewHost,
) -> None:
    host = new_host(policy_of(topology_manager_policy="single-numa-node"))
    used = {0: 150 * MI, 1: 150 * MI, 2: GI, 3: GI}
    assert create(host, run(host, "a"), available=used).adjustment == Adjustment("2")
    full = dict.fromkeys(range(4), 150 * MI)
    answer = create(host, run(host, "b"), available=full)
    assert names(answer) == ["burstable_not_pinned"]
    assert fields_of(answer.records[-1])["available_bytes"] == {str(n): 150 * MI for n in range(4)}
    # The accounting does not keep what was masked.
    assert create(host, run(host, "c"), memory=900 * MI).adjustment == Adjustment("0")


def test_in_pod_scope_each_container_is_placed_by_itself(new_host: NewHost) -> None:
    host = new_host(policy_of(topology_manager_scope="pod"))
    pod = run(host, "a")
    assert create(host, pod, "one", memory=900 * MI).adjustment == Adjustment("0")
    assert create(host, pod, "two", memory=900 * MI).adjustment == Adjustment("1")
    assert charged(host) == {"one": 900 * MI, "two": 900 * MI}


def test_preset_nodes_are_adopted(new_host: NewHost) -> None:
    host = new_host(policy_of())
    answer = create(host, run(host, "a", annotations=ANNOTATED), mems="3")
    assert names(answer) == ["adopted"]
    assert charged(host) == {"main": 200 * MI}


def test_a_memory_policy_is_set_on_the_nodes_of_a_pinned_container(new_host: NewHost) -> None:
    settings = replace(policy_of(), memory_policies=MemoryPolicies(tuple(PolicyMode)))
    host = new_host(settings)
    pod = run(host, "a")
    container = events.Container(
        "c", pod.sandbox_id, "main", 1200 * MI, burstable=BurstableFacts(1200 * MI)
    )
    request = PolicyRequest("interleave", "runc")
    answer = host.handle(events.CreateContainer(pod, container, policy_request=request))
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert answer.adjustment.memory_policy is not None
    assert answer.adjustment.memory_policy.nodes == NodeSet({0, 1})


def test_a_resize_that_keeps_the_request_at_the_limit_is_like_any_other(new_host: NewHost) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    answer = update(host, host.newest(), 1500 * MI, 1500 * MI)
    assert names(answer) == ["resized"]
    assert answer.updates == (Update("a-main-0", "0-1"),)
    assert charged(host) == {"main": 1500 * MI}


def test_a_resize_that_breaks_the_equality_unpins(new_host: NewHost) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    answer = update(host, host.newest(), 300 * MI, 200 * MI)
    assert answer.updates == (Update("a-main-0", "0-3"),)
    assert names(answer) == ["burstable_unpinned"]
    fields = fields_of(answer.records[-1])
    assert fields["cause"] == "its memory.low or memory.min differs from its memory limit"
    assert (fields["previous_nodes"], fields["nodes"]) == ("0", "0-3")
    assert fields["released_bytes"] == {MEMORY: 200 * MI}
    assert charged(host) == {}
    # It has no assignment any more, and no node of it after a Synchronize.
    assert names(update(host, host.newest(), 400 * MI, 400 * MI)) == ["update_without_effect"]
    assert host.synchronize().updates == ()
    assert charged(host) == {}


def test_a_new_limit_without_a_reservation_unpins_and_no_change_does_not(
    new_host: NewHost,
) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    for memory, reserved in ((None, None), (200 * MI, None), (200 * MI, 200 * MI)):
        answer = update(host, host.newest(), memory, reserved)
        assert names(answer) == ["update_without_effect"]
    assert update(host, host.newest(), None, 100 * MI).updates == (Update("a-main-0", "0-3"),)
    create(host, run(host, "b"))
    assert update(host, host.newest(), 300 * MI).updates == (Update("b-main-1", "0-3"),)


def test_a_statement_holds_after_a_resize(new_host: NewHost) -> None:
    host = new_host(policy_of(BurstablePods((Evidence.ANNOTATION,))))
    create(host, run(host, "a", annotations=ANNOTATED), reserved=None, score=800)
    # The kubelet does not change oom_score_adj, which now is too high for the limit.
    answer = update(host, host.newest(), 900 * MI)
    assert names(answer) == ["resized"]
    assert charged(host) == {"main": 900 * MI}


def test_a_resize_that_fits_nowhere_unpins_instead_of_failing(new_host: NewHost) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    answer = update(host, host.newest(), 5 * GI, 5 * GI)
    assert answer.refusal is None
    assert answer.updates == (Update("a-main-0", "0-3"),)
    assert cause(answer) == "its new memory limit fits nowhere"
    assert charged(host) == {}


def test_a_synchronize_finds_the_same_containers(new_host: NewHost) -> None:
    host = new_host(policy_of())
    pod = run(host, "a")
    create(host, pod, "db")
    create(host, pod, "web", reserved=100 * MI)
    create(host, run(host, "b"), memory=1200 * MI)
    before = host.engine.state
    assert host.synchronize().updates == ()
    assert host.engine.state.accounting == before.accounting
    # A new process without a state file, whose evidence does not hold any more.
    for container_id, container in host.containers.items():
        facts = BurstableFacts(container.memory_limit_bytes, 999)
        host.containers[container_id] = replace(container, burstable=facts)
    host.engine = Engine(host.engine.context)
    host.synchronize()
    assert host.engine.state.accounting == before.accounting


def test_a_synchronize_records_no_containers_of_best_effort_pods(new_host: NewHost) -> None:
    host = new_host(policy_of())
    pod = host.run("a", "besteffort/")
    container = events.Container("c", pod.sandbox_id, "main", 200 * MI, cpuset_mems="1")
    host.containers["c"] = container
    host.synchronize()
    assert charged(host) == {}


def test_a_container_that_runs_unpinned_stays_so(new_host: NewHost) -> None:
    host = new_host(policy_of())
    pod = run(host, "a")
    create(host, pod, reserved=None)
    container = host.newest()
    host.containers[container.container_id] = replace(
        container, burstable=BurstableFacts(container.memory_limit_bytes)
    )
    assert host.synchronize().updates == ()
    assert charged(host) == {}


def test_pinned_memory_is_charged_after_the_setting_was_switched_off(new_host: NewHost) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    create(host, run(host, "b"), memory=1200 * MI)
    earlier = host.engine.state
    for container_id, container in host.containers.items():
        host.containers[container_id] = replace(container, burstable=None)
    context = new_context(four_nodes(), policy_of(BurstablePods()))
    host.engine = Engine(context, earlier)
    for _ in range(2):
        assert host.synchronize().updates == ()
        assert charged(host) == {"main": 1200 * MI}
        assert len(host.engine.state.holders) == 2
    # A resize shows nothing about the request now.
    container = next(c for c in host.containers.values() if c.memory_limit_bytes == 200 * MI)
    pod = host.pods[container.sandbox_id]
    answer = host.handle(events.UpdateContainer(pod, container, 300 * MI))
    assert cause(answer) == "burstablePods.evidence is empty"
    assert len(host.engine.state.holders) == 1
    # Without the earlier state nothing shows who set the nodes.
    host.engine = Engine(context)
    host.synchronize()
    assert charged(host) == {}


def test_nodes_that_are_no_list_or_have_no_container_name_are_not_recorded(
    new_host: NewHost,
) -> None:
    host = new_host(policy_of())
    create(host, run(host, "a"))
    container = host.newest()
    for changed in (
        replace(container, cpuset_mems="x"),
        replace(container, name=""),
        replace(container, memory_limit_bytes=None),
        replace(container, cpuset_mems="0-3"),
    ):
        host.engine = Engine(host.engine.context)
        host.containers[container.container_id] = changed
        host.synchronize()
        assert charged(host) == {}


def test_a_restarted_container_takes_its_memory_again(new_host: NewHost) -> None:
    host = new_host(policy_of())
    pod = run(host, "a")
    create(host, pod)
    host.stop(host.newest())
    host.synchronize()
    assert charged(host) == {"main": 200 * MI}
    assert create(host, pod).adjustment == Adjustment("0")
    assert charged(host) == {"main": 200 * MI}
    host.stop_pod(pod)
    assert charged(host) == {}
