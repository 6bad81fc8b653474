"""Parts of a Synchronize: in order, bounded together, decoded where nobody waits."""

from collections.abc import Mapping

import pytest

from nri_numamem.engine import events
from nri_numamem.memorymanager import NodeSet
from nri_numamem.nri import parts, session
from nri_numamem.nri import plugin_pb2 as api
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.parts import SynchronizeParts, TooLargeError

MI = 1 << 20


class Cgroups:
    """Readers that keep what they were asked; `broken` makes the pods' raise."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.containers: list[tuple[str, str]] = []
        self.broken = False

    def decoder(self) -> Decoder:
        return Decoder(self.of_pod, container_mems=self.of_container)

    def of_pod(self, cgroup_parent: str) -> Mapping[int, int]:
        if self.broken:
            raise ValueError("a bug")
        self.pods.append(cgroup_parent)
        return {}

    def of_container(self, cgroup_parent: str, cgroups_path: str) -> NodeSet:
        self.containers.append((cgroup_parent, cgroups_path))
        return NodeSet([3])


def pod(name: str) -> api.PodSandbox:
    return api.PodSandbox(id=name, linux=api.LinuxPodSandbox(cgroup_parent=f"/pod{name}"))


def container(name: str, sandbox_id: str, *, ended: bool = False) -> api.Container:
    state = api.CONTAINER_STOPPED if ended else api.CONTAINER_RUNNING
    linux = api.LinuxContainer(cgroups_path=f"/pod{sandbox_id}/{name}")
    return api.Container(id=name, pod_sandbox_id=sandbox_id, state=state, linux=linux)


def part(name: str, *, more: bool = True) -> api.SynchronizeRequest:
    """Return a part with a pod and its container of that name."""
    return api.SynchronizeRequest(pods=[pod(name)], containers=[container(name, name)], more=more)


def ids(told: events.Synchronize) -> tuple[list[str], list[str]]:
    pods = [pod.sandbox_id for pod in told.pods]
    return pods, [container.container_id for container in told.containers]


@pytest.fixture
def gathered() -> SynchronizeParts:
    return SynchronizeParts(Cgroups().decoder())


@pytest.mark.parametrize("settled", [True, False])
def test_parts_are_kept_in_order_until_they_are_taken(
    gathered: SynchronizeParts, *, settled: bool
) -> None:
    for name in ("b", "a", "c"):
        gathered.add(part(name), 100)
        if settled:
            gathered.settle()
    assert ids(gathered.take(keeps_updates=True)) == (["b", "a", "c"], ["b", "a", "c"])
    assert gathered.take(keeps_updates=True) == events.Synchronize((), ())


def test_the_runtimes_habit_is_told_with_everything(gathered: SynchronizeParts) -> None:
    assert gathered.take(keeps_updates=True).keeps_updates
    assert not gathered.take(keeps_updates=False).keeps_updates


def test_a_part_is_decoded_when_it_is_settled_and_only_once() -> None:
    cgroups = Cgroups()
    gathered = SynchronizeParts(cgroups.decoder())
    gathered.add(part("a"), 100)
    assert cgroups.pods == []
    gathered.settle()
    assert cgroups.pods == ["/poda"]
    assert cgroups.containers == [("/poda", "/poda/a")]
    gathered.settle()
    gathered.add(part("b", more=False), 100)
    told = gathered.take(keeps_updates=True)
    assert cgroups.pods == ["/poda", "/podb"]
    assert [found.cgroup_mems for found in told.containers] == [NodeSet([3])] * 2


def test_a_pods_cgroup_is_read_anew_for_each_synchronize() -> None:
    cgroups = Cgroups()
    gathered = SynchronizeParts(cgroups.decoder())
    for _ in range(2):
        gathered.add(part("a"), 100)
        gathered.add(part("a", more=False), 100)
        gathered.take(keeps_updates=True)
    assert cgroups.pods == ["/poda"] * 2


def test_a_container_may_come_before_its_pod() -> None:
    """Its cgroup is looked at when all is told; not one of no pod, or of one that has ended."""
    cgroups = Cgroups()
    gathered = SynchronizeParts(cgroups.decoder())
    early = [container("c", "p"), container("lost", "q"), container("e", "p", ended=True)]
    gathered.add(api.SynchronizeRequest(containers=early, more=True), 100)
    gathered.settle()
    gathered.add(api.SynchronizeRequest(pods=[pod("p")], containers=[container("d", "p")]), 100)
    told = gathered.take(keeps_updates=True)
    assert ids(told) == (["p"], ["c", "lost", "e", "d"])
    assert [len(found.cgroup_mems) for found in told.containers] == [1, 0, 0, 1]
    assert cgroups.containers == [("/podp", "/podp/d"), ("/podp", "/podp/c")]


def test_what_cannot_be_decoded_is_told_when_it_is_taken() -> None:
    cgroups = Cgroups()
    gathered = SynchronizeParts(cgroups.decoder())
    gathered.add(part("a"), 100)
    cgroups.broken = True
    gathered.settle()
    gathered.add(part("b", more=False), 100)
    with pytest.raises(ValueError, match="a bug"):
        gathered.take(keeps_updates=True)
    cgroups.broken = False
    assert ids(gathered.take(keeps_updates=True)) == (["a", "b"], ["a", "b"])


def test_the_bound_is_that_of_a_message(
    gathered: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parts.MAX_TOTAL_BYTES == session.MAX_MESSAGE_BYTES == 64 * MI
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    gathered.add(part("a"), MI // 3)
    gathered.add(part("b"), MI - MI // 3)
    with pytest.raises(TooLargeError, match="more than 1 MiB together"):
        gathered.add(part("c"), 1)


def test_too_many_are_forgotten_and_so_is_what_follows(
    gathered: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    gathered.add(part("a"), MI)
    for more in (True, True, False):
        with pytest.raises(TooLargeError):
            gathered.add(part("b", more=more), 1)
    assert gathered.take(keeps_updates=True) == events.Synchronize((), ())


def test_the_bound_is_for_one_synchronize_in_parts(
    gathered: SynchronizeParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", MI)
    gathered.add(part("a", more=False), 2 * MI)  # in one piece: bounded as a message
    assert len(gathered.take(keeps_updates=True).pods) == 1
    gathered.add(part("b"), MI // 2)  # counted from the first part on
    gathered.add(part("c", more=False), MI // 2)
    assert len(gathered.take(keeps_updates=True).pods) == 2
