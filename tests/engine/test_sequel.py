"""What follows from an event is worked out once, and a bug in it is met once."""

import pytest

from nri_numamem.engine.plan import Adjustment, Plan, Record
from nri_numamem.engine.sequel import AtOnce, Sequel
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import State

BEFORE, AFTER = EngineState(State({})), EngineState(State({}), pending=frozenset({"x"}))
ONE, TWO = Record("one"), Record("two")


class Work:
    """Counts how often it is done."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self) -> AtOnce:
        self.done += 1
        return AFTER, Plan(Adjustment("0"), records=(ONE, TWO))


def test_it_is_worked_out_once_when_somebody_looks() -> None:
    work = Work()
    sequel = Sequel(BEFORE, work)
    assert work.done == 0
    assert sequel.settle() is AFTER
    assert sequel.settle() is AFTER
    assert list(sequel) == [ONE, TWO]
    assert work.done == 1


def test_it_reads_like_the_records_that_it_will_have() -> None:
    assert Sequel(BEFORE, Work()) == (ONE, TWO)
    assert Plan(records=(ONE, TWO)) == Plan(records=Sequel(BEFORE, Work()))
    assert Sequel(BEFORE, Work()) != Sequel(BEFORE, lambda: (AFTER, Plan()))
    assert Sequel(BEFORE, Work()) != 2
    assert hash(Sequel(BEFORE, lambda: (AFTER, Plan()))) == hash(())
    assert len(Sequel(BEFORE, Work())) == 2
    assert Sequel(BEFORE, Work())[1] is TWO
    assert Sequel(BEFORE, Work())[:1] == (ONE,)


def test_what_fails_fails_once_and_has_not_happened() -> None:
    def fail() -> AtOnce:
        raise RuntimeError("what a bug")

    sequel = Sequel(BEFORE, fail)
    with pytest.raises(RuntimeError, match="what a bug"):
        len(sequel)
    assert sequel.settle() is BEFORE
    assert sequel == ()
