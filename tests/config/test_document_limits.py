"""The limits of documents, without a parser."""

import json

import pytest

from nri_numamem.config.document_limits import MAX_DEPTH, Extent, LimitError, is_too_deep


def test_values_and_aliases_are_counted() -> None:
    extent = Extent(5)
    with extent.value("a"), extent.value(None):
        pass
    extent.alias("a")
    with extent.value(None):
        pass
    with pytest.raises(LimitError, match=r"^more than 5 values; "):
        extent.alias("a")


def test_an_anchor_of_an_earlier_document_is_forgotten() -> None:
    extent = Extent(9)
    with extent.value("a"):
        pass
    with extent.value("a"), pytest.raises(LimitError, match=r"^the alias \*a is inside of its own"):
        extent.alias("a")


@pytest.mark.parametrize(("levels", "is_deep"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True)])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a": [], "b": ', "}")])
def test_the_depth_of_json(levels: int, is_deep: bool, begin: str, end: str) -> None:
    document = json.loads(begin * (levels - 1) + "1" + end * (levels - 1))
    assert is_too_deep(document) == is_deep
    assert not is_too_deep(1)
