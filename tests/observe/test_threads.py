"""A thread of the metrics, and a process at its limit of threads."""

import errno
import threading

import pytest

from nri_numamem.observe.threads import NO_THREAD, start_thread
from tests.observe.collected import WAIT_S, refuse_threads


def test_a_thread_does_not_keep_the_process_from_ending() -> None:
    ran = threading.Event()
    thread = start_thread(ran.set, "metrics")
    assert ran.wait(WAIT_S)
    thread.join(WAIT_S)
    assert (thread.name, thread.daemon) == ("metrics", True)


def test_at_the_limit_of_threads_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_threads(monkeypatch, 1)
    with pytest.raises(OSError, match="TasksMax") as caught:
        start_thread(pytest.fail, "metrics")
    assert (caught.value.errno, caught.value.strerror) == (errno.EAGAIN, NO_THREAD)
