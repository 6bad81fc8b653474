"""The results of steps: their documents, and what the records of a creation add to them."""

from functools import partial
from typing import Any

import pytest

from nri_numamem.engine.core.events import Container
from nri_numamem.engine.records.common import Hints
from nri_numamem.memorymanager import Explanation, Rejection, State
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.outcome import ConfinedResult, CpusResult, Found, Outcome
from nri_numamem.scenario.steps import Admit, Remove
from tests.engine.records.examples import example
from tests.scenario.documents import Document, documents, outcomes, pod, scenario

EMPTY = State({})
ADMIT = Admit("u")
REJECTION = Rejection("Reason", partial(Explanation, "text"))
ERROR = {"reason": "Reason", "message": "text", "nodes": [], "remedies": []}


def test_a_step_without_results() -> None:
    assert Outcome(Remove("u"), EMPTY).document == {"ok": True}


def test_nodes() -> None:
    outcome = Outcome(ADMIT, EMPTY, cpuset_mems={"a": "0-1", "b": None})
    assert outcome.document == {"ok": True, "cpusetMems": {"a": "0-1", "b": None}}


def test_a_rejection_has_the_nodes_of_the_containers_before() -> None:
    outcome = Outcome(ADMIT, EMPTY, rejection=REJECTION, cpuset_mems={"a": "0"})
    assert outcome.document == {"ok": False, "error": ERROR, "cpusetMems": {"a": "0"}}
    outcome = Outcome(ADMIT, EMPTY, rejection=REJECTION, cpuset_mems={})
    assert outcome.document == {"ok": False, "error": ERROR}


ANNOTATION = "memory-policy.numamem.io"


def annotated(annotations: dict[str, str]) -> Document:
    made = pod("a", "8Gi", containers=2, init="12Gi")
    return {**made, "metadata": {"uid": "a", "annotations": annotations}}


def admitted(annotations: dict[str, str], policy: Document | None) -> dict[str, Any]:
    settings: Document = {} if policy is None else {"memoryPolicy": policy}
    pods = [annotated(annotations)]
    (found,) = documents(scenario({"admit": {"pod": "a"}}, pods=pods, settings=settings))
    return found


def test_a_container_gets_the_policy_of_its_annotation() -> None:
    annotations = {f"{ANNOTATION}/container.init": "interleave"}
    found = admitted(annotations, {"modes": ["interleave"]})
    policy = {"policy": "interleave", "source": "annotation", "nodes": "0-1"}
    assert found["cpusetMems"]["init"] == "0-1"
    assert found["memoryPolicies"] == {"init": [policy]}


def test_a_default_applies_where_an_annotation_is_ignored() -> None:
    found = admitted({ANNOTATION: "bind"}, {"defaults": {"default": "local"}})
    ignored = {
        "policy": "bind",
        "source": "annotation",
        "cause": "memoryPolicy.modes is empty, so annotations choose no policy",
    }
    default = {"policy": "local", "source": "default", "nodes": ""}
    assert found["memoryPolicies"] == {name: [ignored, default] for name in ("init", "c0", "c1")}


@pytest.mark.parametrize("policy", [None, {"modes": ["bind"]}])
def test_without_a_choice_there_is_no_policy(policy: Document | None) -> None:
    assert "memoryPolicies" not in admitted({}, policy)


def test_without_the_setting_an_annotation_has_no_effect_but_a_cause() -> None:
    found = admitted({ANNOTATION: "bind"}, None)
    assert found["ok"]
    assert [each["policy"] for each in found["memoryPolicies"]["c0"]] == ["bind"]
    assert "nodes" not in found["memoryPolicies"]["c0"][0]


