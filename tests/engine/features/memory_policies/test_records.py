"""Records of memory policies; a refusal's text is bounded."""

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.features.memory_policies import records
from nri_numamem.engine.features.memory_policies.records import ANNOTATION, DEFAULT, PolicyChoice
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Level
from nri_numamem.numa import MemoryPolicy, NodeSet, PolicyMode

POLICY = MemoryPolicy(PolicyMode.BIND, NodeSet({0, 1}))
CHOICE = PolicyChoice("bind", ANNOTATION)


def creation(name: str = "c", request: PolicyRequest | None = None) -> CreateContainer:
    pod = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
    return CreateContainer(pod, Container("id", "s", name), policy_request=request)


def test_what_records_show() -> None:
    event = creation(request=PolicyRequest("bind", "kata"))
    made = records.policy_set(event, CHOICE, POLICY)
    assert fields_of(made)["nodes"] == "0-1"
    for record in (
        made,
        records.ignored(event, CHOICE, "it is old", is_off=False),
        records.rejected(event, CHOICE, "it is old"),
    ):
        assert fields_of(record)["runtime_handler"] == "kata"


def test_without_a_request_the_handler_is_unknown() -> None:
    record = records.ignored(creation(), CHOICE, "", is_off=True)
    assert fields_of(record)["runtime_handler"] == ""
    assert record.level is Level.DEBUG


@pytest.mark.parametrize(
    ("source", "text"), [(ANNOTATION, "the pod's annotation"), (DEFAULT, "memoryPolicy.defaults")]
)
def test_a_refusal_names_container_source_and_cause(source: str, text: str) -> None:
    found = records.refusal_text(creation(), PolicyChoice("bind", source), "it is old")
    assert found == (
        "numamem: container c of pod ns/p refused, MemoryPolicyError: the memory policy 'bind' of "
        f"{text} cannot be set: it is old"
    )


def test_long_names_are_cut() -> None:
    assert len(records.refusal_text(creation("c" * 9000), CHOICE, "it is old")) < 400
