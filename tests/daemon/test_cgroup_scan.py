"""Containers' cgroups on a simulated host, and what the service makes of them."""

from pathlib import Path

import pytest

from nri_numamem.daemon import cgroup_scan, pod_reaper
from nri_numamem.daemon.cgroup_scan import SCANS_AFTER_S, CgroupScan
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.system import host_system
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodSandbox,
    RemoveContainer,
    RunPodSandbox,
    StopContainer,
    Synchronize,
)
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.log import loggers as logs

MI = 1 << 20
SOON_S, LATER_S = SCANS_AFTER_S

A, B, C, PAUSE = (letter * 64 for letter in "abcf")


def pod(number: int, parent: str = "/kubepods", sandbox_id: str = "") -> PodSandbox:
    found = sandbox_id or f"s{number}"
    return PodSandbox(found, f"{number}", "ns", f"p{number}", f"{parent}/pod{number}")


def engine(settings: Policy | None = None) -> Engine:
    nodes = tuple(NumaNode(node, 4 << 30) for node in range(2))
    return Engine(Context.of(Machine(nodes), settings or Policy()))


class Cgroups:
    """A tree of cgroup v2 below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        (root / "cgroup.controllers").write_text("cpuset memory\n")

    def add(self, path: str, mems: str = "", limit: str = "104857600", populated: int = 1) -> None:
        directory = self.root / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
        (directory / "cpuset.mems").write_text(f"{mems}\n")
        (directory / "memory.max").write_text(f"{limit}\n")
        (directory / "memory.numa_stat").write_text("anon N0=1048576\n")


class Stand:
    """A second look at a tree, with an engine."""

    def __init__(self, cgroups: Cgroups) -> None:
        self.records: list[Record] = []
        self.engine = engine()
        self.looks = CgroupScan(cgroups.root, lambda: 0.0)

    def synchronize(self, *pods: PodSandbox, containers: tuple[Container, ...] = ()) -> None:
        event = Synchronize(pods, containers)
        self.engine.apply(event)
        self.looks.observe(event, 0.0)

    def look(self, now_s: float = SOON_S) -> list[str]:
        """Look; return the ids of the containers of which something is to be emitted."""
        self.records.clear()
        if self.looks.due(self.engine, now_s):
            self.records += self.looks.run(self.engine, now_s)
        return [str(fields_of(record).get("container_id")) for record in self.records]


@pytest.fixture
def cgroups(tmp_path: Path) -> Cgroups:
    return Cgroups(tmp_path / "cgroup")


@pytest.fixture
def stand(cgroups: Cgroups) -> Stand:
    return Stand(cgroups)


def test_cgroups_are_scanned_twice_after_each_synchronize(cgroups: Cgroups, stand: Stand) -> None:
    assert stand.look(1000.0) == []
    stand.synchronize(pod(1))
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look(SOON_S - 0.1) == []
    assert stand.look(SOON_S) == [A]
    cgroups.add(f"kubepods/pod1/{B}")
    assert stand.look(LATER_S - 0.1) == []
    assert stand.look(LATER_S) == [B]
    cgroups.add(f"kubepods/pod1/{C}")
    stand.looks.observe(CreateContainer(pod(1), Container(C, "s1", "c", MI)), 500.0)
    assert stand.look(1000.0) == []
    stand.synchronize(pod(1))
    assert stand.look(SOON_S) == [C]  # the others are assigned since


def test_removed_containers_are_not_remembered(cgroups: Cgroups, stand: Stand) -> None:
    stand.synchronize(pod(1))
    container = Container(A, "s1", "c", MI)
    stand.looks.observe(CreateContainer(pod(1), container), 1.0)
    stand.looks.observe(RemoveContainer(pod(1), container), 2.0)
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look(SOON_S) == [A]


def test_after_a_disconnection_it_waits_for_the_next_synchronize(
    cgroups: Cgroups, stand: Stand
) -> None:
    stand.synchronize(pod(1))
    cgroups.add(f"kubepods/pod1/{A}")
    stand.looks.disconnected()
    assert stand.look() == []
    stand.synchronize(pod(1))
    assert stand.look() == [A]


def test_without_a_synchronize_the_first_event_counts(cgroups: Cgroups, stand: Stand) -> None:
    """Old runtimes do not synchronize a plugin that they launch."""
    cgroups.add(f"kubepods/pod1/{A}", mems="1")
    cgroups.add(f"kubepods/pod2/{B}")
    for event in (
        RunPodSandbox(pod(1)),
        CreateContainer(pod(1), Container(C, "s1", "c", 100 * MI)),
        RunPodSandbox(pod(3)),
    ):
        stand.engine.apply(event)
        stand.looks.observe(event, 0.0)
    assert stand.look() == [A, B]
    assert [record.level for record in stand.records] == ["warning"] * 2
    assert stand.engine.state.pending == {B}


def test_reported_containers_are_skipped_whatever_the_reply(cgroups: Cgroups, stand: Stand) -> None:
    huge = Container(A, "s1", "huge", 64 << 30)
    stand.synchronize(pod(1), containers=(huge,))
    event = CreateContainer(pod(1), Container(B, "s1", "refused", 64 << 30))
    assert stand.engine.apply(event).plan.refusal is not None
    stand.looks.observe(event, 1.0)
    held = CreateContainer(pod(1), Container(C, "s1", "held", MI))
    assert stand.engine.apply(held).plan.refusal is None
    stand.looks.observe(StopContainer(pod(1), held.container), 1.0)
    for container_id in (A, B, C):
        cgroups.add(f"kubepods/pod1/{container_id}")
    assert stand.look() == []


def test_a_container_that_fits_nowhere_is_logged_once(cgroups: Cgroups, stand: Stand) -> None:
    stand.synchronize(pod(1))
    cgroups.add(f"kubepods/pod1/{A}", limit=str(64 << 30))
    assert stand.look() == [A]
    assert fields_of(stand.records[0])["outcome"] == "unpinned"
    assert stand.look(LATER_S) == []


def test_pause_monitor_ended_and_unlimited_containers_are_ignored(
    cgroups: Cgroups, stand: Stand
) -> None:
    stand.synchronize(pod(1, sandbox_id=PAUSE))
    cgroups.add(f"kubepods/pod1/{PAUSE}")
    cgroups.add(f"kubepods/pod1/crio-conmon-{A}")
    cgroups.add(f"kubepods/pod1/crio-{B}", populated=0)
    cgroups.add(f"kubepods/pod1/crio-{C}", limit="max")
    assert stand.look() == []


def test_unreported_pods_are_found_among_reported_ones(cgroups: Cgroups, stand: Stand) -> None:
    stand.synchronize(pod(1), pod(2, "/kubepods/burstable"))
    cgroups.add(f"kubepods/pod3/{A}")
    cgroups.add(f"kubepods/burstable/pod4/{B}")
    cgroups.add(f"elsewhere/pod5/{C}")
    assert stand.look() == [A]
    found = stand.engine.state.pods["/kubepods/pod3"]
    assert (found.uid, found.cgroup_parent) == ("3", "/kubepods/pod3")
    assert stand.engine.state.pending == {A}
    assert stand.look(LATER_S) == []


def test_pods_of_another_class_show_where_the_guaranteed_are(
    cgroups: Cgroups, stand: Stand
) -> None:
    slices = "kubepods.slice/kubepods-besteffort.slice"
    lead = PodSandbox("s1", "1", "ns", "p", "kubepods-besteffort-pod1.slice")
    stand.synchronize(lead, pod(2, ""), PodSandbox("s3", "3", "ns", "p", "/kubepods/pod\0"))
    cgroups.add(f"{slices}/kubepods-besteffort-pod1.slice/cri-containerd-{B}.scope")
    cgroups.add(f"kubepods.slice/kubepods-pod0a_1.slice/cri-containerd-{A}.scope")
    assert stand.look() == [A]
    (found,) = (p for p in stand.engine.state.pods.values() if p.uid == "0a-1")
    assert found.cgroup_parent == "/kubepods.slice/kubepods-pod0a_1.slice"


def test_of_several_sandboxes_the_running_one_has_the_container(
    cgroups: Cgroups, stand: Stand
) -> None:
    old, running, last = (pod(1, sandbox_id=letter * 64) for letter in "123")
    stand.synchronize(old, running, last)
    cgroups.add(f"kubepods/pod1/{'1' * 64}", populated=0)
    cgroups.add(f"kubepods/pod1/{'2' * 64}")
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look() == [A]
    (holder,) = stand.engine.state.holders.values()
    assert holder.sandbox_id == running.sandbox_id


def test_without_a_pause_container_the_last_sandbox_has_the_container(
    cgroups: Cgroups, stand: Stand
) -> None:
    stand.synchronize(pod(1), pod(1, sandbox_id="last"))
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look() == [A]
    (holder,) = stand.engine.state.holders.values()
    assert holder.sandbox_id == "last"


def test_a_scan_is_bounded(cgroups: Cgroups, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_scan, "_PODS_LIMIT", 3)
    stand.synchronize(pod(1), pod(2))
    for number in range(3, 9):
        cgroups.add(f"kubepods/pod{number}/{number}{'a' * 63}")
    assert len(stand.look()) == 1
    stand.synchronize(*map(pod, range(3, 9)))
    assert len(stand.look()) == 3


def test_odd_content_ends_the_scan_only(cgroups: Cgroups, stand: Stand) -> None:
    stand.synchronize(pod(1))
    cgroups.add(f"kubepods/pod1/{A}", limit="much")
    stand.look()
    (record,) = stand.records
    assert (record.event, record.level) == ("container_cgroup_unreadable", "warning")
    assert "memory.max: 'much' is not a limit" in str(fields_of(record)["error"])
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look(LATER_S) == [A]


def test_no_scan_if_nothing_is_managed(cgroups: Cgroups, stand: Stand) -> None:
    stand.engine = engine(Policy(memory_manager_policy="None"))
    stand.synchronize(pod(1))
    cgroups.add(f"kubepods/pod1/{A}")
    assert stand.look() == []
    stand.synchronize(pod(1))
    assert CgroupScan(cgroups.root, lambda: 0.0).run(stand.engine, 1000.0) == ()


@pytest.fixture
def service(cgroups: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(cgroup_scan, "SCANS_AFTER_S", (0.0, 1000.0))
    monkeypatch.setattr(pod_reaper, "REAP_S", 0.0)
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", cgroups.root)
    return Service(logs.get_logger(), roots, host_system(), engine())


@pytest.mark.timeout(60, method="thread")  # the default uses the signal of the deadline
def test_the_update_of_a_found_container_is_sent_with_the_next_reply(
    cgroups: Cgroups, service: Service
) -> None:
    """A reply that came too late was none, and the update waits on."""
    assert service.engine is not None
    apply(service, Synchronize((pod(1),), ()))
    cgroups.add(f"kubepods/pod1/{A}")
    tick(service)
    assert service.engine.state.pending == {A}
    event = CreateContainer(pod(1), Container(B, "s1", "c", 100 * MI))

    def late() -> bytes:
        assert service.requests.decide(event).updates == (Update(A, "0"),)
        raise Overrun

    with service.time_limit, pytest.raises(Overrun):
        service.requests.limit(60, late)
    assert service.engine.state.pending == {A}
    assert apply(service, event).updates == (Update(A, "0"),)
    assert apply(service, event).updates == ()


def test_a_pod_that_was_found_ends_with_its_cgroup(cgroups: Cgroups, service: Service) -> None:
    assert service.engine is not None
    apply(service, Synchronize((pod(1),), ()))
    cgroups.add(f"kubepods/pod2/{A}")
    tick(service)
    assert list(service.engine.state.accounting.assignments) == ["2"]
    service.jobs.run_due()
    remove(cgroups.root / "kubepods/pod2")
    service.jobs.run_due()
    assert service.engine.state.accounting.assignments == {}


def apply(service: Service, event: Event) -> Plan:
    plan = service.requests.decide(event)
    service.requests.commit()
    return plan


def tick(service: Service) -> None:
    service.tick()


def remove(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        (path.rmdir if path.is_dir() else path.unlink)()
    directory.rmdir()
