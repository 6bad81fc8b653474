"""Sinks: whole lines, rotation, files that move away, readers that sleep, disks that are full."""

import errno
import os
import resource
from pathlib import Path

import pytest

from nri_numamem.observe.log.render import Record, render_json
from nri_numamem.observe.log.sinks import FileSink, StreamSink


def text_of_event(record: Record) -> str:
    return str(record["event"])


def event(text: str) -> Record:
    return {"event": text}


def drain(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    found = b""
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return found
        if not part:
            return found
        found += part


def fill(sink: StreamSink, record: Record) -> int:
    """Write until the sink is busy, and return how many records it took."""
    for count in range(10_000):
        try:
            sink.write(record)
        except BlockingIOError:
            return count
    raise AssertionError("the sink takes everything")


def test_a_stream_gets_lines() -> None:
    reader, writer = os.pipe()
    sink = StreamSink(writer, text_of_event)
    sink.write(event("one"))
    sink.write(event("zwei \ud800"))
    sink.close()
    assert drain(reader) == b"one\nzwei \\ud800\n"
    os.close(reader)
    os.close(writer)


def test_a_reader_that_hangs_does_not_block() -> None:
    reader, writer = os.pipe()
    sink = StreamSink(writer, text_of_event)
    line = "x" * 9000
    written = fill(sink, event(line))
    content = drain(reader)
    assert content.count(b"\n") == written
    # A line of which only a part fitted is ended before the next one.
    assert not content.endswith(b"\n")
    sink.write(event("next"))
    sink.write(event("last"))
    assert drain(reader) == b"\nnext\nlast\n"
    os.close(reader)
    os.close(writer)


def test_a_closed_stream_raises() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = StreamSink(writer, text_of_event)
    with pytest.raises(BrokenPipeError):
        sink.write(event("x"))
    os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sink.write(event("x"))


def test_a_file_is_created_with_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "log" / "plugin.log"
    before = os.umask(0)
    try:
        sink = FileSink(path, render_json)
        assert not path.exists()
        sink.write(event("one"))
        sink.write(event("two"))
        sink.close()
        sink.close()
    finally:
        os.umask(before)
    assert path.read_text() == '{"event":"one"}\n{"event":"two"}\n'
    assert path.stat().st_mode & 0o7777 == 0o640
    assert path.parent.stat().st_mode & 0o7777 == 0o750


def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    path.write_text("before\n")
    sink = FileSink(path, text_of_event)
    sink.write(event("after"))
    sink.close()
    sink.write(event("again"))
    sink.close()
    assert path.read_text() == "before\nafter\nagain\n"


def test_rotation_keeps_the_youngest_files(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event, rotate_bytes=10, files=3)
    for text in ("aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff", "gggg"):
        sink.write(event(text))
    sink.close()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "plugin.log": "gggg\n",
        "plugin.log.1": "eeee\nffff\n",
        "plugin.log.2": "cccc\ndddd\n",
    }


def test_a_line_longer_than_a_file_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event, rotate_bytes=10, files=2)
    sink.write(event("x" * 100))
    sink.write(event("y"))
    sink.close()
    assert path.read_text() == "y\n"
    assert (tmp_path / "plugin.log.1").read_text() == "x" * 100 + "\n"


def test_a_file_that_cannot_be_rotated_grows(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    (tmp_path / "plugin.log.1" / "in the way").mkdir(parents=True)
    sink = FileSink(path, text_of_event, rotate_bytes=10, files=2)
    for text in ("aaaa", "bbbb", "cccc"):
        sink.write(event(text))
    sink.close()
    assert path.read_text() == "aaaa\nbbbb\ncccc\n"


def test_a_file_that_was_moved_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event)
    sink.write(event("one"))
    path.rename(tmp_path / "moved")
    sink.write(event("two"))
    path.unlink()
    path.write_text("of another\n")
    sink.write(event("three"))
    sink.close()
    assert (tmp_path / "moved").read_text() == "one\n"
    assert path.read_text() == "of another\nthree\n"


def test_a_removed_file_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event)
    sink.write(event("one"))
    path.unlink()
    sink.write(event("two"))
    sink.close()
    assert path.read_text() == "two\n"


def test_a_truncated_file_is_written_from_its_start(tmp_path: Path) -> None:
    """Logrotate with copytruncate."""
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event)
    sink.write(event("one"))
    os.truncate(path, 0)
    sink.write(event("two"))
    sink.close()
    assert path.read_bytes() == b"two\n"


def test_a_path_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below", tmp_path):
        sink = FileSink(path, text_of_event)
        with pytest.raises(OSError, match=r"directory|exists"):
            sink.write(event("x"))
        sink.close()


def test_a_pipe_without_reader_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    sink = FileSink(path, text_of_event)
    with pytest.raises(OSError, match="No such device"):
        sink.write(event("x"))


def test_a_full_disk_raises_and_the_next_line_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "plugin.log"
    sink = FileSink(path, text_of_event)
    sink.write(event("one"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A file size limit fails as a disk that fills within a line: a part fits. (Python ignores
    # SIGXFSZ, so the write returns an error.)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            sink.write(event("two is longer"))
        assert caught.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    sink.write(event("three"))
    sink.close()
    assert path.read_text() == "one\ntwo \nthree\n"