def test_a_policy_that_cannot_be_set_rejects_the_container() -> None:
    settings = {"memoryPolicy": {"modes": ["bind"], "onUnsupported": "Reject"}}
    pods = [annotated({f"{ANNOTATION}/container.c1": "interleave"})]
    document = scenario({"admit": {"pod": "a"}}, pods=pods, settings=settings)
    (outcome,) = outcomes(document)
    text = (
        "the memory policy 'interleave' of the pod's annotation cannot be set: "
        "memoryPolicy.modes allows only bind"
    )
    assert outcome.document["error"] == {
        "reason": "MemoryPolicyError",
        "message": text,
        "nodes": [],
        "remedies": [],
    }
    assert list(outcome.refused) == ["c1"]
    assert outcome.cpuset_mems is not None
    assert list(outcome.cpuset_mems) == ["init", "c0"]
    assert "c1" not in outcome.accounting.assignments["a"]


def test_a_misaligned_container_has_the_last_record() -> None:
    records = [
        example("admitted", {}),
        example("misaligned", {"misaligned": {"cpu": "0"}}),
    ]
    for made, misaligned in ((records[:1], {}), (records, {"c": Hints(cpu=NodeSet([0]))})):
        found = Found()
        found.add(Container("id", "s", "c"), made)
        assert found.misaligned == misaligned


def test_cpus_of_another_container_are_not_those_of_this_one() -> None:
    found, container = Found(), Container("id", "s", "c")
    made = [example("cpus_set", {"container_id": one, "cpus": cpus}) for one, cpus in NEW_CPUS]
    found.add(container, made)
    assert found.cpus == {"c": CpusResult("4-5")}


WEB = {"name": "web", "nodes": 1, "selector": {"app": "web"}, "confine": True}


def best_effort(uid: str, **labels: str) -> Document:
    metadata = {"uid": uid, "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c0"}]}}


def test_pods_are_placed_and_confined_by_their_labels() -> None:
    web = pod("b")
    web["metadata"]["labels"] = {"app": "web"}
    pods = [pod("a"), web, best_effort("c", app="web"), best_effort("d", app="db")]
    other, pinned, confined, free = admissions(pods, {"partitions": [WEB]})
    assert other == {"ok": True, "cpusetMems": {"c0": "0"}}
    assert pinned == {"ok": True, "cpusetMems": {"c0": "1"}}
    nodes = {"c0": {"partition": "web", "nodes": "1"}}
    assert confined == {"ok": True, "cpusetMems": {"c0": None}, "confined": nodes}
    assert free == {"ok": True, "cpusetMems": {"c0": None}}


def test_a_confined_container_is_found_in_its_records() -> None:
    found, container = Found(), Container("id", "s", "c")
    found.add(container, [example("confined", {"partition": "web", "nodes": "2-3"})])
    assert found.confined == {"c": ConfinedResult("web", NodeSet([2, 3]))}


NEW_CPUS = (("other", "0-1"), ("id", "4-5"))
CPUS = {"nodes": [{"id": n, "memory": "11Gi", "cpus": f"{4 * n}-{4 * n + 3}"} for n in (0, 1)]}


def with_cpus(uid: str, *cpus: int, memory: str = "2Gi") -> Document:
    made = pod(uid, memory, containers=len(cpus))
    for container, count in zip(made["spec"]["containers"], cpus, strict=True):
        container["resources"]["limits"]["cpu"] = count
    return made


def admissions(pods: list[Document], settings: Document, *more: Document) -> list[dict[str, Any]]:
    steps = [{"admit": {"pod": each["metadata"]["uid"]}} for each in pods]
    return documents(scenario(*steps, *more, machine=CPUS, pods=pods, settings=settings))


def test_the_strategy_that_decided_is_in_the_result() -> None:
    pods = [with_cpus("a", 1), with_cpus("b", 1)]
    one, two = admissions(pods, {"placementStrategy": "spread"})
    assert one["cpusetMems"] == {"c0": "0"}
    assert two["cpusetMems"] == {"c0": "1"}
    spread = {"strategy": "spread", "source": "setting", "equalNodes": ["0", "1"]}
    assert one["placementStrategies"] == two["placementStrategies"] == {"c0": spread}


