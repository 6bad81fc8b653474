"""The envelope of every call: ttrpc.Request and ttrpc.Response, as protobuf (proto3) bytes.

Source of the fields: ttrpc request.proto and google/rpc/status.proto.

    Request   1 service, 2 method, 3 payload, 4 timeout_nano (int64), 5 repeated KeyValue
    KeyValue  1 key, 2 value
    Response  1 Status, 2 payload
    Status    1 code (int32), 2 message, 3 details (skipped: unary ttrpc has no use for them)

Four small messages do not justify a dependency on protobuf, so this module has their codec. It
follows proto3's decoding rules: unknown fields and known fields with another wire type are skipped;
the last value of a repeated scalar counts; the parts of a Status are merged; strings must be UTF-8.
Groups, which proto3 does not have, are refused. Only the payload is copied, once.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nri_numamem.ttrpc.status import RemoteProtocolError

# Wire types (protobuf encoding guide); 3 and 4 mark groups.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}

# A tag is field number << 3 | wire type. It has at most 32 bits, and field number 0 is illegal.
_TAG_MIN, _TAG_MAX = 1 << 3, (1 << 32) - 1
_REQUEST_SERVICE = _KEY = _STATUS = 1 << 3 | _BYTES
_REQUEST_METHOD = _VALUE = _STATUS_MESSAGE = _RESPONSE_PAYLOAD = 2 << 3 | _BYTES
_REQUEST_PAYLOAD = 3 << 3 | _BYTES
_REQUEST_TIMEOUT = 4 << 3 | _VARINT
_REQUEST_METADATA = 5 << 3 | _BYTES
_STATUS_CODE = 1 << 3 | _VARINT

_VARINT_MAX_BYTES = 10
# Set in every byte of a varint but the last.
_VARINT_MORE = 0x80
_UINT64_MASK = (1 << 64) - 1

_NOT_UTF8 = "envelope has a string that is not UTF-8"

Metadata = Sequence[tuple[str, str]]


class Request(NamedTuple):
    """One call; `timeout_ns` is the time left when it was written, 0 for no limit."""

    service: str
    method: str
    payload: bytes = b""
    timeout_ns: int = 0
    metadata: Metadata = ()


class Response(NamedTuple):
    """The reply to one call; `code` 0 is success, with any `message`."""

    payload: bytes = b""
    code: int = 0
    message: str = ""


def encode_request(request: Request) -> bytes:
    """Return the protobuf bytes, without fields of default values.

    Raise ValueError for a string that UTF-8 cannot encode and a timeout beyond signed 64 bits.
    """
    timeout_ns = request.timeout_ns
    if not -(1 << 63) <= timeout_ns < 1 << 63:
        raise ValueError(f"timeout of {timeout_ns} ns does not fit 64 bits")
    parts = [
        _encode_bytes(_REQUEST_SERVICE, request.service.encode()),
        _encode_bytes(_REQUEST_METHOD, request.method.encode()),
        _encode_bytes(_REQUEST_PAYLOAD, request.payload),
        _encode_varint(_REQUEST_TIMEOUT, timeout_ns),
    ]
    for key, value in request.metadata:
        pair = _encode_bytes(_KEY, key.encode()) + _encode_bytes(_VALUE, value.encode())
        # An empty element of a repeated field is written, too.
        parts.append(bytes((_REQUEST_METADATA,)) + _varint(len(pair)) + pair)
    return b"".join(parts)


def encode_response(response: Response) -> bytes:
    """Return the protobuf bytes; b"" for a success without payload.

    Raise ValueError for a message that UTF-8 cannot encode.
    """
    payload = _encode_bytes(_RESPONSE_PAYLOAD, response.payload)
    if not (response.code or response.message):
        return payload
    status = _encode_varint(_STATUS_CODE, response.code) + _encode_bytes(
        _STATUS_MESSAGE, response.message.encode()
    )
    return _encode_bytes(_STATUS, status) + payload


def decode_request(data: bytes) -> Request:
    """Return the request; raise RemoteProtocolError for invalid bytes."""
    service = method = ""
    payload = b""
    timeout_ns = 0
    metadata: list[tuple[str, str]] = []
    try:
        for tag, value, stop in _fields(data, 0, len(data)):
            if tag == _REQUEST_SERVICE:
                service = data[value:stop].decode()
            elif tag == _REQUEST_METHOD:
                method = data[value:stop].decode()
            elif tag == _REQUEST_PAYLOAD:
                payload = data[value:stop]
            elif tag == _REQUEST_TIMEOUT:
                # The low 64 bits as two's complement, like protobuf's int64.
                timeout_ns = value - (1 << 64) if value >> 63 else value
            elif tag == _REQUEST_METADATA:
                metadata.append(_decode_key_value(data, value, stop))
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(_NOT_UTF8) from error
    return Request(
        service=service,
        method=method,
        payload=payload,
        timeout_ns=timeout_ns,
        metadata=tuple(metadata),
    )


def decode_response(data: bytes) -> Response:
    """Return the response; raise RemoteProtocolError for invalid bytes."""
    payload = b""
    code, message = 0, ""
    try:
        for tag, value, stop in _fields(data, 0, len(data)):
            if tag == _RESPONSE_PAYLOAD:
                payload = data[value:stop]
            elif tag == _STATUS:
                # All occurrences are merged: each changes only the fields that it has.
                for inner_tag, inner_value, inner_stop in _fields(data, value, stop):
                    if inner_tag == _STATUS_CODE:
                        code = _int32(inner_value)
                    elif inner_tag == _STATUS_MESSAGE:
                        message = data[inner_value:inner_stop].decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(_NOT_UTF8) from error
    return Response(payload=payload, code=code, message=message)


def _decode_key_value(data: bytes, at: int, end: int) -> tuple[str, str]:
    key = text = ""
    for tag, value, stop in _fields(data, at, end):
        if tag == _KEY:
            key = data[value:stop].decode()
        elif tag == _VALUE:
            text = data[value:stop].decode()
    return key, text


def _fields(data: bytes, at: int, end: int) -> list[tuple[int, int, int]]:
    """Return (tag, value, 0) for each varint of a message, (tag, start, stop) for other fields.

    Nearly all tags and sizes have one byte, which this function decodes without a call.
    """
    fields: list[tuple[int, int, int]] = []
    while at < end:
        tag = data[at]
        at += 1
        if tag >= _VARINT_MORE:
            tag, at = _read_varint(data, at - 1, end)
        if not _TAG_MIN <= tag <= _TAG_MAX:
            raise RemoteProtocolError(f"envelope has an illegal field tag {tag}")
        wire_type = tag & 7
        if wire_type == _BYTES:
            if at < end and data[at] < _VARINT_MORE:
                start = at + 1
                at = start + data[at]
            else:
                size, start = _read_varint(data, at, end)
                at = start + size
        elif wire_type == _VARINT:
            value, at = _read_varint(data, at, end)
            fields.append((tag, value, 0))
            continue
        elif wire_type in _FIXED_BYTES:
            start = at
            at += _FIXED_BYTES[wire_type]
        else:
            raise RemoteProtocolError(f"envelope has a field of wire type {wire_type}")
        if at > end:
            raise RemoteProtocolError("envelope ends inside a field")
        fields.append((tag, start, at))
    return fields


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return (value truncated to 64 bits, position after the number)."""
    value = shift = 0
    for byte in data[at : min(end, at + _VARINT_MAX_BYTES)]:
        at += 1
        if byte < _VARINT_MORE:
            return (value | byte << shift) & _UINT64_MASK, at
        value |= (byte & 0x7F) << shift
        shift += 7
    raise RemoteProtocolError("envelope ends inside a number, or the number is too long")


def _int32(value: int) -> int:
    """Return the low 32 bits of `value` as two's complement, like protobuf's int32."""
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value


def _varint(value: int) -> bytes:
    value &= _UINT64_MASK  # negative numbers are sent as 64-bit two's complement
    out = bytearray()
    while value >= _VARINT_MORE:
        out.append(value & 0x7F | _VARINT_MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_varint(tag: int, value: int) -> bytes:
    return bytes((tag,)) + _varint(value) if value else b""


def _encode_bytes(tag: int, value: bytes) -> bytes:
    size = len(value)
    if 0 < size < _VARINT_MORE:
        return bytes((tag, size)) + value
    return b"".join((bytes((tag,)), _varint(size), value)) if value else b""
