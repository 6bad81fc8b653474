"""What a record shows of a placement."""

from nri_numamem.engine.records.containers import Admitted, PinnedWhileRunning, content_of
from tests.engine.records.examples import example


def test_the_content_of_a_record() -> None:
    placed = example("admitted", {"nodes": "1"})
    assert content_of(placed) is placed
    assert isinstance(placed, Admitted)
    assert content_of(PinnedWhileRunning(placed=placed)) is placed
    found = example("unreported_container_found", {"outcome": "adopted"})
    assert content_of(found) is not found
