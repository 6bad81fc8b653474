"""The kubelet's messages for drivers, as bytes that its own definition gives."""

from pathlib import Path

import pytest

from nri_numamem.kubelet import dra
from nri_numamem.kubelet import dra_pb2 as pb
from nri_numamem.kubelet import pluginregistration_pb2 as registration
from nri_numamem.kubelet.dra import ClaimName, DraError, PreparedDevice

ROOT = Path("/var/lib/kubelet")


def field(number: int, value: bytes) -> bytes:
    """Return a field with a length."""
    return bytes([number << 3 | 2, len(value)]) + value


def test_the_paths_of_the_sockets() -> None:
    assert str(dra.registration_socket(ROOT, "a.io")) == (
        "/var/lib/kubelet/plugins_registry/a.io-reg.sock"
    )
    assert str(dra.driver_socket(ROOT, "a.io")) == "/var/lib/kubelet/plugins/a.io/dra.sock"


def test_the_methods_are_those_of_the_services() -> None:
    services = [*registration.DESCRIPTOR.services_by_name.values()]
    services += pb.DESCRIPTOR.services_by_name.values()
    assert {
        dra.GET_INFO,
        dra.NOTIFY_REGISTRATION_STATUS,
        dra.NODE_PREPARE_RESOURCES,
        dra.NODE_UNPREPARE_RESOURCES,
    } == {f"/{each.full_name}/{method.name}" for each in services for method in each.methods}


def test_the_registration() -> None:
    assert dra.plugin_info("a.io", Path("/x/dra.sock")) == (
        field(1, b"DRAPlugin")
        + field(2, b"a.io")
        + field(3, b"/x/dra.sock")
        + field(4, b"v1.DRAPlugin")
    )
    assert dra.registration_reply() == b""


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\x08\x01", ""),
        (b"\x08\x01" + field(2, b"old"), ""),
        (field(2, b"no version"), "no version"),
        (b"", "the kubelet gives no reason"),
    ],
)
def test_the_status_of_the_registration(payload: bytes, error: str) -> None:
    assert dra.registration_error(payload) == error


def test_the_claims_of_a_request() -> None:
    payload = b"".join(
        field(1, field(1, b"ns") + field(2, uid) + field(3, b"app")) for uid in (b"u-1", b"u-2")
    )
    claims = (ClaimName("ns", "app", "u-1"), ClaimName("ns", "app", "u-2"))
    assert dra.claims_to_prepare(payload) == dra.claims_to_unprepare(payload) == claims
    assert str(claims[0]) == "ns/app"


def test_the_reply_of_a_preparation() -> None:
    devices = [
        PreparedDevice("mem", "w", "memory-1", ("k=1", "k=2"), "s-1"),
        PreparedDevice("mem", "w", "memory-0"),
    ]
    reply = dra.prepare_reply({"u-1": devices, "u-2": "no room", "u-3": []})
    first = field(1, b"mem") + field(2, b"w") + field(3, b"memory-1")
    first += field(4, b"k=1") + field(4, b"k=2") + field(5, b"s-1")
    second = field(1, b"mem") + field(2, b"w") + field(3, b"memory-0")
    assert reply == (
        field(1, field(1, b"u-1") + field(2, field(1, first) + field(1, second)))
        + field(1, field(1, b"u-2") + field(2, field(2, b"no room")))
        + field(1, field(1, b"u-3") + field(2, b""))
    )


def test_the_reply_of_an_unpreparation_has_each_claim() -> None:
    reply = pb.NodeUnprepareResourcesResponse.FromString(
        dra.unprepare_reply({"u-1": "", "u-2": "disk full"})
    )
    assert {uid: entry.error for uid, entry in reply.claims.items()} == {
        "u-1": "",
        "u-2": "disk full",
    }


def test_messages_that_are_not_valid() -> None:
    for read, name in (
        (dra.registration_error, "RegistrationStatus"),
        (dra.claims_to_prepare, "NodePrepareResourcesRequest"),
        (dra.claims_to_unprepare, "NodeUnprepareResourcesRequest"),
    ):
        with pytest.raises(DraError, match=f"^{name} is not valid: "):
            read(b"\xff")
