"""Dictionaries that keep their newest entries only, because users of a cluster can cause many."""

from itertools import islice
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def put_newest(entries: dict[_K, _V], key: _K, value: _V, limit: int) -> None:
    """Store an entry as the newest one, which comes last; drop the oldest beyond `limit`."""
    entries.pop(key, None)
    entries[key] = value
    for oldest in list(islice(entries, max(0, len(entries) - limit))):
        del entries[oldest]
