"""Parts of a Synchronize: their order, their limit, when they are decoded."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri import session, synchronize_parts
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.synchronize_parts import SynchronizeParts, TooLargeError
from nri_numamem.numa import NodeSet
from tests.nri.facts import Facts

MI = 1 << 20


class Cgroups:
    """Readers that record their arguments; with `broken` the reader of pods raises."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.containers: list[tuple[str, str]] = []
        self.broken = False

    def decoder(self) -> Decoder:
        return Decoder(Facts(self.of_pod, read_cpuset=self.of_container))

    def of_pod(self, cgroup_parent: str) -> Mapping[int, int]:
        if self.broken:
            raise ValueError("a bug")
        self.pods.append(cgroup_parent)
        return {}

    def of_container(
        self, found: events.Container, cgroup_parent: str, cgroups_path: str
    ) -> events.Container:
        self.containers.append((cgroup_parent, cgroups_path))
        return replace(found, cgroup_mems=NodeSet([3]))


def pod(name: str) -> api.PodSandbox:
    return api.PodSandbox(id=name, linux=api.LinuxPodSandbox(cgroup_parent=f"/pod{name}"))


def container(name: str, sandbox_id: str, *, ended: bool = False) -> api.Container:
    state = api.CONTAINER_STOPPED if ended else api.CONTAINER_RUNNING
    linux = api.LinuxContainer(cgroups_path=f"/pod{sandbox_id}/{name}")
    return api.Container(id=name, pod_sandbox_id=sandbox_id, state=state, linux=linux)


def part(name: str, *, more: bool = True) -> api.SynchronizeRequest:
    """Return a part with one pod and one container, both called `name`."""
    return api.SynchronizeRequest(pods=[pod(name)], containers=[container(name, name)], more=more)


def ids(event: events.Synchronize) -> tuple[list[str], list[str]]:
    pods = [pod.sandbox_id for pod in event.pods]
    return pods, [container.container_id for container in event.containers]


@pytest.fixture
def parts() -> SynchronizeParts:
    return SynchronizeParts(Cgroups().decoder())


@pytest.mark.parametrize("decoded_before", [True, False])
def test_take_returns_all_parts_in_order(parts: SynchronizeParts, *, decoded_before: bool) -> None:
    for name in ("b", "a", "c"):
        parts.add(part(name), 100)
        if decoded_before:
            parts.decode_pending()
    assert ids(parts.take(keeps_updates=True)) == (["b", "a", "c"], ["b", "a", "c"])
    assert parts.take(keeps_updates=True) == events.Synchronize((), ())


def test_the_event_contains_keeps_updates(parts: SynchronizeParts) -> None:
    assert parts.take(keeps_updates=True).keeps_updates
    assert not parts.take(keeps_updates=False).keeps_updates


def test_a_part_is_decoded_once() -> None:
    cgroups = Cgroups()
    parts = SynchronizeParts(cgroups.decoder())
    parts.add(part("a"), 100)
    assert cgroups.pods == []
    parts.decode_pending()
    assert cgroups.pods == ["/poda"]
    assert cgroups.containers == [("/poda", "/poda/a")]
    parts.decode_pending()
    parts.add(part("b", more=False), 100)
    event = parts.take(keeps_updates=True)
    assert cgroups.pods == ["/poda", "/podb"]
    assert [found.cgroup_mems for found in event.containers] == [NodeSet([3])] * 2


def test_a_pods_cgroup_is_read_again_for_each_synchronize() -> None:
    cgroups = Cgroups()
    parts = SynchronizeParts(cgroups.decoder())
    for _ in range(2):
        parts.add(part("a"), 100)
        parts.add(part("a", more=False), 100)
        parts.take(keeps_updates=True)
    assert cgroups.pods == ["/poda"] * 2


def test_a_container_may_precede_its_pod() -> None:
    """`take` reads its cgroup, unless it has no pod or has ended."""
    cgroups = Cgroups()
    parts = SynchronizeParts(cgroups.decoder())
    early = [container("c", "p"), container("lost", "q"), container("e", "p", ended=True)]
    parts.add(api.SynchronizeRequest(containers=early, more=True), 100)
    parts.decode_pending()
    parts.add(api.SynchronizeRequest(pods=[pod("p")], containers=[container("d", "p")]), 100)
    event = parts.take(keeps_updates=True)
    assert ids(event) == (["p"], ["c", "lost", "e", "d"])
    assert [found.cgroup_mems is None for found in event.containers] == [False, True, True, False]
    assert cgroups.containers == [("/podp", "/podp/d"), ("/podp", "/podp/c")]


def test_take_raises_the_error_of_a_part() -> None:
    cgroups = Cgroups()
    parts = SynchronizeParts(cgroups.decoder())
    parts.add(part("a"), 100)
    cgroups.broken = True
    parts.decode_pending()
    parts.add(part("b", more=False), 100)
    with pytest.raises(ValueError, match="a bug"):
        parts.take(keeps_updates=True)
    cgroups.broken = False
    assert ids(parts.take(keeps_updates=True)) == (["a", "b"], ["a", "b"])


def test_the_limit_is_that_of_a_message(
    parts: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert synchronize_parts.MAX_TOTAL_BYTES == session.MAX_MESSAGE_BYTES == 64 * MI
    monkeypatch.setattr(synchronize_parts, "MAX_TOTAL_BYTES", MI)
    parts.add(part("a"), MI // 3)
    parts.add(part("b"), MI - MI // 3)
    with pytest.raises(TooLargeError, match="exceed 1 MiB"):
        parts.add(part("c"), 1)


def test_parts_over_the_limit_are_discarded_with_all_later_parts(
    parts: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronize_parts, "MAX_TOTAL_BYTES", MI)
    parts.add(part("a"), MI)
    for more in (True, True, False):
        with pytest.raises(TooLargeError):
            parts.add(part("b", more=more), 1)
    assert parts.take(keeps_updates=True) == events.Synchronize((), ())


def test_the_limit_applies_to_one_synchronize(
    parts: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronize_parts, "MAX_TOTAL_BYTES", MI)
    parts.add(part("a", more=False), 2 * MI)  # one message: the limit does not apply
    assert len(parts.take(keeps_updates=True).pods) == 1
    parts.add(part("b"), MI // 2)  # the count starts with the first part
    parts.add(part("c", more=False), MI // 2)
    assert len(parts.take(keeps_updates=True).pods) == 2
