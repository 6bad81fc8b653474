"""Earmarks across restarts and with other parts of the engine."""

from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.earmarks.feature import SetAsideRoom
from nri_numamem.engine.queries.rebuilt import rebuilt
from nri_numamem.engine.setup import features_of
from tests.engine.conftest import SETTINGS
from tests.engine.features.earmarks.earmark_host import WITH_EARMARKS, EarmarkHost, earmark


def _restart(host: EarmarkHost) -> None:
    restored = restore(snapshot(host.engine.state))
    host.engine = Engine(host.engine.context, restored)
    host.synchronize_with(())


def test_an_earmark_holds_from_the_first_request_after_a_restart() -> None:
    host = EarmarkHost()
    host.place("big", 100)
    host.make(earmark("e1", "0", 700, to="big"))
    host.place("big", 200, name="second")
    _restart(host)
    assert host.left("e1") == 500
    assert host.place("other", 200) == "1"
    assert host.place("big", 500, name="third") == "0"
    assert host.left("e1") == 0


def test_a_reader_of_the_state_file_knows_the_owners_of_an_earmark_for_labels() -> None:
    host = EarmarkHost()
    host.make(earmark("e1", "1", 600, labels="train"))
    host.place("new", 400, app="train")
    state = rebuilt(host.engine.context, restore(snapshot(host.engine.state)))
    assert state.earmarks["e1"].left(state.accounting, ()).amounts == {"memory": 200 << 20}


def test_without_the_setting_there_is_no_feature_and_no_earmark_after_a_restart() -> None:
    assert not any(isinstance(each, SetAsideRoom) for each in features_of(SETTINGS))
    assert any(isinstance(each, SetAsideRoom) for each in features_of(WITH_EARMARKS))
    host, without = EarmarkHost(), EarmarkHost(SETTINGS)
    host.make(earmark("e1", "0", 700, to="big"))
    without.engine = Engine(without.engine.context, restore(snapshot(host.engine.state)))
    without.synchronize_with(None)
    assert without.engine.state.earmarks == {}
