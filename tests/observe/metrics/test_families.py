"""Metric families: prefix, labels and values."""

import pytest

from nri_numamem.observe.metrics.families import counter, gauge


@pytest.mark.parametrize("make", [counter, gauge])
def test_every_family_has_the_prefix(make: object) -> None:
    assert callable(make)
    assert make("a", "", 1).name == "nri_numamem_a"
    assert make("b", "", {}, "l").samples == []
    assert [sample.value for sample in make("c", "", 1.5).samples] == [1.5]


@pytest.mark.parametrize("make", [counter, gauge])
def test_a_label_has_one_sample_per_value(make: object) -> None:
    assert callable(make)
    made = make("b", "", {"x": 1, "y": 2}, "l")
    assert [(s.labels, s.value) for s in made.samples] == [({"l": "x"}, 1), ({"l": "y"}, 2)]
    made = make("b", "", {("x", "y"): 3}, "l", "m")
    assert [(s.labels, s.value) for s in made.samples] == [({"l": "x", "m": "y"}, 3)]
