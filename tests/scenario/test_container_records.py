"""Memory policies of a played scenario, and what the records of a creation add to its result."""

from typing import Any

import pytest

from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.scenario.container_records import misaligned
from tests.scenario.documents import Document, documents, outcomes, pod, scenario

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
    assert outcome.document["error"] == {"reason": "MemoryPolicyError", "message": text}
    assert list(outcome.refused) == ["c1"]
    assert outcome.cpuset_mems is not None
    assert list(outcome.cpuset_mems) == ["init", "c0"]
    assert "c1" not in outcome.accounting.assignments["a"]


def test_a_misaligned_container_has_the_last_record() -> None:
    records = [
        Record(EventName.ADMITTED, {}),
        Record(EventName.MISALIGNED, {"misaligned": {"cpus": "0"}}),
    ]
    assert misaligned("c", records) == {"c": {"cpus": "0"}}
    assert misaligned("c", records[:1]) == {}