def test_the_strategy_of_a_pod_in_pod_scope() -> None:
    settings = {"placementStrategy": "pack", "topologyManagerScope": "pod"}
    (found,) = admissions([with_cpus("a", 1)], settings)
    assert found["podPlacementStrategy"]["strategy"] == "pack"
    assert "placementStrategies" not in found


@pytest.mark.parametrize("strategy", ["spread", "no-such-strategy"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_pod_whose_annotation_is_ignored_has_the_strategy_of_the_setting(
    strategy: str, scope: str
) -> None:
    ignored = with_cpus("a", 1)
    ignored["metadata"]["annotations"] = {"placement-strategy.numamem.io": strategy}
    settings: Document = {"topologyManagerScope": scope}
    (found,) = admissions([ignored], settings)
    assert found.keys() == {"ok", "cpusetMems"}
    (found,) = admissions([ignored], {**settings, "placementStrategy": "pack"})
    if scope == "pod":
        strategies = [found["podPlacementStrategy"]]
    else:
        strategies = list(found["placementStrategies"].values())
    assert strategies == [{"strategy": "pack", "source": "setting", "equalNodes": ["0", "1"]}]


def test_without_a_strategy_and_cpus_the_result_has_neither() -> None:
    (found,) = admissions([with_cpus("a", 1)], {})
    assert found.keys() == {"ok", "cpusetMems"}


def test_cpu_requests_decide_with_balanced_with_cpus() -> None:
    pods = [with_cpus("a", 3), with_cpus("b", 2), with_cpus("c", 1)]
    found = admissions(pods, {"placementStrategy": "balanced-with-cpus"})
    assert [each["cpusetMems"]["c0"] for each in found] == ["0", "1", "1"]


def test_cpus_follow_memory_or_have_a_cause() -> None:
    pods = [with_cpus("a", 3, 2, memory="1Gi")]
    resize = {"resize": {"pod": "a", "container": "c0", "memory": "9Gi"}}
    stop = {"stop": {"pod": "a", "container": "c1"}}
    found, *_, resized = admissions(pods, {"cpuFollowsMemory": "prefer"}, stop, resize)
    assert found["cpus"]["c0"] == {"cpus": "0-3"}
    assert found["cpus"]["c1"] == {"cpus": "4-7"}
    assert "cpus" not in resized
    (found,) = admissions([with_cpus("a", 5)], {"cpuFollowsMemory": "prefer"})
    cause = "5 CPUs are requested on its NUMA nodes, which have 4"
    assert found["cpus"] == {"c0": {"cause": cause}}
    (found,) = admissions([with_cpus("a", 5)], {"cpuFollowsMemory": "require"})
    assert found["cpus"] == {"c0": {"cpus": "0-3", "cause": cause}}


def test_a_resize_onto_more_nodes_gives_their_cpus() -> None:
    resize = {"resize": {"pod": "a", "container": "c0", "memory": "12Gi"}}
    *_, resized = admissions([with_cpus("a", 1)], {"cpuFollowsMemory": "prefer"}, resize)
    assert resized["cpusetMems"] == {"c0": "0-1"}
    assert resized["cpus"] == {"c0": {"cpus": "0-7"}}


def test_containers_at_the_start_have_the_requests_of_their_pods() -> None:
    block = {"numaAffinity": [0], "type": "memory", "size": 1 << 30}
    pods = [with_cpus("a", 3, memory="1Gi"), with_cpus("b", 2)]
    document = scenario(
        {"admit": {"pod": "b"}},
        machine=CPUS,
        pods=pods,
        settings={"placementStrategy": "balanced-with-cpus"},
        state={"entries": {"a": {"c0": [block]}}},
    )
    (found,) = documents(document)
    assert found["cpusetMems"] == {"c0": "1"}
