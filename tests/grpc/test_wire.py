import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import FrameTooLargeError
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.grpc.wire import (
    MAX_FRAME_BYTES,
    MAX_TEXT_BYTES,
    FrameLimit,
    MessageReader,
    Outgoing,
    decode_text,
    decode_timeout,
    encode_message,
    encode_text,
    encode_timeout,
    header,
)
from nri_numamem.ttrpc.status import Code, StatusError
from tests.grpc.pair import SETTINGS, frame, pieces


def read(data: bytes, step: int, limit_bytes: int = 100) -> bytes:
    reader = MessageReader(limit_bytes)
    for at in range(0, len(data), step):
        reader.feed(data[at : at + step])
    return reader.finish()


def test_a_message_has_a_flag_and_its_length() -> None:
    assert encode_message(b"abc") == b"\0\0\0\0\3abc"


@pytest.mark.parametrize("step", [1, 2, 5, 6, 1000])
@pytest.mark.parametrize("payload", [b"", b"x", bytes(100)])
def test_a_message_is_read_whole_and_in_pieces(payload: bytes, step: int) -> None:
    assert read(encode_message(payload), step) == payload


def test_a_message_over_the_limit_is_refused_when_its_length_is_known() -> None:
    with pytest.raises(StatusError, match="message of 101 bytes is over the limit of 100") as found:
        MessageReader(100).feed(encode_message(bytes(101))[:5])
    assert found.value.code is Code.RESOURCE_EXHAUSTED


def test_a_compressed_message_is_refused() -> None:
    with pytest.raises(StatusError, match="compressed") as found:
        MessageReader(100).feed(b"\1\0\0\0\0")
    assert found.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("step", [1, 1000])
def test_bytes_after_the_message_are_refused(step: int) -> None:
    with pytest.raises(StatusError, match="more than one message") as found:
        read(encode_message(b"abc") + b"\0", step)
    assert found.value.code is Code.INTERNAL


@pytest.mark.parametrize("size", range(8))
def test_an_incomplete_message_is_refused(size: int) -> None:
    with pytest.raises(StatusError, match=f"the message ends after {size} bytes") as found:
        read(encode_message(b"abc")[:size], 1)
    assert found.value.code is Code.INTERNAL


def test_a_text_is_percent_encoded() -> None:
    assert encode_text("100 % of é\n") == b"100 %25 of %C3%A9%0A"
    assert decode_text(b"100 %25 of %C3%A9%0A") == "100 % of é\n"
    assert decode_text(b"%zz %4") == "%zz %4"
    assert decode_text(b"%ff") == "�"


@given(st.text(max_size=200))
def test_a_text_survives_encoding(text: str) -> None:
    encoded = encode_text(text)
    assert decode_text(encoded) == text
    assert all(0x20 <= byte < 0x7F for byte in encoded)


def test_a_long_text_is_truncated_between_characters() -> None:
    assert decode_text(encode_text("é" * 2000)) == "é" * (MAX_TEXT_BYTES // 2)
    assert decode_text(encode_text("x" + "é" * 2000)) == "x" + "é" * (MAX_TEXT_BYTES // 2 - 1)
    assert decode_text(encode_text("\ud800")) == "?"


def test_timeouts_are_written_in_milliseconds() -> None:
    assert encode_timeout(10) == b"10000m"
    assert encode_timeout(0.0001) == b"1m"
    assert encode_timeout(1e9) == b"99999999m"
    with pytest.raises(ValueError, match="negative"):
        encode_timeout(-1)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1H", 3600), (b"2M", 120), (b"3S", 3), (b"40m", 0.04), (b"50u", 5e-5), (b"60n", 6e-8)],
)
def test_timeouts_are_read_in_each_unit(value: bytes, seconds: float) -> None:
    assert decode_timeout(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [b"", b"S", b"1", b"1s", b"-1S", b"123456789S", b"1S ", b"\xff"])
def test_other_timeouts_are_invalid(value: bytes) -> None:
    with pytest.raises(ValueError, match="eight digits and a unit"):
        decode_timeout(value)


def test_the_first_value_of_a_header_counts() -> None:
    headers = [(b"a", b"1"), (b"b", b"2"), (b"b", b"3")]
    assert header(headers, b"b") == b"2"
    assert header(headers, b"c") is None


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
