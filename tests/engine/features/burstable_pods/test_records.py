"""Records of containers in Burstable pods have the fields of their types."""

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, UpdateContainer
from nri_numamem.engine.features.burstable_pods import records
from nri_numamem.engine.records.table import EVENTS
from nri_numamem.memorymanager import Block
from nri_numamem.memorymanager.burstable import BurstableFacts, Evidence
from nri_numamem.numa import MEMORY, NodeSet

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/burstable/podu")


def test_records_have_the_fields_of_their_types() -> None:
    container = Container("id", "s", "c", 300, burstable=BurstableFacts(200, 900))
    created = CreateContainer(POD, container, available_memory={1: 7, 0: 5})
    blocks = (Block(NodeSet({1}), MEMORY, 300),)
    pinned = records.pinned(created, Evidence.LIMITS, "0", -500)
    not_pinned = records.not_pinned(created, "why", "what is free")
    unpinned = records.unpinned(
        UpdateContainer(POD, container, 400, reserved_bytes=300), blocks, NodeSet(), "why"
    )
    for record in (pinned, not_pinned, unpinned):
        assert set(record.fields) <= set(EVENTS[record.event].fields)
        assert (record.fields["reserved_bytes"], record.fields["oom_score_adj"]) == (200, 900)
    assert not_pinned.fields["available_bytes"] == {"0": 5, "1": 7}
    assert unpinned.fields["released_bytes"] == {MEMORY: 300}


def test_unknown_facts_are_null() -> None:
    record = records.not_pinned(CreateContainer(POD, Container("id", "s", "c")), "why")
    assert record.fields["reserved_bytes"] is None
    assert "message" not in record.fields
    assert "available_bytes" not in record.fields
