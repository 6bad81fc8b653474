"""The pods that must end so that a refused one fits."""

from collections.abc import Sequence

import pytest

from nri_numamem.engine.core.events import Container, CreateContainer
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries import ending_pods
from nri_numamem.engine.queries.ending_pods import (
    admitting,
    find_pods,
    remedies_on,
    with_pods,
)
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.remedy import Kind, Remedy
from tests.engine.conftest import MI, Host, NewHost

NAMES = {uid: f"ns/{uid}" for uid in "abcd"}


def full(new_host: NewHost, *sizes_mi: int) -> Host:
    """Return a host with a pod of each size; each of four nodes has 928Mi."""
    host = new_host()
    for uid, size in zip("abcdefgh", sizes_mi, strict=False):
        assert host.create(host.run(uid), memory=size * MI).refusal is None
    return host


def event(host: Host, size_mi: int) -> CreateContainer:
    pod = host.run("new")
    return CreateContainer(pod, Container("c-new", pod.sandbox_id, "main", size_mi * MI))


def ending(host: Host, size_mi: int, uids: Sequence[str] = "abcd") -> list[str] | None:
    wanted = event(host, size_mi)
    admits = admitting(host.engine.context, wanted)
    found = find_pods(host.engine.state, None, admits, uids, NAMES)
    return None if found is None else [*found.pods.values()]


def test_the_smallest_pod_that_suffices(new_host: NewHost) -> None:
    host = full(new_host, 900, 700, 600, 800)
    assert ending(host, 500) == ["ns/c"]
    assert ending(host, 500, "bd") == ["ns/b"]
    assert ending(host, 900, "b") == ["ns/b"]
    assert ending(host, 500, "") is None
    assert ending(host, 5000) is None


def test_two_pods(new_host: NewHost) -> None:
    assert ending(full(new_host, 900, 700, 600, 800), 1700) == ["ns/c", "ns/b"]


def test_more_pods_than_two(new_host: NewHost) -> None:
    host = full(new_host, 900, 700, 600, 800)
    assert ending(host, 2700) == ["ns/a", "ns/b", "ns/c"] or ending(host, 2700) == [
        "ns/c",
        "ns/b",
        "ns/d",
    ]


def test_a_search_that_is_too_long_tries_all_pods(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending_pods, "TRIALS", 2)
    found = ending(full(new_host, 900, 700, 600, 800), 500)
    assert found is not None
    assert len(found) == 1


def test_the_remedies_on_a_host(new_host: NewHost) -> None:
    host = full(new_host, 900, 700, 600, 800)
    context, state = host.engine.context, host.engine.state
    found = remedies_on(context, state, event(host, 500), "abcd", NAMES)
    assert [each.kind for each in found] == [Kind.END_PODS, Kind.MAKE_ROOM, Kind.REQUEST_LESS]
    assert found[0].text == "end ns/c"
    assert remedies_on(context, state, event(host, 100), "abcd", NAMES) == ()


def test_hugepages_come_before_pods() -> None:
    free, room = Remedy(Kind.FREE_HUGEPAGES), Remedy(Kind.MAKE_ROOM)
    end = Remedy(Kind.END_PODS, pods={"a": "ns/a"})
    assert with_pods((free, room), end) == (free, end, room)
    assert with_pods((free, room), None) == (free, room)


def test_the_pods_are_named_by_uid_if_their_names_are_unknown() -> None:
    tried: list[EngineState] = []

    def admits(state: EngineState, _use: PoolUse | None) -> bool:
        tried.append(state)
        return True

    from nri_numamem.memorymanager import State

    found = find_pods(EngineState(State({})), None, admits, ["u"], {})
    assert found == Remedy(Kind.END_PODS, pods={"u": "u"})
    assert len(tried) == 2
