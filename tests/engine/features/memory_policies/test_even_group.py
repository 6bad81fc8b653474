"""The annotation `interleave:N`: a container on N nodes with equal parts of its memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.annotations import MEMORY_POLICY
from nri_numamem.engine.core.facts import PolicyRequest, PolicySupport
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.memory_policies.even_group import unsupported
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation, check_accounting, check_groups
from nri_numamem.numa import (
    MemoryPolicies,
    MemoryPolicy,
    NodeSet,
    OnUnsupported,
    PolicyMode,
    Strategy,
)
from tests.engine.conftest import MI, PAGE, Answer, Host, four_nodes, handle

INTERLEAVE = PolicyMode.INTERLEAVE
POLICIES = MemoryPolicies((INTERLEAVE,), max_nodes=4, min_per_node_bytes=0)
ANNOTATION = "memory-policy.numamem.io"
# 992 MiB and 16 pages per node; node 0 has 960 MiB.
RESERVED = (Reservation(0, {"memory": 32 * MI}),)


@dataclass
class Life:
    """A host whose pods have annotations."""

    policy: Policy = field(
        default_factory=lambda: Policy(reserved_memory=RESERVED, memory_policies=POLICIES)
    )

    def __post_init__(self) -> None:
        self.host = Host(Engine(new_context(four_nodes(), self.policy)))

    def create(
        self,
        annotation: str = "interleave:2",
        name: str = "main",
        uid: str = "a",
        memory: int | None = 200 * MI,
        *,
        qos: str = "",
        mems: str = "",
        devices: tuple[str, ...] = (),
        hugepages: Mapping[int, int] | None = None,
        pod_hugepages: Mapping[int, int] | None = None,
        pod_memory: int | None = None,
        obstacle: str = "",
        has_policy_request: bool = True,
    ) -> Answer:
        pod = self.host.pods.get(f"sandbox-{uid}")
        if pod is None:
            pod = self.host.run(uid, qos, pod_hugepages, memory=pod_memory)
            pod = replace(pod, annotations={ANNOTATION: annotation} if annotation else {})
            self.host.pods[pod.sandbox_id] = pod
        container = events.Container(
            f"{uid}-{name}-{len(self.host.answers)}",
            pod.sandbox_id,
            name,
            memory,
            hugepages,
            cpuset_mems=mems,
            device_nodes=tuple(map(NodeSet.parse, devices)),
        )
        text = pod.annotation(MEMORY_POLICY, name)
        request = PolicyRequest(text, "", PolicySupport(obstacle))
        event = events.CreateContainer(
            pod, container, policy_request=request if has_policy_request else None
        )
        answer = self.host.handle(event)
        if answer.refusal is None:
            nodes = answer.adjustment.cpuset_mems if answer.adjustment else mems
            kept = replace(container, cpuset_mems=nodes)
            self.host.containers[kept.container_id] = kept
        assert not check_accounting(self.host.engine.state.accounting)
        assert not check_groups(self.host.engine.state.accounting)
        return answer

    def reserved(self, resource: str = "memory") -> list[int]:
        """Return the charged MiB per node."""
        nodes = self.host.engine.state.accounting.machine_state.values()
        return [node.memory_map[resource].reserved // MI for node in nodes]


def strict(policy: str = "best-effort", **options: object) -> Policy:
    made = Policy(reserved_memory=RESERVED, memory_policies=POLICIES)
    return replace(made, topology_manager_policy=policy, **options)  # type: ignore[arg-type]


def events_of(answer: Answer) -> list[str]:
    return [record.event for record in answer.records]


def rules(answer: Answer) -> list[tuple[str, str]]:
    """Return the node sets of the first record, with the rule of each."""
    candidates: Any = fields_of(answer.records[0])["candidates"]
    return [(each["nodes"], each["rule"]) for each in candidates]


def cause(answer: Answer) -> object:
    return fields_of(answer.records[-1])["cause"]


def test_a_container_that_fits_one_node_is_on_two_with_equal_parts() -> None:
    life = Life()
    answer = life.create()
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert answer.adjustment.memory_policy == MemoryPolicy(INTERLEAVE, NodeSet({0, 1}))
    assert life.reserved() == [100, 100, 0, 0]
    assert events_of(answer) == ["admitted", "memory_policy_set"]
    admitted, policy = answer.records
    assert fields_of(admitted)["even_nodes"] == 2
    assert rules(answer)[:3] == [("0-1", "chosen"), ("0", "other_count"), ("1", "other_count")]
    assert fields_of(admitted)["hints"] == {"memory": [{"affinity": "0-1", "preferred": True}]}
    assert fields_of(policy)["policy"] == "interleave:2"


def test_an_existing_group_is_shared_and_others_are_passed_over() -> None:
    life = Life()
    life.create(memory=400 * MI)
    plain = life.create("", uid="plain", memory=500 * MI)
    assert plain.adjustment is not None
    assert plain.adjustment.cpuset_mems == "2"
    again = life.create(uid="b", memory=300 * MI)
    assert again.adjustment is not None
    assert again.adjustment.cpuset_mems == "0-1"
    assert life.reserved() == [350, 350, 500, 0]
    third = life.create(uid="c", memory=1500 * MI)
    assert third.refusal is not None
    assert "in equal parts on 2 NUMA nodes, memory 750Mi each" in third.refusal
    assert fields_of(third.records[0])["even_nodes"] == 2
    assert ("0-1", "not_enough_free") in rules(third)
    assert ("3", "other_count") in rules(third)


def test_a_container_outside_of_the_pair_may_rank_lower() -> None:
    life = Life()
    life.create(uid="a", devices=("2-3",))
    answer = life.create(uid="b", devices=("0-1",))
    assert rules(answer)[:2] == [("0-1", "chosen"), ("2-3", "not_aligned")]


def test_a_device_without_a_group_is_recorded() -> None:
    life = Life()
    life.create("", uid="full", memory=900 * MI, devices=("3",))
    answer = life.create(devices=("3",))
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    (record,) = (each for each in answer.records if each.event == "misaligned")
    assert fields_of(record)["causes"] == {"devices": "blocks_group"}
    pair = Life()
    pair.create("", uid="full", memory=900 * MI, devices=("3",))
    answer = pair.create(devices=("2-3",))
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    (record,) = (each for each in answer.records if each.event == "misaligned")
    assert fields_of(record)["causes"] == {"devices": "other_group"}


def test_hugepages_are_divided_by_whole_pages() -> None:
    life = Life()
    answer = life.create(memory=200 * MI, hugepages={PAGE: 5 * PAGE})
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert life.reserved("hugepages-2Mi") == [6, 4, 0, 0]
    refused = life.create(uid="b", hugepages={PAGE: 34 * PAGE})
    assert refused.refusal is not None
    assert "hugepages-2Mi 34Mi each" in refused.refusal


@pytest.mark.parametrize("keeps_updates", [True, False])
def test_a_synchronize_charges_equal_parts_again(*, keeps_updates: bool) -> None:
    life = Life()
    life.create(memory=400 * MI)
    life.create("", uid="plain", memory=300 * MI)
    before = life.reserved()
    assert life.host.synchronize(keeps_updates=keeps_updates).updates == ()
    assert life.reserved() == before == [200, 200, 300, 0]
    restarted = Host(
        Engine(life.host.engine.context), pods=life.host.pods, containers=life.host.containers
    )
    life.host = restarted
    restarted.synchronize()
    assert life.reserved() == before


def test_without_the_annotation_or_on_another_number_of_nodes_a_synchronize_fills_nodes() -> None:
    life = Life()
    life.create("", memory=1200 * MI)
    life.create("interleave:3", uid="b", memory=300 * MI, mems="2-3")
    assert life.reserved() == [960, 240, 300, 0]
    life.host.synchronize()
    assert life.reserved() == [960, 240, 300, 0]


def test_preset_nodes_are_charged_evenly_if_their_number_is_the_requested_one() -> None:
    life = Life()
    answer = life.create(mems="2-3")
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == ""
    assert answer.adjustment.memory_policy == MemoryPolicy(INTERLEAVE, NodeSet({2, 3}))
    assert life.reserved() == [0, 0, 100, 100]


def test_a_restarted_container_keeps_its_nodes() -> None:
    life = Life()
    life.create("interleave:2", devices=("2-3",))
    assert life.reserved() == [0, 0, 100, 100]
    life.host.stop(life.host.newest())
    again = life.create()
    assert again.adjustment is not None
    assert again.adjustment.cpuset_mems == "2-3"
    assert life.reserved() == [0, 0, 100, 100]
    life.host.stop(life.host.newest())
    life.host.synchronize()  # the reservation of an ended container keeps its parts
    assert life.reserved() == [0, 0, 100, 100]


def test_a_resize_keeps_equal_parts_and_widens_as_any_other() -> None:
    life = Life()
    life.create()
    assert life.host.resize(life.host.newest(), 600 * MI).updates == ()
    assert life.reserved() == [300, 300, 0, 0]
    answer = life.host.resize(life.host.newest(), 2400 * MI)
    assert [update.cpuset_mems for update in answer.updates] == ["0-2"]
    life.host.synchronize()
    assert sum(life.reserved()) == 2400


def test_a_change_of_the_machine_keeps_equal_parts() -> None:
    life = Life()
    life.create()
    machine = four_nodes()
    nodes = tuple(replace(node, memory_bytes=node.memory_bytes * 2) for node in machine.nodes)
    handle(life.host.engine, events.MachineChanged(replace(machine, nodes=nodes)))
    assert life.reserved() == [100, 100, 0, 0]


def test_what_the_pod_holds_beyond_its_limit_is_released() -> None:
    life = Life()
    life.create(memory=900 * MI, pod_memory=1000 * MI, annotation="")
    life.host.stop(life.host.newest())
    pod = life.host.pods["sandbox-a"]
    life.host.pods[pod.sandbox_id] = replace(pod, annotations={ANNOTATION: "interleave:2"})
    answer = life.create(name="next", memory=1000 * MI)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0-1"
    assert life.reserved() == [500, 500, 0, 0]


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_policies_that_admit_groups(policy: str) -> None:
    life = Life(strict(policy))
    answer = life.create(devices=("2-3",))
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == ("0-1" if policy == "none" else "2-3")


def test_restricted_refuses_a_device_on_a_part_of_the_group() -> None:
    answer = Life(strict("restricted")).create(devices=("1",))
    assert answer.refusal is not None
    assert "TopologyAffinityError" in answer.refusal
    assert "on 2 NUMA nodes" in answer.refusal


def test_single_numa_node_refuses_it_or_runs_it_unpinned() -> None:
    refused = Life(strict("single-numa-node")).create()
    assert refused.refusal is not None
    assert "single-numa-node allows 1; " in refused.refusal
    life = Life(strict("single-numa-node", when_unsatisfiable="RunUnpinned"))
    unpinned = life.create()
    assert unpinned.refusal is None
    assert unpinned.adjustment is not None
    assert unpinned.adjustment.cpuset_mems == ""
    assert unpinned.adjustment.memory_policy == MemoryPolicy(INTERLEAVE, NodeSet({0, 1, 2, 3}))
    assert life.reserved() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"qos": "burstable/"}, "the plugin chooses no NUMA nodes for the container: its pod is "),
        ({"mems": "1-3"}, "its cpuset.mems is 1-3 already, set by the kubelet or by another plugi"),
        ({"memory": None, "pod_memory": 200 * MI}, "the container has no memory limit of its own"),
        (
            {"pod_hugepages": {PAGE: PAGE}},
            "the runtime shows only the sum of the hugepages of its pod",
        ),
    ],
)
@pytest.mark.parametrize("action", list(OnUnsupported))
def test_a_container_whose_nodes_the_plugin_does_not_choose_so(
    options: dict[str, object], text: str, action: OnUnsupported
) -> None:
    policies = replace(POLICIES, on_unsupported=action)
    life = Life(strict(memory_policies=policies))
    answer = life.create(**options)  # type: ignore[arg-type]
    assert str(cause(answer)).startswith(text)
    if action is OnUnsupported.REJECT:
        assert answer.refusal is not None
        assert f"'interleave:2' of the pod's annotation cannot be set: {text}" in answer.refusal
    else:
        assert answer.adjustment is None or answer.adjustment.memory_policy is None
        assert events_of(answer)[-1] == "memory_policy_ignored"


@pytest.mark.parametrize("action", list(OnUnsupported))
def test_a_small_container_closes_no_nodes(action: OnUnsupported) -> None:
    policies = replace(POLICIES, on_unsupported=action, min_per_node_bytes=100 * MI)
    life = Life(strict(memory_policies=policies))
    answer = life.create("interleave:4", memory=16 << 10)
    text = "memoryPolicy.minPerNode requires 100Mi on each NUMA node; the container requests 16Ki"
    assert cause(answer) == f"{text} for 4"
    if action is OnUnsupported.REJECT:
        assert answer.refusal is not None
        assert f"'interleave:4' of the pod's annotation cannot be set: {text}" in answer.refusal
        return
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"
    assert answer.adjustment.memory_policy is None
    assert events_of(answer)[-1] == "memory_policy_ignored"
    # All nodes are still open for containers on one node.
    for index in range(4):
        plain = life.create("", uid=f"plain{index}", memory=900 * MI)
        assert plain.adjustment is not None
        assert plain.adjustment.cpuset_mems == str(index)


@pytest.mark.parametrize(
    ("memory", "hugepages", "nodes"),
    [(200 * MI, 0, "0-1"), (199 * MI, 0, "0"), (180 * MI, 10, "0-1"), (180 * MI, 9, "0")],
)
def test_hugepages_count_for_the_least_amount(memory: int, hugepages: int, nodes: str) -> None:
    life = Life(strict(memory_policies=replace(POLICIES, min_per_node_bytes=100 * MI)))
    answer = life.create(memory=memory, hugepages={PAGE: hugepages * PAGE})
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == nodes


def test_a_container_that_shrinks_below_the_least_amount_keeps_equal_parts() -> None:
    life = Life(strict(memory_policies=replace(POLICIES, min_per_node_bytes=100 * MI)))
    life.create()
    assert life.host.resize(life.host.newest(), 60 * MI).refusal is None
    assert life.reserved() == [30, 30, 0, 0]
    life.host.synchronize()
    assert life.reserved() == [30, 30, 0, 0]


def test_pod_scope_places_pods_as_a_whole() -> None:
    life = Life(strict(topology_manager_scope="pod"))
    answer = life.create(pod_memory=200 * MI)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"
    assert str(cause(answer)).startswith("with topologyManagerScope pod all containers of a pod ")


def test_a_container_that_shares_the_limit_of_its_pod_is_placed_beside_the_others() -> None:
    life = Life()
    life.create("", memory=300 * MI, pod_memory=400 * MI)
    pod = life.host.pods["sandbox-a"]
    life.host.pods[pod.sandbox_id] = replace(pod, annotations={ANNOTATION: "interleave:2"})
    answer = life.create(name="second", memory=300 * MI)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"
    assert str(cause(answer)).startswith("the container shares its pod's memory limit")


@pytest.mark.parametrize(
    ("annotation", "policies", "obstacle"),
    [
        ("interleave:2", MemoryPolicies((INTERLEAVE,)), ""),
        ("interleave:3", MemoryPolicies((INTERLEAVE,), max_nodes=2), ""),
        ("interleave:2", POLICIES, "the runtime is too old"),
        ("interleave", POLICIES, ""),
        ("interleave:2", MemoryPolicies(), ""),
    ],
)
def test_without_the_policy_as_few_nodes_as_possible(
    annotation: str, policies: MemoryPolicies, obstacle: str
) -> None:
    life = Life(strict(memory_policies=policies))
    answer = life.create(annotation, obstacle=obstacle)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"
    assert life.reserved() == [200, 0, 0, 0]
    life.host.synchronize()
    assert life.reserved() == [200, 0, 0, 0]


def test_without_a_policy_request_there_is_no_group() -> None:
    answer = Life().create(has_policy_request=False)
    assert answer.adjustment is not None
    assert answer.adjustment.cpuset_mems == "0"


def test_other_annotations_do_not_matter() -> None:
    life = Life()
    life.create("", memory=300 * MI, mems="0-1")
    pod = life.host.pods["sandbox-a"]
    life.host.pods[pod.sandbox_id] = replace(pod, annotations={"movable.numamem.io": "true"})
    life.host.synchronize()
    assert life.reserved() == [300, 0, 0, 0]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_strategy_decides_between_existing_groups(strategy: Strategy) -> None:
    life = Life(strict(placement_strategy=strategy))
    life.create(uid="a", memory=400 * MI, devices=("0-1",))
    life.create(uid="b", memory=200 * MI, devices=("2-3",))
    answer = life.create(uid="c")
    assert answer.adjustment is not None
    # No container requests CPUs, so the pair with the smaller used fraction is better balanced.
    is_second = strategy in (Strategy.SPREAD, Strategy.BALANCED_WITH_CPUS)
    assert answer.adjustment.cpuset_mems == ("2-3" if is_second else "0-1")
    assert "equal_nodes" not in fields_of(answer.records[0])


BIND = PolicyMode.BIND


def test_runtime_and_kernel_must_support_the_mode() -> None:
    assert unsupported(PolicyRequest(), BIND) == ""
    missing = PolicyRequest(support=PolicySupport(missing_modes=frozenset({BIND})))
    assert unsupported(missing, BIND) == "the kernel lacks the mode bind"
    assert unsupported(missing, PolicyMode.LOCAL) == ""
    old = PolicyRequest(support=PolicySupport("the NRI is too old", frozenset({BIND})))
    assert unsupported(old, BIND) == "the NRI is too old"
