"""What is read for containers of Burstable pods, and when."""

from pathlib import Path

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.burstable_pods import BurstablePodsSupport
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.memorymanager.burstable import BurstableFacts, BurstablePods, Evidence
from nri_numamem.nri.configuration import Configuration
from nri_numamem.numa import Machine, NumaNode

MI = 1 << 20
ON = BurstablePods((Evidence.MEMORY_RESERVATION,))
POD = PodSandbox("s", "u", "ns", "p", "/kubepods/burstable/podu")
CONTAINER = Container("c", "s", "main", 64 * MI, burstable=BurstableFacts(64 * MI))
OTHER = Container("c", "s", "main", 64 * MI, burstable=BurstableFacts(32 * MI))
PINNED = Container("c", "s", "main", 64 * MI, cpuset_mems="0", burstable=BurstableFacts(64 * MI))


class Fixture:
    def __init__(self, root: Path, settings: BurstablePods) -> None:
        machine = Machine((NumaNode(0, 512 * MI, {}, distances={0: 10}),))
        self.engine: Engine | None = Engine(Context.of(machine, Policy(burstable_pods=settings)))
        self.directory = root / "sys" / "devices" / "system" / "node" / "node0"
        self.directory.mkdir(parents=True)
        self.write("Node 0 MemFree: 1024 kB\nNode 0 Inactive(file): 1024 kB\n")
        self.records: list[Record] = []
        roots = HostRoots(sysfs=root / "sys", proc=root / "proc", cgroup=root / "cgroup")
        self.support = BurstablePodsSupport(roots, lambda: self.engine, self.records.append)

    def write(self, text: str) -> None:
        (self.directory / "meminfo").write_text(text)


def test_the_reader_follows_settings_and_runtime(tmp_path: Path) -> None:
    support = Fixture(tmp_path, ON).support
    found = [support.reader.is_active]
    support.started(Settings(burstable_pods=ON))
    found.append(support.reader.is_active)
    assert found == [False, True]
    scores = list[bool]()
    for timeout_ms in (2000, None):
        support.configured(Configuration("", "containerd", "", None, timeout_ms))
        scores.append(support.reader.sets_oom_score_adj)
    assert scores == [True, False]


def test_memory_is_read_only_for_a_container_that_may_be_pinned(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, ON)
    read = fixture.support.reader.available_memory
    assert read(POD, CONTAINER) == {0: 2 * MI}
    assert read(POD, OTHER) is None
    assert read(POD, PINNED) is None
    fixture.engine = None
    assert read(POD, CONTAINER) is None
    settings = BurstablePods((Evidence.MEMORY_RESERVATION,), require_free_memory=False)
    other = Fixture(tmp_path / "other", settings)
    assert other.support.reader.available_memory(POD, CONTAINER) is None


def test_an_unreadable_node_is_logged(tmp_path: Path) -> None:
    fixture = Fixture(tmp_path, ON)
    (fixture.directory / "meminfo").unlink()
    (fixture.directory / "meminfo").mkdir()
    assert fixture.support.reader.available_memory(POD, CONTAINER) is None
    assert [record.event for record in fixture.records] == ["machine_unreadable"]
