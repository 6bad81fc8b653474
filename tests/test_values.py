from nri_numamem.values import once, valueclass


class Asked:
    def __init__(self) -> None:
        self.times = 0

    @once
    def answer(self) -> int:
        self.times += 1
        return 6 * 7


def test_an_attribute_is_worked_out_once_and_only_if_asked_for() -> None:
    asked, other = Asked(), Asked()
    assert asked.times == 0
    assert (asked.answer, asked.answer) == (42, 42)
    assert (asked.times, other.times) == (1, 0)
    assert other.answer == 42


@valueclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


def test_values_are_equal_by_their_fields_and_can_be_hashed() -> None:
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2
