"""Parsing a byte stream into frames: any pieces, any content, bounded memory."""

import random
from collections.abc import Iterator

import pytest

from nri_numamem.ttrpc.frames import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_STREAM_ID,
    Frame,
    FrameParser,
    MessageType,
    OversizeFrame,
    encode_frame,
)

FRAMES = [
    Frame(1, MessageType.REQUEST, 0, b"hello"),
    Frame(3, MessageType.REQUEST, 0, b""),
    Frame(MAX_STREAM_ID, MessageType.RESPONSE, 0, bytes(range(256)) * 3),
]
STREAM = b"".join(encode_frame(f.stream_id, f.message_type, f.body) for f in FRAMES)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def held_bytes(parser: FrameParser) -> int:
    return len(parser._buffer) + (HEADER_BYTES if parser._header else 0)


def test_golden_bytes() -> None:
    empty_response = bytes.fromhex("00000000 00000001 02 00")
    assert encode_frame(1, MessageType.RESPONSE, b"") == empty_response
    assert encode_frame(0x01020304, 1, b"ab") == bytes.fromhex("00000002 01020304 01 00 6162")
    assert FrameParser().feed(bytes.fromhex("00000001 00000007 03 05 ff")) == [
        Frame(7, MessageType.DATA, 5, b"\xff")
    ]
    assert (HEADER_BYTES, MAX_BODY_BYTES) == (10, 4_194_304)


@pytest.mark.parametrize(("stream_id", "message_type"), [(-1, 1), (1 << 32, 1), (1, 256), (1, -1)])
def test_numbers_too_large_for_the_header_are_refused(stream_id: int, message_type: int) -> None:
    with pytest.raises(ValueError, match="does not fit its header"):
        encode_frame(stream_id, message_type, b"")


@pytest.mark.parametrize("size", [len(STREAM), 1, 2, 7, 9, 10, 11, 15, 100])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_frames_do_not_depend_on_the_pieces(
    size: int, kind: type[bytes] | type[memoryview]
) -> None:
    parser = FrameParser()
    frames = [frame for piece in cut(STREAM, size) for frame in parser.feed(kind(piece))]
    assert frames == FRAMES
    assert held_bytes(parser) == 0


def test_an_incomplete_frame_waits_for_its_remainder() -> None:
    parser = FrameParser()
    assert parser.feed(STREAM + STREAM[:12]) == FRAMES
    assert held_bytes(parser) == 12
    assert parser.feed(STREAM[12:]) == FRAMES


def test_the_caller_may_reuse_its_buffer() -> None:
    parser = FrameParser()
    buffer = bytearray(STREAM[:12])
    assert parser.feed(buffer) == []
    buffer[:] = bytes(12)
    buffer.clear()  # raises BufferError while anything holds on to it
    assert parser.feed(STREAM[12:]) == FRAMES


def test_empty_data_completes_no_frame() -> None:
    assert FrameParser().feed(b"") == []


@pytest.mark.parametrize("size", [1, 3, 10, 14, 1000])
def test_an_oversize_body_is_skipped_and_reported_once(size: int) -> None:
    parser = FrameParser(max_body_bytes=8)
    stream = (
        encode_frame(1, 1, b"8 bytes.")
        + encode_frame(3, 1, b"too large")
        + encode_frame(5, 9, bytes(500))
        + encode_frame(7, 1, b"")
    )
    frames: list[Frame | OversizeFrame] = []
    for piece in cut(stream, size):
        frames += parser.feed(piece)
        assert held_bytes(parser) < HEADER_BYTES + parser.max_body_bytes
    assert frames == [
        Frame(1, 1, 0, b"8 bytes."),
        OversizeFrame(3, 1, 9),
        OversizeFrame(5, 9, 500),
        Frame(7, 1, 0, b""),
    ]


def test_an_oversize_body_is_reported_after_its_header_and_not_stored() -> None:
    parser = FrameParser()
    huge = bytes.fromhex("ffffffff 00000001 01 00")
    assert parser.feed(huge) == [OversizeFrame(1, 1, 0xFFFFFFFF)]
    for _ in range(50):
        assert parser.feed(bytes(1 << 16)) == []
        assert held_bytes(parser) == 0


def test_the_limit_itself_is_accepted() -> None:
    body = bytes(MAX_BODY_BYTES)
    parser = FrameParser()
    message = encode_frame(1, 1, body)
    assert [frame for piece in cut(message, 65_536) for frame in parser.feed(piece)] == [
        Frame(1, 1, 0, body)
    ]
    assert parser.feed(encode_frame(3, 1, body + b"x")) == [OversizeFrame(3, 1, len(body) + 1)]


def test_random_bytes_in_any_pieces_give_the_same_frames() -> None:
    rng = random.Random(5)
    for _ in range(200):
        data = b"".join(
            bytes((0, 0, 0, rng.randrange(40))) + rng.randbytes(rng.randrange(60))
            for _ in range(rng.randrange(12))
        )
        whole, cut_up = FrameParser(max_body_bytes=30), FrameParser(max_body_bytes=30)
        expected = whole.feed(data)
        frames: list[Frame | OversizeFrame] = []
        at = 0
        while at < len(data):
            step = rng.randrange(1, 25)
            frames += cut_up.feed(data[at : at + step])
            at += step
        assert frames == expected
        assert held_bytes(whole) == held_bytes(cut_up) < HEADER_BYTES + 30
