"""A virtual time limit, which interrupts a computation at any of its function calls."""

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import cast

import pytest

from nri_numamem.nri.plugin_service import Overrun
from tests.virtual.system import Interruption, VirtualTimeLimit
from tests.virtual.world import World

LIMIT_S = 1.0


def _step() -> None: ...


def _numbers() -> Iterator[int]:
    try:
        yield 1
    finally:
        _step()


def _compute() -> bytes:
    _step()
    for _number in _numbers():
        break
    _step()
    _step()
    return b"done"


def computation() -> Callable[[], bytes]:
    """Return a function of seven calls; in the fourth and the fifth one a generator is freed."""
    package: dict[str, object] = {"__name__": "nri_numamem.test"}
    for function in (_step, _numbers, _compute):
        package[function.__name__] = FunctionType(function.__code__, package)
    return cast("Callable[[], bytes]", package["_compute"])


@pytest.mark.parametrize("calls", range(1, 8))
def test_a_computation_is_interrupted_at_each_call(
    calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a generator is freed: the interpreter ignores errors there."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    world = World()
    begin_s = world.now_s
    limit = VirtualTimeLimit(world, Interruption(calls, error=Overrun))
    with pytest.raises(Overrun):
        limit.run(LIMIT_S, computation())
    assert ignored == []
    assert world.now_s == begin_s + LIMIT_S


def test_a_computation_with_fewer_calls_is_not_interrupted() -> None:
    limit = VirtualTimeLimit(World(), Interruption(8, error=Overrun))
    assert limit.run(LIMIT_S, computation()) == b"done"


def test_an_interruption_is_over_once() -> None:
    limit = VirtualTimeLimit(World(), Interruption(0, error=Overrun))
    with pytest.raises(Overrun):
        limit.run(LIMIT_S, computation())
    assert limit.run(LIMIT_S, computation()) == b"done"
