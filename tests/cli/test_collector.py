"""The collector of reference cycles, kept for ticks."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from nri_numamem.cli import collector
from nri_numamem.cli.collector import Collector


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
    monkeypatch.setattr(collector, "_MANY", 5_000)
    gc.collect()
    with Collector() as kept:
        lost = weakref.ref(Node())
        kept.tick()
        assert lost() is not None
        nodes = [Node() for _ in range(5_000)]
        assert lost() is not None
        kept.tick()
        assert lost() is None
        del nodes


def test_afterwards_all_is_as_it_was() -> None:
    with Collector():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    with Collector():
        pass
    assert not gc.isenabled()
