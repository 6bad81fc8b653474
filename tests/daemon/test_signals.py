import select
import signal

from nri_numamem.daemon.signals import DUMP_STATE, RELOAD, STOPPING, TOGGLE_DEBUG, Signals


def test_signals_arrive_at_the_source_and_the_handlers_are_restored() -> None:
    numbers = (*STOPPING, DUMP_STATE, RELOAD, TOGGLE_DEBUG)
    before = [signal.getsignal(number) for number in numbers]
    with Signals() as signals:
        assert signals.take() == set()
        for number in numbers:
            signal.raise_signal(number)
        assert signals.take() == set(numbers)
        assert signals.take() == set()
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_thread_wakes_the_loop_up() -> None:
    with Signals() as signals:
        signals.wake_up()
        assert select.select([signals.wake], [], [], 60)[0]
        assert signals.take() == set()
        assert not select.select([signals.wake], [], [], 0)[0]
        for _ in range(100_000):  # more than the buffer takes
            signals.wake_up()
    signals.wake_up()
