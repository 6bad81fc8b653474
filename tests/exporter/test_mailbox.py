"""Messages of threads and signals."""

import os
import signal
import threading

import pytest

from nri_numamem.apiserver.client import Answer, RequestError
from nri_numamem.exporter.mailbox import Done, Mailbox, Registered, Stop

WAIT_S = 30.0
ANSWER = Answer(200, {"kind": "Node"})


@pytest.fixture(name="mailbox")
def _mailbox() -> Mailbox:
    return Mailbox()


def test_nothing_arrives(mailbox: Mailbox) -> None:
    assert mailbox.wait(0.001) is None
    assert mailbox.wait(-1.0) is None


def test_the_result_of_a_call(mailbox: Mailbox) -> None:
    mailbox.start(7, lambda: ANSWER)
    assert mailbox.wait(WAIT_S) == Done(7, ANSWER)


def test_a_message_of_another_thread(mailbox: Mailbox) -> None:
    threading.Thread(target=mailbox.post, args=(Registered(""),)).start()
    assert mailbox.wait(WAIT_S) == Registered("")


def test_a_call_that_fails(mailbox: Mailbox) -> None:
    error = RequestError("no")

    def fail() -> Answer:
        raise error

    mailbox.start(8, fail)
    assert mailbox.wait(WAIT_S) == Done(8, error)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal(mailbox: Mailbox, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    release = threading.Event()
    with mailbox:
        mailbox.start(1, lambda: Answer(200, {"released": release.wait(WAIT_S)}))
        os.kill(os.getpid(), number)
        assert isinstance(mailbox.wait(WAIT_S), Stop)
        release.set()
        assert mailbox.wait(WAIT_S) == Done(1, Answer(200, {"released": True}))
    assert signal.getsignal(number) is before


def test_a_signal_ends_a_wait(mailbox: Mailbox) -> None:
    with mailbox:
        killer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        killer.start()
        assert isinstance(mailbox.wait(WAIT_S), Stop)
        killer.join()


def test_a_limit_of_threads(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    mailbox.start(1, lambda: ANSWER)
    done = mailbox.wait(WAIT_S)
    assert isinstance(done, Done)
    assert isinstance(done.result, RequestError)
    assert str(done.result) == "can't start new thread"
