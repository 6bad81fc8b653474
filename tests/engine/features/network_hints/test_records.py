"""Records of network interfaces show the node of each."""

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.engine.features.network_hints import records
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.numa import NodeSet


def test_interfaces_are_shown_by_name() -> None:
    pod = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
    event = CreateContainer(pod, Container("id", "s", "c"))
    interfaces = NetworkInterface("eth1", NodeSet([2])), NetworkInterface("veth", NodeSet())
    found = records.found(event, NetworkRequest(interfaces))
    record = records.NetworkHintsIncomplete(found=found, cause="it is late")
    assert fields_of(record) == {
        "pod": "p",
        "namespace": "ns",
        "container": "c",
        "pod_uid": "u",
        "container_id": "id",
        "interfaces": {"eth1": "2", "veth": ""},
        "cause": "it is late",
    }
