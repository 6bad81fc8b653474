"""Records of containers in Burstable pods show what their request follows from."""

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, UpdateContainer
from nri_numamem.engine.features.burstable_pods import records
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Block
from nri_numamem.memorymanager.burstable import BurstableFacts, Evidence
from nri_numamem.numa import MEMORY, NodeSet

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/burstable/podu")


def test_what_records_show() -> None:
    container = Container("id", "s", "c", 300, burstable=BurstableFacts(200, 900))
    created = CreateContainer(POD, container, available_memory={1: 7, 0: 5})
    blocks = (Block(NodeSet({1}), MEMORY, 300),)
    pinned = records.pinned(created, Evidence.LIMITS, NodeSet([0]), -500)
    not_pinned = records.not_pinned(created, "why", "what is free")
    unpinned = records.unpinned(
        UpdateContainer(POD, container, 400, reserved_bytes=300), blocks, NodeSet(), "why"
    )
    for record in (pinned, not_pinned, unpinned):
        assert (fields_of(record)["reserved_bytes"], fields_of(record)["oom_score_adj"]) == (
            200,
            900,
        )
    assert fields_of(not_pinned)["available_bytes"] == {"0": 5, "1": 7}
    assert fields_of(unpinned)["released_bytes"] == {MEMORY: 300}


def test_unknown_facts_are_null() -> None:
    record = records.not_pinned(CreateContainer(POD, Container("id", "s", "c")), "why")
    assert fields_of(record)["reserved_bytes"] is None
    assert "message" not in fields_of(record)
    assert "available_bytes" not in fields_of(record)
