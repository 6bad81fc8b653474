"""Lists of names are read without repetitions; errors name the place and the remedy."""

import pytest

from nri_numamem.config.lists import read_list, read_names
from nri_numamem.config.values import SettingsError

PATH = ("memoryPolicy", "namespaces")


def test_an_unset_list_is_empty() -> None:
    assert read_list(PATH, None, "write a list") == []
    assert read_names(PATH, None, "a namespace") == ()


def test_names_keep_their_order_without_repetitions() -> None:
    assert read_names(PATH, ["b", "a", "b"], "a namespace") == ("b", "a")


@pytest.mark.parametrize("value", ["shop", 1, {"a": 1}])
def test_other_values_than_lists_are_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^memoryPolicy\.namespaces: .* instead of a list; w"):
        read_names(PATH, value, "a namespace")


@pytest.mark.parametrize("name", ["", 1, None, "a\nb", "x" * 254])
def test_invalid_names_are_refused(name: object) -> None:
    problem = r"^memoryPolicy\.namespaces\[1\]: .* is not a namespace; write a namespace$"
    with pytest.raises(SettingsError, match=problem):
        read_names(PATH, ["a", name], "a namespace")
