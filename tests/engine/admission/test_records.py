"""Records of decisions on containers, as the engine makes them."""

from dataclasses import replace

import pytest

from nri_numamem.engine.admission.records import (
    HOLDERS_LIMIT,
    TEXT_LIMIT,
    adopted,
    ended,
    holders_of,
    not_managed,
    rejection_text,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, RunPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.request import Request
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.common import HolderShown
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Block, Explanation, Rejection, State, default_state
from nri_numamem.memorymanager.holder import HolderKind, HolderName
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from tests.engine.conftest import GI, MI, PAGE, Host, NewHost

MACHINE = Machine(tuple(NumaNode(n, 4 * GI, {2 << 20: 16}, CpuSet([n])) for n in (0, 1)))
POD = PodSandbox("s", "uid", "ns", "db", "/kubepods/poduid", memory_limit_bytes=6 * GI)
CONTAINER = Container("id", "s", "main", GI)


def create(policy: Policy, container: Container, pod: PodSandbox = POD) -> tuple[Record, ...]:
    engine = Engine(Context.of(MACHINE, policy))
    engine.apply(RunPodSandbox(pod))
    return engine.apply(CreateContainer(pod, container)).records


def rules(record: Record) -> dict[str, str]:
    listed = fields_of(record)["candidates"]
    assert isinstance(listed, list)
    return {str(entry["nodes"]): str(entry["rule"]) for entry in listed if isinstance(entry, dict)}


def test_an_admission_names_request_hints_candidates_and_adjustment() -> None:
    (record,) = create(Policy(), CONTAINER)
    fields = dict(fields_of(record))
    assert fields["request_bytes"] == {"memory": GI}
    assert fields["hints"] == {"memory": [{"affinity": str(n), "preferred": True} for n in (0, 1)]}
    assert rules(record) == {"0": "chosen", "1": "ranks_lower"}
    assert fields["merged_hint"] == {"affinity": "0", "preferred": True}
    assert (fields["nodes"], fields["adjustment"]) == ("0", {"cpuset_mems": "0"})


def test_an_admission_with_hugepages_names_their_source() -> None:
    page = 2 << 20
    container = replace(CONTAINER, hugepage_limits={page: 4 * page})
    (record,) = create(Policy(), container)
    assert fields_of(record)["hugepage_source"] == "container"
    assert fields_of(record)["adjustment"] == {
        "cpuset_mems": "0",
        "hugepage_limits_bytes": {"hugepages-2Mi": 4 * page},
        "hugepage_route": "limits",
    }


@pytest.mark.parametrize(("shortfall", "level"), [({}, "info"), ({"memory": 5}, "warning")])
def test_an_adoption_names_the_shortfall(shortfall: dict[str, int], level: str) -> None:
    state = EngineState(default_state(MACHINE, {}))
    request = Request({"memory": GI})
    record = adopted(state, POD, CONTAINER, request, NodeSet([0]), shortfall, NodeSet([7]))
    assert (record.event, record.level) == ("adopted", level)
    assert fields_of(record).get("shortfall_bytes", {}) == shortfall
    assert "excluded_nodes" not in fields_of(record)


def test_an_adoption_on_excluded_nodes_is_a_warning_without_a_shortfall() -> None:
    state = EngineState(default_state(MACHINE, {}))
    nodes, excluded = NodeSet([0, 7]), NodeSet([6, 7])
    record = adopted(state, POD, CONTAINER, Request({"memory": GI}), nodes, {"memory": 5}, excluded)
    assert record.level == "warning"
    assert fields_of(record)["excluded_nodes"] == "7"
    assert "shortfall_bytes" not in fields_of(record)


def test_a_rejection_names_the_candidates() -> None:
    (record,) = create(Policy(), Container("id", "s", "main", 9 * GI))
    assert record.event == "rejected"
    assert rules(record) == {"0": "too_small", "1": "too_small"}
    assert fields_of(record)["reason"] == "UnexpectedAdmissionError"


def test_without_rejection_the_container_runs_unpinned() -> None:
    policy = Policy(when_unsatisfiable="RunUnpinned")
    (record,) = create(policy, Container("id", "s", "main", 9 * GI))
    assert (record.event, record.level) == ("unpinned_no_capacity", "warning")


def test_in_pod_scope_the_pods_nodes_decide() -> None:
    policy = Policy(topology_manager_scope="pod")
    (record,) = create(policy, CONTAINER, replace(POD, memory_limit_bytes=2 * GI))
    assert rules(record) == {"0": "chosen", "1": "outside_pod_nodes"}
    (record,) = create(policy, CONTAINER)
    assert rules(record) == {"0-1": "chosen", "0": "other_group", "1": "other_group"}


def test_in_pod_scope_a_rejection_is_of_the_pods_request() -> None:
    policy = Policy(topology_manager_scope="pod", topology_manager_policy="single-numa-node")
    (record,) = create(policy, CONTAINER)
    assert record.event == "rejected"
    assert rules(record) == {"0": "too_small", "1": "too_small"}


def test_the_text_of_a_rejection_names_the_other_providers() -> None:
    context = Context.of(MACHINE, Policy())
    rejection = Rejection("Reason", lambda: Explanation("message"))
    text = "numamem: container main of pod ns/db refused, Reason"
    found = rejection_text(context, POD, CONTAINER, rejection, NO_OTHER_PROVIDERS)
    assert found == f"{text}: message"
    others = OtherProviders(cpu=NodeSet([1]))
    assert rejection_text(context, POD, CONTAINER, rejection, others) == (
        f"{text} with cpu on node 1: message"
    )


def test_the_policy_is_named_where_it_decides() -> None:
    context = Context.of(MACHINE, Policy(topology_manager_policy="restricted"))
    rejection = Rejection("TopologyAffinityError", lambda: Explanation("message"))
    text = rejection_text(context, POD, CONTAINER, rejection, NO_OTHER_PROVIDERS)
    assert "refused, TopologyAffinityError (topologyManagerPolicy restricted): message" in text


def test_in_pod_scope_the_text_has_the_amount_of_the_whole_pod() -> None:
    engine = Engine(Context.of(MACHINE, Policy(topology_manager_scope="pod")))
    pod = replace(POD, memory_limit_bytes=90 * GI)
    applied = engine.apply(CreateContainer(pod, CONTAINER))
    assert "requested the whole pod's memory 90Gi; " in (applied.plan.refusal or "")
    assert fields_of(applied.records[0])["pod_request_bytes"] == {"memory": 90 * GI}


@pytest.mark.parametrize("length", [1, 63, 253, 5000])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_text_has_at_most_900_characters_also_with_64_nodes(length: int, scope: str) -> None:
    """The id of the refusal comes on top."""
    nodes = tuple(NumaNode(n, (4 + n) * GI, cpus=CpuSet([n])) for n in range(64))
    policy = Policy(topology_manager_policy="single-numa-node", topology_manager_scope=scope)
    engine = Engine(Context.of(Machine(nodes), policy))
    other = PodSandbox("t", "tenant", "tenants", "secret-pod", "/kubepods/podtenant")
    engine.apply(CreateContainer(other, Container("o", "t", "secret-app", 3 * GI)))
    name = "n" * length
    pod = PodSandbox("s", "u", name, name, "/kubepods/podu", memory_limit_bytes=900 * GI)
    container = Container("c", "s", name, 900 * GI, cpuset_cpus="0-63")
    text = engine.apply(CreateContainer(pod, container)).plan.refusal
    assert text is not None
    assert len(text) <= TEXT_LIMIT < 900
    assert text.startswith("numamem: container n")
    assert text.endswith("Resources cannot be allocated with Topology locality")
    assert "; remedy: " in text
    assert "secret" not in text


def test_a_container_that_is_not_managed() -> None:
    record = not_managed(POD, CONTAINER, "its pod is Burstable")
    assert (record.level, fields_of(record)["cause"]) == ("debug", "its pod is Burstable")
    assert not_managed(POD, CONTAINER, "invalid", is_invalid=True).level == "warning"


@pytest.mark.parametrize(
    ("memory", "limit", "shares", "obstacles"),
    [
        (None, None, None, ["no_memory_limit", "no_cpu_limit"]),
        (1, None, 512, ["no_cpu_limit"]),
        (1, 500, 256, ["cpu_request_below_limit"]),
        (1, 500, 512, []),
        (1, 501, 513, []),
        (1, 500, None, []),
    ],
)
def test_what_keeps_a_pod_from_being_guaranteed(
    memory: int | None, limit: int | None, shares: int | None, obstacles: list[str]
) -> None:
    pod = replace(POD, cgroup_parent="/kubepods/burstable/podx", memory_limit_bytes=7)
    container = Container("id", "s", "main", memory, cpu_shares=shares, cpu_limit_millicores=limit)
    fields = fields_of(not_managed(pod, container, "its pod is Burstable"))
    assert fields["qos_obstacles"] == obstacles
    assert (fields["qos_class"], fields["memory_limit_bytes"]) == ("Burstable", memory)
    assert fields["pod_memory_limit_bytes"] == 7


def test_a_guaranteed_pod_has_no_obstacles() -> None:
    pod = replace(POD, cgroup_parent="/kubepods/podx")
    fields = fields_of(not_managed(pod, CONTAINER, "memoryManagerPolicy is None"))
    assert fields["qos_class"] == "Guaranteed"
    assert "qos_obstacles" not in fields


def test_an_end_names_what_the_pod_may_reuse() -> None:
    holder = Holder("id", "s", ("uid", "main"))
    state = EngineState(default_state(MACHINE, {}))
    assert fields_of(ended(state, holder))["reusable_bytes"] == {}


def test_the_holders_in_a_rejection(host: Host) -> None:
    host.create(host.run("a"), "small", 100 * MI)
    host.create(host.run("b"), "large", 700 * MI)
    own = host.run("c")
    host.create(own, "first", 300 * MI)
    (record,) = host.create(own, "second", 100 * GI).records
    assert fields_of(record)["holders"] == [
        {
            "namespace": "ns",
            "pod": "pod-b",
            "container": "large",
            "pod_uid": "b",
            "nodes": host.placed()["b"]["large"],
            "held_bytes": {"memory": 700 * MI},
        },
        {
            "namespace": "ns",
            "pod": "pod-a",
            "container": "small",
            "pod_uid": "a",
            "nodes": host.placed()["a"]["small"],
            "held_bytes": {"memory": 100 * MI},
        },
    ]


def test_only_requested_resources_count(new_host: NewHost) -> None:
    host = new_host(Policy())
    host.create(host.run("a"), "app", 100 * MI, hugepages={PAGE: 2 * PAGE})
    host.create(host.run("b"), "app", 200 * MI, hugepages={PAGE: 0})
    (found,) = holders_of(host.engine.state, "x", ["hugepages-2Mi"])
    assert (found.pod, found.held_bytes) == ("pod-a", {"hugepages-2Mi": 2 * PAGE})


def test_the_list_is_bounded_and_names_may_be_unknown() -> None:
    small, large = (Block(NodeSet([0]), "memory", 5),), (Block(NodeSet([0]), "memory", 9),)
    blocks: dict[HolderName, tuple[Block, ...]] = {"app": small, HolderKind.POD: large}
    machine = default_state(MACHINE, {}).machine_state
    state = EngineState(State(machine, {f"u{n:02}": blocks for n in range(30)}))
    found = holders_of(state, "x", ["memory"])
    assert len(found) == HOLDERS_LIMIT
    assert found[0] == HolderShown(
        namespace="",
        pod="",
        container="",
        pod_uid="u00",
        nodes=NodeSet([0]),
        held_bytes={"memory": 9},
    )
