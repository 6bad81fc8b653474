"""Records of misaligned containers."""

from nri_numamem.engine.admission.alignment_records import found_misaligned, misaligned
from nri_numamem.engine.core.candidates import Choice
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import default_state
from nri_numamem.numa import Machine, NodeSet, NumaNode

POD = PodSandbox("s", "u", "ns", "pod", "/kubepods/podu")
CONTAINER = Container("id", "s", "main", 1)
STATE = default_state(Machine((NumaNode(0, 2), NumaNode(1, 9))), {0: {}, 1: {}})


def test_each_provider_has_a_cause() -> None:
    remote = OtherProviders((NodeSet([0]),), NodeSet([0]))
    choice = Choice(STATE, "u", {"memory": 5}, NodeSet([1]), remote)
    record = misaligned(choice, POD, CONTAINER, remote)
    assert record.event == "misaligned"
    assert fields_of(record)["nodes"] == "1"
    assert fields_of(record)["misaligned"] == {"cpu": "0", "devices": ["0"]}
    assert fields_of(record)["causes"] == {"cpu": "too_small", "devices": "too_small"}


def test_only_the_providers_that_are_away() -> None:
    remote = OtherProviders(cpu=NodeSet([0]))
    choice = Choice(STATE, "u", {"memory": 1}, NodeSet([1]), remote)
    assert fields_of(misaligned(choice, POD, CONTAINER, remote))["causes"] == {"cpu": "ranks_lower"}
    devices = OtherProviders((NodeSet([0]), NodeSet([0, 1])))
    choice = Choice(STATE, "u", {"memory": 5}, NodeSet([1]), devices)
    record = misaligned(choice, POD, CONTAINER, devices.misaligned_with(NodeSet([1])))
    assert fields_of(record)["misaligned"] == {"devices": ["0"]}


def test_nodes_that_were_set_before() -> None:
    record = found_misaligned(POD, CONTAINER, NodeSet([1]), OtherProviders(cpu=NodeSet([0])))
    assert fields_of(record)["causes"] == {"cpu": "adopted"}
    assert fields_of(record)["container_id"] == "id"
