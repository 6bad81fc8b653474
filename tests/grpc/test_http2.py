import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import FrameTooLargeError

from nri_numamem.grpc.http2 import MAX_FRAME_BYTES, FrameLimit, Outgoing
from tests.grpc.pair import SETTINGS, frame, pieces

LARGEST = frame(0, 0, 1, bytes(MAX_FRAME_BYTES))


@pytest.mark.parametrize("step", [0, 1, 5, 9, 10])
def test_frames_up_to_the_limit_pass_whole_and_in_pieces(step: int) -> None:
    limit = FrameLimit(skipped_bytes=3)
    for piece in pieces(b"\xff\xff\xff" + frame(4, 0, 0) + LARGEST + frame(0, 0, 1, b"x"), step):
        limit.feed(piece)
    assert limit.is_between_frames


@pytest.mark.parametrize("step", [0, 1, 5])
def test_a_frame_over_the_limit_is_refused_by_its_head(step: int) -> None:
    limit = FrameLimit()
    head = frame(0, 0, 1, bytes(MAX_FRAME_BYTES + 1))[:9]
    *before, last = pieces(LARGEST + head, step)
    for piece in before:
        limit.feed(piece)
    with pytest.raises(FrameTooLargeError, match="frame of 16385 bytes"):
        limit.feed(last)


@pytest.mark.parametrize("size", [1, 9, 10, 11])
def test_an_incomplete_frame_is_noticed(size: int) -> None:
    limit = FrameLimit()
    limit.feed(frame(0, 0, 1, b"abc")[:size])
    assert not limit.is_between_frames


REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "localhost")]
WINDOW = 65_535


def connected() -> tuple[H2Connection, Outgoing]:
    h2 = H2Connection(H2Configuration(client_side=True))
    h2.initiate_connection()
    h2.receive_data(SETTINGS)
    for stream_id in (1, 3):
        h2.send_headers(stream_id, REQUEST)
    h2.data_to_send()
    return h2, Outgoing(h2)


def window_update(stream_id: int, size: int) -> bytes:
    return frame(8, 0, stream_id, size.to_bytes(4, "big"))


def test_no_more_is_sent_than_the_windows_allow() -> None:
    h2, outgoing = connected()
    outgoing.add(1, bytes(WINDOW + 1))
    outgoing.add(3, b"x")
    outgoing.send_what_fits()
    # Frames of at most 16 KiB, with heads of 9 bytes.
    assert len(h2.data_to_send()) == WINDOW + 4 * 9
    assert len(outgoing) == 2
    h2.receive_data(window_update(0, 100))
    outgoing.send_what_fits()
    assert h2.data_to_send() == frame(0, 1, 3, b"x")
    assert len(outgoing) == 1
    h2.receive_data(window_update(1, 100))
    outgoing.send_what_fits()
    assert h2.data_to_send() == frame(0, 1, 1, b"\0")
    assert len(outgoing) == 0


def test_trailers_follow_the_last_byte_and_need_no_window() -> None:
    h2, outgoing = connected()
    outgoing.add(1, bytes(WINDOW), [(b"grpc-status", b"0")])
    outgoing.send_what_fits()
    sent = h2.data_to_send()
    assert len(outgoing) == 0
    assert sent[WINDOW + 4 * 9 :][3:5] == b"\1\5"  # HEADERS, END_STREAM and END_HEADERS


def test_a_discarded_body_is_not_sent() -> None:
    h2, outgoing = connected()
    outgoing.add(1, b"x")
    outgoing.discard(1)
    outgoing.discard(3)
    outgoing.send_what_fits()
    assert h2.data_to_send() == b""
