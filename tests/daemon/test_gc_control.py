"""The collector of reference cycles, kept for ticks."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from nri_numamem.daemon import gc_control
from nri_numamem.daemon.gc_control import GcControl


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_cycles_wait_for_a_tick_with_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_control, "_MANY", 5_000)
    gc.collect()
    with GcControl() as kept:
        lost = weakref.ref(Node())
        assert not kept.due(0.0)
        assert lost() is not None
        nodes = [Node() for _ in range(5_000)]
        assert lost() is not None
        assert kept.due(0.0)
        assert kept.run(0.0) == ()
        assert lost() is None
        del nodes


def test_the_collectors_settings_are_restored() -> None:
    with GcControl():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    with GcControl():
        pass
    assert not gc.isenabled()
