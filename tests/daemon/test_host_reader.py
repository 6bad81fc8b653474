"""What the host reader reads, and for which requests it reads nothing."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.host_reader import HostReader
from nri_numamem.daemon.jobs import Job, Jobs
from nri_numamem.daemon.machine_monitor import MachineMonitor
from nri_numamem.daemon.network_hints import NO_ACCESS
from nri_numamem.engine.core.events import CgroupUse, Container, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.setup import new_context
from nri_numamem.host.roots import HostRoots
from nri_numamem.memorymanager.burstable import BurstableFacts, BurstablePods, Evidence
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.host_facts import Device
from nri_numamem.numa import (
    CpuFollowing,
    CpuSet,
    Machine,
    MemoryPolicies,
    NodeSet,
    NumaNode,
    Partition,
    PolicyMode,
)

MI = 1 << 20
GUARANTEED = "/kubepods/pod1"
DEVICES = [Device("c", 226, 128, "/dev/dri/renderD128"), Device("c", 1, 3, "/dev/null")]


class Reading:
    """A host reader with an engine that tests replace, and the records that it emits."""

    def __init__(self, root: Path) -> None:
        self.engine: Engine | None = engine(Policy())
        self.root = root
        self.records: list[Record] = []
        roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        monitor = MachineMonitor(roots, lambda: self.engine, self.records.append)
        self.reader = HostReader(
            roots, lambda: self.engine, monitor, self.records.append, NO_ACCESS
        )
        self.cgroup = roots.cgroup / GUARANTEED.lstrip("/")

    @property
    def events(self) -> list[str]:
        return [record.event for record in self.records]


def engine(policy: Policy) -> Engine:
    nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
    return Engine(new_context(Machine(nodes), policy))


@pytest.fixture
def reading(tmp_path: Path) -> Reading:
    gpu = tmp_path / "sys/devices/pci0000:17/0000:18:00.0"
    (gpu / "drm/renderD128").mkdir(parents=True)
    (gpu / "numa_node").write_text("1\n")
    (tmp_path / "sys/dev/char").mkdir(parents=True)
    target = "../../devices/pci0000:17/0000:18:00.0/drm/renderD128"
    (tmp_path / "sys/dev/char/226:128").symlink_to(target)
    made = Reading(tmp_path)
    (made.cgroup / "c").mkdir(parents=True)
    (tmp_path / "cgroup/cgroup.controllers").write_text("cpuset memory hugetlb\n")
    (made.cgroup / "hugetlb.2MB.max").write_text(f"{4 * MI}\n")
    (made.cgroup / "c/cpuset.mems").write_text("1\n")
    return made


def test_devices_with_a_known_node_are_reported(reading: Reading) -> None:
    assert reading.reader.device_nodes(GUARANTEED, DEVICES) == (NodeSet([1]),)


def unread() -> Iterator[Device]:
    yield from ()
    raise AssertionError("the devices were read")


def test_devices_that_cannot_matter_are_not_read(reading: Reading) -> None:
    with pytest.raises(AssertionError):
        reading.reader.device_nodes(GUARANTEED, unread())
    assert reading.reader.device_nodes("/kubepods/burstable/pod1", unread()) == ()
    reading.engine = engine(Policy(topology_manager_policy="none"))
    assert reading.reader.device_nodes(GUARANTEED, unread()) == ()
    reading.engine = None
    assert reading.reader.device_nodes(GUARANTEED, unread()) == ()


def test_hugepage_limits_are_read_for_guaranteed_pods_only(reading: Reading) -> None:
    assert reading.reader.hugepage_limits(GUARANTEED) == {2 * MI: 4 * MI}
    assert reading.reader.hugepage_limits("/kubepods/burstable/pod1") == {}
    assert reading.reader.hugepage_limits("/kubepods/pod3") == {}
    assert reading.records == []


def test_the_memory_limit_is_read_for_guaranteed_pods_only(reading: Reading) -> None:
    (reading.cgroup / "memory.max").write_text(f"{300 * MI}\n")
    assert reading.reader.memory_limit(GUARANTEED) == 300 * MI
    assert reading.reader.memory_limit("/kubepods/burstable/pod1") is None
    assert reading.reader.memory_limit("/kubepods/pod3") is None
    (reading.cgroup / "memory.max").write_text("much\n")
    assert reading.reader.memory_limit(GUARANTEED) is None
    assert reading.events == ["pod_cgroup_unreadable"]


def test_a_pod_cgroup_that_cannot_be_read_is_logged(reading: Reading) -> None:
    (reading.cgroup / "hugetlb.2MB.max").write_text("much\n")
    assert reading.reader.hugepage_limits(GUARANTEED) == {}
    assert reading.events == ["pod_cgroup_unreadable"]


def read_cpuset(reading: Reading, name: str, parent: str = GUARANTEED) -> Container:
    container = Container("c", "s", "main", cpuset_mems="1")
    return reading.reader.read_cpuset(container, parent, name)


def test_the_nodes_of_a_managed_container_are_read(reading: Reading) -> None:
    path = "/kubepods/pod1/c"
    assert read_cpuset(reading, path).cgroup_mems == NodeSet([1])
    assert read_cpuset(reading, path).cgroup_use is None
    assert read_cpuset(reading, "/kubepods/pod1/d").cgroup_mems is None
    assert read_cpuset(reading, "..").cgroup_mems is None
    assert read_cpuset(reading, path, "/kubepods/burstable/pod1").cgroup_mems is None
    reading.engine = engine(Policy(memory_manager_policy="None"))
    assert read_cpuset(reading, path).cgroup_mems is None
    reading.engine = None
    assert read_cpuset(reading, path).cgroup_mems is None
    assert reading.records == []


def test_the_memory_limit_of_a_container_is_read(reading: Reading) -> None:
    read, path = reading.reader.container_memory, "/kubepods/pod1/c"
    assert [read(each) for each in (path, "/kubepods/pod1/d", "..")] == [None, None, None]
    limit = reading.cgroup / "c/memory.max"
    limit.write_text(f"{300 * MI}\n")
    assert read(path) == 300 * MI
    limit.write_text("max\n")
    assert read(path) is None
    assert reading.records == []
    limit.write_text("much\n")
    assert read(path) is None
    assert reading.events == ["container_cgroup_unreadable"]


@pytest.mark.parametrize(("text", "nodes"), [("", []), ("0", [0])])
def test_the_use_of_a_container_is_read_where_its_nodes_differ(
    reading: Reading, text: str, nodes: list[int]
) -> None:
    (reading.cgroup / "c/cpuset.mems").write_text(f"{text}\n")
    (reading.cgroup / "c/memory.numa_stat").write_text("anon N0=5 N1=0\n")
    found = read_cpuset(reading, "/kubepods/pod1/c")
    assert found.cgroup_mems == NodeSet(nodes)
    assert found.cgroup_use == CgroupUse(memory_bytes={0: 5, 1: 0})


def test_the_use_of_a_container_that_never_had_nodes_is_read(reading: Reading) -> None:
    (reading.cgroup / "c/cpuset.mems").write_text("\n")
    (reading.cgroup / "c/memory.numa_stat").write_text("anon N0=5 N1=0\n")
    container = Container("c", "s", "main")
    found = reading.reader.read_cpuset(container, GUARANTEED, "/kubepods/pod1/c")
    assert found.cgroup_mems == NodeSet()
    assert found.cgroup_use == CgroupUse(memory_bytes={0: 5, 1: 0})


def test_a_container_cgroup_that_cannot_be_read_is_logged(reading: Reading) -> None:
    (reading.cgroup / "c/cpuset.mems").write_text("many\n")
    assert read_cpuset(reading, "/kubepods/pod1/c").cgroup_mems is None
    assert reading.events == ["container_cgroup_unreadable"]


def test_pools_are_not_read_without_a_request_for_hugepages(reading: Reading) -> None:
    pod = PodSandbox("s1", "u1", "ns", "p", GUARANTEED)
    assert reading.reader.pool_use(pod, None) is None


def test_the_start_of_a_process(reading: Reading, tmp_path: Path) -> None:
    (tmp_path / "proc/4").mkdir(parents=True)
    (tmp_path / "proc/4/stat").write_text("4 (x) " + " ".join(map(str, range(3, 40))))
    assert [reading.reader.process_start(pid) for pid in (4, 5)] == [22, 0]


@pytest.mark.parametrize("is_configured_first", [True, False])
def test_memory_policies_are_supported_only_with_the_setting(
    reading: Reading, *, is_configured_first: bool
) -> None:
    """A launched plugin has its settings within Configure, an external one before it."""
    runtime = Configuration("", "containerd", "v2.1.0", "v0.10.0", 2000)
    reading.reader.configured(runtime)
    reading.reader.started(Settings())
    assert reading.reader.policy_support("") is None
    if not is_configured_first:
        reading = Reading(reading.root)
    policies = MemoryPolicies((PolicyMode.BIND,), runtimes=("runc",))
    reading.reader.started(Settings(memory_policies=policies))
    if not is_configured_first:
        reading.reader.configured(runtime)
    found = reading.reader.policy_support("runc")
    assert found is not None
    assert found.obstacle == "the container runtime's NRI is v0.10.0; policies need 0.12 or newer"


def test_the_cpus_of_the_host_are_watched_only_with_the_setting(
    reading: Reading, tmp_path: Path
) -> None:
    added: list[Job] = []
    jobs = create_autospec(Jobs, instance=True)
    jobs.add.side_effect = added.append
    isolated = tmp_path / "sys/devices/system/cpu/isolated"
    isolated.parent.mkdir(parents=True)
    isolated.write_text("1\n")
    for policy, watched in ((Policy(), 0), (Policy(cpu_following=CpuFollowing.PREFER), 1)):
        reading.engine = engine(policy)
        for _ in range(2):
            assert list(reading.reader.watch_cpus(jobs)) == []
        assert len(added) == watched
        assert reading.engine.context.host_cpus.isolated == CpuSet([1] * watched)


BURSTABLE = BurstablePods((Evidence.MEMORY_RESERVATION,))
BURSTABLE_POD = PodSandbox("s", "u", "ns", "p", "/kubepods/burstable/podu")


def burstable_container(reserved_bytes: int = 64 * MI, mems: str = "") -> Container:
    facts = BurstableFacts(reserved_bytes)
    return Container("c", "s", "main", 64 * MI, cpuset_mems=mems, burstable=facts)


def write_free_memory(reading: Reading) -> Path:
    """Give node 0 1 MiB of free memory and 1 MiB of page cache; return the file."""
    path = reading.root / "sys/devices/system/node/node0/meminfo"
    path.parent.mkdir(parents=True)
    path.write_text("Node 0 MemFree: 1024 kB\nNode 0 Inactive(file): 1024 kB\n")
    return path


def test_burstable_pods_follow_settings_and_runtime(reading: Reading) -> None:
    found = [reading.reader.pins_burstable]
    reading.reader.started(Settings(burstable_pods=BURSTABLE))
    found.append(reading.reader.pins_burstable)
    assert found == [False, True]
    scores = list[bool]()
    for timeout_ms in (2000, None):
        reading.reader.configured(Configuration("", "containerd", "", None, timeout_ms))
        scores.append(reading.reader.sets_oom_score_adj)
    assert scores == [True, False]


def test_memory_is_read_only_for_a_container_that_may_be_pinned(reading: Reading) -> None:
    write_free_memory(reading)
    read = reading.reader.available_memory
    reading.engine = engine(Policy(burstable_pods=BURSTABLE))
    assert read(BURSTABLE_POD, burstable_container()) == {0: 2 * MI}
    assert read(BURSTABLE_POD, burstable_container(32 * MI)) is None
    assert read(BURSTABLE_POD, burstable_container(mems="0")) is None
    reading.engine = None
    assert read(BURSTABLE_POD, burstable_container()) is None
    settings = BurstablePods((Evidence.MEMORY_RESERVATION,), require_free_memory=False)
    reading.engine = engine(Policy(burstable_pods=settings))
    assert read(BURSTABLE_POD, burstable_container()) is None


def test_free_memory_that_cannot_be_read_is_logged(reading: Reading) -> None:
    path = write_free_memory(reading)
    path.unlink()
    path.mkdir()
    reading.engine = engine(Policy(burstable_pods=BURSTABLE))
    assert reading.reader.available_memory(BURSTABLE_POD, burstable_container()) is None
    assert reading.events == ["machine_unreadable"]


def test_networks_are_read_only_with_the_setting(reading: Reading) -> None:
    reader = reading.reader
    reader.started(Settings())
    reads = [reader.reads_networks]
    reader.started(Settings(network_hints="secondary"))
    assert [*reads, reader.reads_networks] == [False, True]
    pod = PodSandbox("s", "u", "ns", "p", GUARANTEED)
    reader.sandbox_started(pod, "/run/netns/cni-1")
    found = reader.network(pod, ("eth1",), "")
    assert found is not None
    assert found.obstacle == "/sys/class/net does not have eth1"
    reader.sandbox_ended("s")
    assert reading.events == ["network_namespaces_closed"]


def test_the_labels_of_partitions_are_wanted(reading: Reading) -> None:
    assert not reading.reader.label_keys
    web = Partition("web", NodeSet([0]), selector={"tier": "front", "app": "web"})
    jobs = Partition("jobs", NodeSet([1]), namespaces=("jobs",), selector={"app": "job"})
    reading.reader.started(Settings(partitions=(web, jobs)))
    assert reading.reader.label_keys == ("app", "tier")
