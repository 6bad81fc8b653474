"""The envelope's codec, against written-out bytes and against protobuf's own."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.message import DecodeError

from nri_numamem.ttrpc.envelope import (
    Request,
    Response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from nri_numamem.ttrpc.status import RemoteProtocolError

INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)


def build_protobuf_classes() -> dict[str, Any]:
    """Build the envelope's messages with the protobuf runtime, from their field lists."""
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"s": field.TYPE_STRING, "b": field.TYPE_BYTES, "i": field.TYPE_INT32}
    kinds["l"] = field.TYPE_INT64
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    layout = {
        "KeyValue": "key:s value:s",
        # An Any is, on the wire, what a bytes field is.
        "Status": "code:i message:s details:b*",
        "Request": "service:s method:s payload:b timeout_nano:l metadata:KeyValue*",
        "Response": "status:Status payload:b",
    }
    for name, fields in layout.items():
        message = file.message_type.add(name=name)
        for number, entry in enumerate(fields.split(), 1):
            field_name, kind = entry.rstrip("*").split(":")
            label = field.LABEL_REPEATED if entry.endswith("*") else field.LABEL_OPTIONAL
            new = message.field.add(name=field_name, number=number, label=label)
            if kind in kinds:
                new.type = kinds[kind]
            else:
                new.type, new.type_name = field.TYPE_MESSAGE, f".t.{kind}"
    return dict(message_factory.GetMessages([file]))


CLASSES = build_protobuf_classes()


def request_by_protobuf(data: bytes) -> Request:
    found = CLASSES["t.Request"].FromString(data)
    metadata = tuple((pair.key, pair.value) for pair in found.metadata)
    return Request(found.service, found.method, found.payload, found.timeout_nano, metadata)


def response_by_protobuf(data: bytes) -> Response:
    found = CLASSES["t.Response"].FromString(data)
    return Response(found.payload, found.status.code, found.status.message)


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice("ab/.é水🐄") for _ in range(rng.choice([0, 1, 5, 200])))


def random_request(rng: random.Random) -> Request:
    return Request(
        random_text(rng),
        random_text(rng),
        rng.randbytes(rng.choice([0, 1, 127, 128, 300, 20_000])),
        rng.choice([0, 1, 127, 128, 2_000_000_000, -1, INT64_MAX, INT64_MIN]),
        tuple((random_text(rng), random_text(rng)) for _ in range(rng.randrange(4))),
    )


def random_response(rng: random.Random) -> Response:
    code = rng.choice([0, 1, 13, 16, 128, -1, (1 << 31) - 1, -(1 << 31)])
    return Response(rng.randbytes(rng.choice([0, 1, 127, 128, 20_000])), code, random_text(rng))


def test_golden_request() -> None:
    request = Request("a.B", "C", b"\x01\x02", 300, (("k", "v"), ("", "")))
    data = bytes.fromhex(
        "0a03 612e42"  # service
        "1201 43"  # method
        "1a02 0102"  # payload
        "20 ac02"  # timeout_nano
        "2a06 0a016b 120176"  # metadata
        "2a00"  # metadata, both empty
    )
    assert encode_request(request) == data
    assert decode_request(data) == request


def test_golden_response() -> None:
    assert encode_response(Response()) == b""
    assert decode_response(b"") == Response()
    failed = Response(b"p", 13, "no")
    data = bytes.fromhex("0a06 080d 12026e6f 1201 70")
    assert encode_response(failed) == data
    assert decode_response(data) == failed
    assert decode_response(bytes.fromhex("0a00")) == Response()  # Go's status OK


def test_same_as_protobuf_for_random_messages() -> None:
    rng = random.Random(1)
    for _ in range(300):
        request = random_request(rng)
        data = encode_request(request)
        assert decode_request(data) == request == request_by_protobuf(data)
        theirs = CLASSES["t.Request"](
            service=request.service,
            method=request.method,
            payload=request.payload,
            timeout_nano=request.timeout_ns,
            metadata=[{"key": key, "value": value} for key, value in request.metadata],
        )
        assert decode_request(theirs.SerializeToString()) == request

        response = random_response(rng)
        data = encode_response(response)
        assert decode_response(data) == response == response_by_protobuf(data)


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Damage a message: bytes changed, removed, doubled, put in or cut off; often small ones."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            out[at : at + 1] = rng.randbytes(1)
        elif kind == 1:
            del out[at : at + rng.randrange(1, 4)]
        elif kind == 2:
            out[at:at] = out[: rng.randrange(len(out) + 1)]
        elif kind == 3:
            out[at:at] = rng.choice(
                [b"\x80", b"\xff" * 9, b"\x3a\x01x", b"\x31" + bytes(8), b"\x35" + bytes(4), b"\0"]
            )
        else:
            del out[at:]
    return bytes(out)


def check_against_protobuf(
    data: bytes, ours: Callable[[bytes], object], theirs: Callable[[bytes], object]
) -> bool:
    """Check that both sides agree about the bytes; return whether they were accepted."""
    try:
        found = ours(data)
    except RemoteProtocolError as error:
        # protobuf skips groups, which proto3 cannot express; this codec refuses them.
        if "wire type" not in str(error):
            with pytest.raises(DecodeError):
                theirs(data)
        return False
    assert found == theirs(data)
    return True


