import threading

import pytest

from tests.bench.disturbance import Repeated


def test_the_action_repeats_until_the_context_ends() -> None:
    enough = threading.Event()

    def action() -> None:
        if repeated.done == 3:
            enough.set()

    repeated = Repeated(0.001, action)
    with repeated.running():
        assert enough.wait(10)
    done = repeated.done
    assert done >= 4
    with repeated.running():
        pass
    assert repeated.done >= done


def test_an_error_is_raised_at_the_end() -> None:
    failed = threading.Event()

    def action() -> None:
        failed.set()
        raise OSError("connection refused")

    with pytest.raises(OSError, match="connection refused"), Repeated(0.001, action).running():
        assert failed.wait(10)
