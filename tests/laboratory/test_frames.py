import struct

import pytest

from tests.laboratory.frames import FrameRecorder


def _message(body_bytes: int, stream_id: int = 1) -> bytes:
    return struct.pack(">IIBB", body_bytes, stream_id, 2, 0) + bytes(body_bytes)


def _frame(payload: bytes, conn_id: int = 1) -> bytes:
    return struct.pack(">II", conn_id, len(payload)) + payload


def _judge(*payloads: bytes) -> list[str]:
    recorder = FrameRecorder()
    recorder.feed(b"".join(_frame(payload) for payload in payloads))
    return recorder.violations


@pytest.mark.parametrize("body_bytes", [0, 1, 4086, 4087, 8192, 300_000])
def test_header_with_first_bytes_then_the_remainder_is_valid(body_bytes: int) -> None:
    message = _message(body_bytes)
    rest = [message[4096:]] if len(message) > 4096 else []
    assert _judge(message[:4096], *rest, message[:4096], *rest) == []


def test_header_alone_then_the_whole_body_is_valid() -> None:
    message = _message(10_000)
    assert _judge(message[:10], message[10:]) == []


def test_split_header_and_empty_frames_are_valid() -> None:
    message = _message(20)
    assert _judge(message[:5], b"", message[5:12], b"", message[12:]) == []


def test_a_large_first_frame_is_a_violation() -> None:
    (violation,) = _judge(_message(4087))
    assert violation.startswith("frame 0 of connection 1 has 4097 bytes where a header is expected")


def test_two_messages_in_one_frame_are_a_violation() -> None:
    assert _judge(_message(0) * 3) == ["frame 0 of connection 1 holds bytes of two messages"]


def test_a_frame_across_two_messages_is_a_violation() -> None:
    message = _message(9000)
    violations = _judge(message[:4096], message[4096:] + _message(0, 3)[:4], _message(0, 3)[4:])
    assert violations == ["frame 1 of connection 1 holds bytes of two messages"]


def test_a_frame_larger_than_a_short_remainder_is_a_violation() -> None:
    message = _message(100)
    violations = _judge(message[:20], message[20:] + _message(5000, 3))
    assert violations == ["frame 1 of connection 1 holds bytes of two messages"]
    recorder = FrameRecorder()
    recorder.feed(_frame(message[:20]) + _frame(message[20:] + bytes(5000)))
    assert recorder.violations


def test_connections_are_tracked_independently() -> None:
    recorder = FrameRecorder()
    recorder.feed(_frame(_message(20)[:8], 1))
    recorder.feed(_frame(_message(0), 2))
    recorder.feed(_frame(_message(20)[8:], 1))
    assert recorder.violations == []
    assert recorder.frames == [(1, 8), (2, 10), (1, 22)]


def test_unknown_connection_id_is_a_violation() -> None:
    recorder = FrameRecorder()
    recorder.feed(_frame(b"abc", 7))
    assert recorder.violations == ["frame 0 of connection 7 has an unknown connection id"]


def test_bytes_may_arrive_one_by_one() -> None:
    recorder = FrameRecorder()
    data = _frame(_message(30)) + _frame(_message(0))
    for byte in data[:-1]:
        recorder.feed(bytes([byte]))
    assert recorder.incomplete()
    recorder.feed(data[-1:])
    assert not recorder.incomplete()
    assert recorder.frames == [(1, 40), (1, 10)]
    recorder.feed(_frame(_message(30)[:15]))
    assert recorder.incomplete()