def test_same_as_protobuf_for_damaged_messages() -> None:
    rng = random.Random(2)
    accepted = 0
    for _ in range(3000):
        request = Request("ab", random_text(rng)[:9], b"pay", rng.choice([0, 5, -3]), (("k", "v"),))
        data = mutate(rng, encode_request(request))
        accepted += check_against_protobuf(data, decode_request, request_by_protobuf)
        response = Response(b"pay", rng.choice([0, 5, -3]), random_text(rng)[:9])
        data = mutate(rng, encode_response(response))
        accepted += check_against_protobuf(data, decode_response, response_by_protobuf)
    assert 300 < accepted < 5700  # both outcomes were tried


def test_unknown_fields_are_skipped() -> None:
    unknown = bytes.fromhex(
        "30 96 01"  # 6: varint
        "39 0102030405060708"  # 7: 64 bits
        "45 01020304"  # 8: 32 bits
        "4a 03 ff ff ff"  # 9: bytes that are no text
        "f8ffffff0f 01"  # the largest field number
        "08 07"  # 1 (service) as a varint: not that field
    )
    request = Request("s", "m", b"p")
    assert decode_request(unknown + encode_request(request) + unknown) == request
    assert decode_response(unknown + encode_response(Response(b"p"))) == Response(b"p")
    pair = bytes.fromhex("0a016b 1801 120176")
    assert decode_request(b"\x2a" + bytes((len(pair),)) + pair).metadata == (("k", "v"),)


def test_details_of_a_status_are_skipped() -> None:
    status = CLASSES["t.Status"](code=5, message="gone", details=[b"any", b"\xff"])
    data = CLASSES["t.Response"](status=status).SerializeToString()
    assert decode_response(data) == Response(b"", 5, "gone")


def test_the_last_scalar_wins() -> None:
    first, last = Request("a", "b", b"c", 1), Request("d", "e", b"f", 2)
    assert decode_request(encode_request(first) + encode_request(last)) == last
    explicit_defaults = bytes.fromhex("0a00 1200 1a00 2000")
    assert decode_request(encode_request(first) + explicit_defaults) == Request("", "")


def test_a_status_in_parts_is_merged() -> None:
    code, message, again = "0a02 0805", "0a04 12026e6f", "0a02 0809"
    assert decode_response(bytes.fromhex(code + message)) == Response(b"", 5, "no")
    assert decode_response(bytes.fromhex(code + "1200" + message + again)) == Response(b"", 9, "no")
    assert decode_response(bytes.fromhex(code + "0a02 0800")).code == 0


def test_numbers_are_truncated_to_their_size() -> None:
    # An int32 arrives as 64 bits; only the low 32 count (protobuf encoding guide).
    assert decode_response(bytes.fromhex("0a06 08 8d80808010")).code == 13
    assert decode_request(bytes.fromhex("20 ffffffffffffffffff01")).timeout_ns == -1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0a", "ends inside a number"),
        ("80", "ends inside a number"),
        ("0a05 6162", "ends inside a field"),
        ("31 0000", "ends inside a field"),
        ("35 0000", "ends inside a field"),
        ("20 80", "ends inside a number"),
        ("20 ffffffffffffffffffff01", "number is too long"),
        ("0aff ffffffff ffffffff 01", "ends inside a field"),
        ("0b 0c", "wire type 3"),
        ("0c", "wire type 4"),
        ("0e", "wire type 6"),
        ("0f", "wire type 7"),
        ("00 00", "illegal field tag 0"),
        ("02 00", "illegal field tag 2"),
        ("8880808010 00", "illegal field tag"),
        ("0a01 ff", "not UTF-8"),
        ("1203 eda080", "not UTF-8"),  # a surrogate
        ("2a03 0a01ff", "not UTF-8"),
        ("2a02 0a05 1a05 0000000000", "ends inside a field"),  # beyond its own message
        ("2a01 0a", "ends inside a number"),
    ],
)
def test_invalid_requests_are_refused(data: str, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        decode_request(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["0a03 1201ff", "0a01 08", "0a05 0801", "12"])
def test_invalid_responses_are_refused(data: str) -> None:
    with pytest.raises(RemoteProtocolError, match="envelope"):
        decode_response(bytes.fromhex(data))


@pytest.mark.parametrize("timeout_ns", [INT64_MAX + 1, INT64_MIN - 1])
def test_a_timeout_beyond_64_bits_is_refused(timeout_ns: int) -> None:
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        encode_request(Request("s", "m", timeout_ns=timeout_ns))


def test_strings_that_utf_8_cannot_encode_are_refused() -> None:
    for request in (Request("\udcff", "m"), Request("s", "m", metadata=(("k", "\ud800"),))):
        with pytest.raises(ValueError, match="surrogates"):
            encode_request(request)
    with pytest.raises(ValueError, match="surrogates"):
        encode_response(Response(code=2, message="\udcff"))
