"""Who looks after a reply, and what becomes of a bug that is met there."""

import pytest

from nri_numamem.cli.errors import UnsettledError
from nri_numamem.cli.settling import Settling
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Adjustment, Plan, Record, Update
from nri_numamem.engine.settings import Settings
from nri_numamem.memorymanager import Machine, NumaNode


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Return an engine that meets a bug when somebody looks."""
    made = Engine(Context.of(Machine((NumaNode(0, 1 << 30),)), Settings()))

    def fail() -> None:
        raise RuntimeError("what a bug")

    monkeypatch.setattr(made, "settle", fail)
    return made


def test_a_reply_that_gave_nothing_is_a_neutral_one(engine: Engine) -> None:
    told: list[Record] = []
    settling = Settling(told.append)
    settling.answered = Plan(records=(Record("told"),))
    settling.settle(engine)
    settling.check()
    (record,) = told
    assert (record.event, record.level) == ("internal error, answered neutrally", "error")
    assert "RuntimeError: what a bug" in str(record.fields["exception"])


@pytest.mark.parametrize("gave", [Plan(Adjustment("0")), Plan(updates=(Update("x", "0"),))])
def test_a_reply_that_gave_something_ends_the_connection(engine: Engine, gave: Plan) -> None:
    told: list[Record] = []
    settling = Settling(told.append)
    settling.answered = gave
    settling.settle(engine)
    (record,) = told
    assert (record.event, record.level) == ("internal error after the reply", "error")
    assert "RuntimeError: what a bug" in str(record.fields["exception"])
    with pytest.raises(UnsettledError):
        settling.check()
    settling.connected()
    settling.check()


def test_without_an_engine_there_is_nothing_to_look_at() -> None:
    told: list[Record] = []
    settling = Settling(told.append)
    settling.settle(None)
    settling.check()
    assert told == []
