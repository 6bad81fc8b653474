"""Lines about builds and machines."""

import io

import pytest

from tests.machines import progress
from tests.machines.progress import Progress


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.01)
    return io.StringIO()


def lines(stream: io.StringIO) -> list[str]:
    """Return the lines without the time."""
    return [line.partition("] ")[2] for line in stream.getvalue().splitlines()]


def test_a_line_has_the_time_since_the_begin(stream: io.StringIO) -> None:
    Progress(stream).line("text")
    assert stream.getvalue() == "[0:00] text\n"


def test_a_step_shows_its_begin_its_duration_and_its_end(stream: io.StringIO) -> None:
    with Progress(stream).step("kubelet", 7):
        while "so far" not in stream.getvalue():
            pass
    first, again, *_, last = lines(stream)
    assert first == "kubelet: begins, about 7 min"
    assert again == "kubelet: 0.0 min so far, of about 7"
    assert last == "kubelet: done in 0.0 min"


def test_a_step_that_fails_is_not_done(stream: io.StringIO) -> None:
    with pytest.raises(OSError, match="no disk"), Progress(stream).step("image", 2):
        raise OSError("no disk")
    assert lines(stream)[-1].startswith("image: ")
    assert "done" not in stream.getvalue()


def test_a_machine_shows_its_phases(stream: io.StringIO) -> None:
    on_record = Progress(stream).of_machine("e2e sid")
    on_record({"kind": "boot"})
    on_record({"kind": "begin", "phase": "a"})
    on_record({"kind": "check", "ok": False})
    on_record({"kind": "repeated", "phase": "a"})
    on_record({"kind": "check", "ok": True})
    on_record({"kind": "check", "ok": False})
    on_record({"kind": "end", "phase": "a"})
    assert lines(stream) == [
        "e2e sid: phase a begins",
        "e2e sid: phase a failed and is repeated",
        "e2e sid: phase a: 2 checks, 1 failed",
    ]
