import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.grpc.wire import (
    MAX_TEXT_BYTES,
    MessageReader,
    decode_text,
    decode_timeout,
    encode_message,
    encode_text,
    encode_timeout,
    header,
)
from nri_numamem.ttrpc.status import Code, StatusError


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
