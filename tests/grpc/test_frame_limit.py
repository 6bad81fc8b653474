import pytest
from h2.exceptions import FrameTooLargeError

from nri_numamem.grpc.frame_limit import MAX_FRAME_BYTES, FrameLimit
from tests.grpc.pair import frame, pieces

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
