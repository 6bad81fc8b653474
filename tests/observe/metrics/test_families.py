"""Metric families: prefix, label and values."""

from nri_numamem.observe.metrics.families import counter, counters, gauge, gauges, number


def test_every_family_has_the_prefix() -> None:
    made = (
        counter("a", "", 1),
        counters("b", "", "l", {}),
        gauge("c", "", 1.5),
        gauges("d", "", "l", {}),
    )
    assert [metric.name for metric in made] == [f"nri_numamem_{letter}" for letter in "abcd"]
    assert made[2].samples[0].value == 1.5


def test_a_label_has_one_sample_per_value() -> None:
    for made in (counters("b", "", "l", {"x": 1, "y": 2}), gauges("d", "", "l", {"x": 1, "y": 2})):
        assert [(s.labels, s.value) for s in made.samples] == [({"l": "x"}, 1), ({"l": "y"}, 2)]


def test_only_numbers_are_numbers() -> None:
    assert [number(value) for value in (3, "3", None)] == [3, 0, 0]
