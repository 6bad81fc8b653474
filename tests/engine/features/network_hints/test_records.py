"""Records of network hints have the fields of their types."""

from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    NetworkInterface,
    NetworkRequest,
    PodSandbox,
)
from nri_numamem.engine.features.network_hints import records
from nri_numamem.engine.records.table import EVENTS
from nri_numamem.numa import NodeSet


def test_records_have_the_fields_of_their_types() -> None:
    pod = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
    event = CreateContainer(pod, Container("id", "s", "c"))
    interfaces = NetworkInterface("eth1", NodeSet([2])), NetworkInterface("veth", NodeSet())
    request = NetworkRequest(interfaces)
    for record in (
        records.found(event, request),
        records.disabled(event, request),
        records.incomplete(event, request, "it is late"),
    ):
        assert set(record.fields) == set(EVENTS[record.event].fields)
        assert record.fields["interfaces"] == {"eth1": "2", "veth": ""}
