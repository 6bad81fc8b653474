"""Only annotations of the plugin's domain are kept, a limited number of limited length."""

import pytest

from nri_numamem.engine.core.annotations import own_annotations


@pytest.mark.parametrize(
    "name",
    ["memory-policy.numamem.io", "memory-policy.numamem.io/container.main", "x.numamem.io/a/b"],
)
def test_annotations_of_the_domain_are_kept(name: str) -> None:
    assert own_annotations({name: "bind"}) == {name: "bind"}


@pytest.mark.parametrize(
    "name", ["numamem.io", "numamem.io/x", "a/memory-policy.numamem.io", "x.numamem.io.example", ""]
)
def test_other_annotations_are_dropped(name: str) -> None:
    assert own_annotations({name: "bind"}) == {}


def test_long_values_are_cut() -> None:
    assert own_annotations({"x.numamem.io": "y" * 100_000}) == {"x.numamem.io": "y" * 64}


def test_long_names_are_left_out() -> None:
    longest = f"placement-strategy.numamem.io/container.{'c' * 53}"
    assert len(longest.partition("/")[2]) == 63  # the limit of Kubernetes
    others = {"x" * 10_000 + ".numamem.io": "y", longest + "/" + "c" * 100: "y"}
    assert own_annotations({longest: "pack", **others}) == {longest: "pack"}


def test_of_many_annotations_the_first_by_name_are_kept() -> None:
    many = {f"x.numamem.io/container.{number:04}": "y" for number in reversed(range(1000))}
    kept = own_annotations(many)
    assert list(kept) == [f"x.numamem.io/container.{number:04}" for number in range(256)]
