"""Records of partitions show names and nodes."""

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.features.partitions import records
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import NodeSet, Partition, PartitionNodes

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/besteffort/podu")


def test_a_partition_without_nodes() -> None:
    record = records.unusable(PartitionNodes(Partition("web"), NodeSet(), "what it lacks"))
    assert (record.event, record.level) == ("partition_unusable", "warning")
    fields = fields_of(record)
    assert (fields["partition"], fields["cause"]) == ("web", "what it lacks")
    assert "partitions" in records.PartitionUnusable.advice


def test_several_partitions_match() -> None:
    fields = fields_of(records.ambiguous(POD, ("a", "b", "c")))
    assert (fields["pod"], fields["partition"], fields["others"]) == ("p", "a", ["b", "c"])


def test_a_confined_container() -> None:
    record = records.confined(POD, Container("id", "s", "c"), "web", NodeSet([0, 1]))
    fields = fields_of(record)
    names = (fields["namespace"], fields["pod"], fields["container"])
    assert names == ("ns", "p", "c")
    assert (fields["partition"], fields["nodes"]) == ("web", "0-1")


def test_running_containers_are_counted_and_the_first_are_listed() -> None:
    found = [f"ns/p/c{number:02}" for number in range(20)]
    record = records.unconfined(found[::-1])
    assert record.level == "warning"
    fields = fields_of(record)
    assert fields["container_count"] == 20
    assert fields["containers"] == found[: records.UNCONFINED_LIMIT]
