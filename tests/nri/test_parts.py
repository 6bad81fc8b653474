"""Parts of a Synchronize: kept in order, bounded together, forgotten when they are too many."""

import pytest

from nri_numamem.nri import parts, session
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.parts import SynchronizeParts, TooLargeError

MI = 1 << 20


def part(name: str, size_bytes: int = 0, *, more: bool = True) -> api.SynchronizeRequest:
    """Return a part of about that size, with a pod and a container of that name."""
    container = api.Container(id=name, name="x" * size_bytes)
    return api.SynchronizeRequest(pods=[api.PodSandbox(id=name)], containers=[container], more=more)


def test_parts_are_kept_in_order_until_they_are_taken() -> None:
    gathered = SynchronizeParts()
    gathered.add(part("a"))
    gathered.add(part("b", more=False))
    pods, containers = gathered.take()
    assert [pod.id for pod in pods] == ["a", "b"]
    assert [container.id for container in containers] == ["a", "b"]
    assert gathered.take() == ([], [])


def test_the_bound_is_that_of_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts.MAX_TOTAL_BYTES == session.MAX_MESSAGE_BYTES == 64 * MI
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    exact = SynchronizeParts()
    first = part("a", MI // 2)
    rest_bytes = MI - first.ByteSize()
    last = part("b", rest_bytes - part("b", rest_bytes).ByteSize() + rest_bytes)
    assert first.ByteSize() + last.ByteSize() == MI
    exact.add(first)
    exact.add(last)
    with pytest.raises(TooLargeError, match="more than 1 MiB together"):
        exact.add(part("c"))


def test_too_many_are_forgotten_and_so_is_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    gathered = SynchronizeParts()
    gathered.add(part("a", MI // 2))
    for more in (True, True, False):
        with pytest.raises(TooLargeError):
            gathered.add(part("b", MI // 2, more=more))
    assert gathered.take() == ([], [])


def test_one_piece_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    gathered = SynchronizeParts()
    gathered.add(part("a", 2 * MI, more=False))
    assert len(gathered.take()[0]) == 1
    gathered.add(part("b", MI // 2))  # counted from the first part on
    gathered.add(part("c", MI // 4, more=False))
