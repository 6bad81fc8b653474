"""The cgroups of known containers: what a run lists, a round reads, and which memory is remote."""

import shutil
import threading
from pathlib import Path

import pytest

from nri_numamem.daemon import cgroup_sweep
from nri_numamem.daemon.cgroup_sweep import (
    ContainerCgroups,
    PageRound,
    RemoteMemory,
    assigned_containers,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CpusetRead,
    CpusetsRead,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Committed, Engine
from nri_numamem.numa import Machine, NodeSet, NumaNode

MI = 1 << 20


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number}", f"u{number}", "ns", f"p{number}", f"/kubepods/pod{number}")


def container(number: int) -> Container:
    return Container(f"{number:064x}", pod(number).sandbox_id, f"c{number}", MI)


class Stand:
    """An engine with containers on node 0, and their cgroups."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "cgroup.controllers").write_text("cpuset memory\n")
        nodes = tuple(NumaNode(node, 4 << 30) for node in range(3))
        self.engine = Engine(Context.of(Machine(nodes), Policy()))
        self.is_running = True

    def committed(self) -> Committed | None:
        return self.engine.committed if self.is_running else None

    def memory(self, limit: int = 64) -> RemoteMemory:
        return RemoteMemory(self.root, self.committed, limit=limit)

    def create(self, number: int, amounts: str = "N0=4096 N1=8192 N2=0") -> None:
        self.engine.apply(RunPodSandbox(pod(number)))
        self.engine.apply(CreateContainer(pod(number), container(number)))
        self.write(number, amounts)

    def write(self, number: int, amounts: str) -> None:
        directory = self.root / f"kubepods/pod{number}" / container(number).container_id
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "memory.numa_stat").write_text(f"anon {amounts}\nfile N0=1 N1=1\n")


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def test_pages_on_other_nodes_than_those_of_the_container(stand: Stand) -> None:
    memory = stand.memory()
    assert memory.read() == {}
    stand.create(1)
    stand.create(2, "N0=4096 N1=1 N2=7")
    stand.create(3, "N0=4096 N1=0 N2=0")
    assert memory.read() == {1: 8193, 2: 7}
    stand.engine.apply(StopContainer(pod(1), container(1)))
    assert memory.read() == {1: 1, 2: 7}
    stand.write(2, "N0=4096 N1=0 N2=0")
    assert memory.read() == {}


def test_shared_memory_is_remote_and_page_cache_is_not(stand: Stand) -> None:
    stand.create(1, "N0=4096 N1=8192\nshmem N1=100")
    assert stand.memory().read() == {1: 8292}


def test_the_cgroup_of_a_pod_is_listed_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    stand.create(1)
    listed: list[Path] = []

    def folders(parent: Path) -> dict[str, str]:
        listed.append(parent)
        return {container(1).container_id: "folder"}

    directory = stand.root / "kubepods/pod1"
    monkeypatch.setattr(cgroup_sweep, "container_folders", folders)
    cgroups = ContainerCgroups(stand.root, stand.engine.state)
    (holder,) = assigned_containers(stand.engine.state)
    assert [cgroups.directory(holder) for _ in range(2)] == [directory / "folder"] * 2
    assert listed == [directory]
    assert list(cgroups.ids(pod(1).sandbox_id)) == [container(1).container_id]
    assert list(cgroups.ids("unknown")) == []


def test_a_round_reads_each_container_once(stand: Stand) -> None:
    for number in range(5):
        stand.create(number)
    state = stand.engine.state
    assert PageRound(stand.root, 2).is_over
    page_round = PageRound(stand.root, 2)
    page_round.begin(assigned_containers(state))
    found: list[list[str]] = []
    while not page_round.is_over:
        found.append([one for one, pages in page_round.read(state) if pages is not None])
    assert [len(ids) for ids in found] == [2, 2, 1]
    ids = {container(number).container_id for number in range(5)}
    assert {one for some in found for one in some} == ids


def test_containers_with_assignments_run(stand: Stand) -> None:
    for number in range(2):
        stand.create(number)
    stand.engine.apply(StopContainer(pod(0), container(0)))
    found = [holder.container_id for holder in assigned_containers(stand.engine.state)]
    assert found == [container(1).container_id]


def test_a_container_without_nodes_in_its_cgroup_is_left_out(stand: Stand) -> None:
    stand.create(1)
    stand.engine.apply(CpusetsRead((CpusetRead(container(1).container_id, NodeSet()),)))
    assert stand.memory().read() == {}


def test_one_scrape_reads_some_and_the_next_ones_the_others(stand: Stand) -> None:
    memory = stand.memory(limit=2)
    for number in range(5):
        stand.create(number, "N0=0 N1=1")
    assert [memory.read() for _ in range(4)] == [{1: 2}, {1: 4}, {1: 5}, {1: 5}]


def test_containers_that_are_gone_are_dropped_and_what_cannot_be_read(stand: Stand) -> None:
    memory = stand.memory()
    for number in range(3):
        stand.create(number)
    assert memory.read() == {1: 3 * 8192}
    stand.engine.apply(StopContainer(pod(0), container(0)))
    shutil.rmtree(stand.root / "kubepods/pod1")
    file = stand.root / f"kubepods/pod2/{container(2).container_id}/memory.numa_stat"
    file.unlink()
    file.mkdir()
    assert memory.read() == {}
    assert memory._remote == {}


def test_a_scrape_does_not_wait_for_another_one(stand: Stand) -> None:
    memory = stand.memory()
    stand.create(1)
    assert memory.read() == {1: 8192}
    stand.write(1, "N0=0 N1=1")
    found: list[object] = []
    with memory._lock:
        other = threading.Thread(target=lambda: found.append(memory.read()))
        other.start()
        other.join()
    assert found == [{1: 8192}]


def test_without_an_engine_there_is_nothing(stand: Stand) -> None:
    stand.create(1)
    stand.is_running = False
    assert stand.memory().read() == {}
