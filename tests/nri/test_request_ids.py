"""Ids of requests."""

from nri_numamem.nri.request_ids import RequestIds


def test_requests_of_a_connection_are_numbered() -> None:
    ids = RequestIds(3)
    assert ids.current == ""
    ids.number += 1
    assert (ids.current, ids.current) == ("3-1", "3-1")
    ids.number += 1
    assert ids.current == "3-2"
    assert (ids.of(1), ids.of(0)) == ("3-1", "")
