"""Rounds over the pages of containers: slices, alarms, and files that cannot be read."""

from pathlib import Path

import pytest

from nri_numamem.daemon.residency_check import ResidencyCheck
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RemovePodSandbox,
    RunPodSandbox,
    StopContainer,
    StopPodSandbox,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.residency.setting import HeadRoomLimit, Residency
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.event_loop import TICK_S
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.numa.pages import Pages
from tests.laboratory.fake_sysfs import overlay_of, write_overlay

MI = 1 << 20
GI = 1 << 30
INTERVAL_S = 60.0
SETTING = Residency(int(INTERVAL_S), head_room=HeadRoomLimit(size_bytes=100 * MI))


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number}", f"u{number}", "ns", f"p{number}", f"/kubepods/pod{number}")


def container(number: int) -> Container:
    return Container(f"{number:064x}", pod(number).sandbox_id, f"c{number}", 100 * MI)


class Stand:
    """An engine with containers on node 0 of two, their cgroups, and the check."""

    def __init__(self, root: Path) -> None:
        self.roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.roots.cgroup.mkdir()
        (self.roots.cgroup / "cgroup.controllers").write_text("cpuset memory\n")
        distances = ({0: 10, 1: 20}, {0: 20, 1: 10})
        nodes = tuple(NumaNode(n, 4 * GI, {}, CpuSet([n]), distances[n]) for n in range(2))
        write_overlay(overlay_of(Machine(nodes)), root)
        self.engine = Engine(Context.of(Machine(nodes), Policy()))
        self.now_s = 1000.0
        self.check = self.new(SETTING)

    def new(self, setting: Residency, per_tick: int = 32) -> ResidencyCheck:
        return ResidencyCheck(setting, self.roots, per_tick=per_tick)

    def create(self, number: int, pages: str = "anon N0=4096") -> None:
        self.engine.apply(RunPodSandbox(pod(number)))
        self.engine.apply(CreateContainer(pod(number), container(number)))
        self.write(number, pages)

    def directory(self, number: int) -> Path:
        return self.roots.cgroup / f"kubepods/pod{number}" / container(number).container_id

    def write(self, number: int, pages: str, mems: str = "0") -> None:
        self.directory(number).mkdir(parents=True, exist_ok=True)
        (self.directory(number) / "memory.numa_stat").write_text(f"{pages}\n")
        (self.directory(number) / "cpuset.mems").write_text(f"{mems}\n")

    def free(self, node: int, size_bytes: int) -> None:
        text = f"Node {node} MemTotal: 4194304 kB\nNode {node} MemFree: {size_bytes >> 10} kB\n"
        (self.roots.sysfs / f"devices/system/node/node{node}/meminfo").write_text(text)

    def round(self) -> list[Record]:
        """Return the records of the next round, at its time."""
        self.now_s += INTERVAL_S
        assert self.check.due(self.engine, self.now_s)
        return list(self.check.run(self.engine, self.now_s))

    def events(self) -> list[str]:
        return [str(record.event) for record in self.round()]


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def test_a_round_reads_all_containers_in_slices(stand: Stand) -> None:
    check = stand.new(SETTING, per_tick=2)
    for number in range(5):
        stand.create(number)
    sizes: list[int] = []
    now_s = 0.0
    while check.due(stand.engine, now_s):
        assert list(check.run(stand.engine, now_s)) == []
        sizes.append(len(check.last.pages))
        now_s += TICK_S
    assert sizes == [0, 0, 5]
    assert not check.due(stand.engine, INTERVAL_S - 1)
    assert check.due(stand.engine, INTERVAL_S)
    assert check.last.pages[container(3).container_id] == Pages(anonymous={0: 4096})
    # What a container that ended between two slices had does not count.
    stand.write(0, "anon N0=8192")
    check.run(stand.engine, INTERVAL_S)
    for event in (StopPodSandbox(pod(4)), RemovePodSandbox(pod(4))):
        stand.engine.apply(event)
    for _ in range(2):
        check.run(stand.engine, INTERVAL_S)
    assert len(check.last.pages) == 4


def test_containers_that_ended_or_have_no_cgroup_are_not_read(stand: Stand) -> None:
    stand.create(1)
    stand.create(2)
    stand.engine.apply(StopContainer(pod(1), container(1)))
    stand.directory(2).joinpath("memory.numa_stat").unlink()
    stand.create(3)
    (stand.directory(3) / "memory.numa_stat").unlink()
    (stand.directory(3) / "memory.numa_stat").mkdir()
    stand.create(4)
    stand.engine.apply(StopPodSandbox(pod(4)))
    stand.round()
    assert stand.check.last.pages == {}


def test_memory_on_remote_nodes(stand: Stand) -> None:
    remote = f"anon N0={60 * MI} N1={40 * MI}"
    stand.create(1, remote)
    assert stand.events() == []
    (record,) = stand.round()
    assert record.event == "remote_memory_found"
    assert fields_of(record)["remote_bytes"] == {"1": 40 * MI}
    assert str(fields_of(record)["cause"]).startswith("pages that the kernel has pinned")
    assert stand.check.last.remote_containers == 1
    assert stand.events() == []
    stand.write(1, f"anon N0={100 * MI} N1=0")
    assert stand.events() == ["remote_memory_cleared"]
    assert stand.check.last.remote_containers == 0


@pytest.mark.parametrize(
    ("mems", "text"),
    [("0-1", "its cpuset.mems is 0-1; "), ("x", "pages that "), (None, "pages that ")],
    ids=["wide", "unreadable", "missing"],
)
def test_the_cause_names_the_nodes_of_the_cgroup(stand: Stand, mems: str | None, text: str) -> None:
    stand.create(1)
    stand.write(1, f"anon N1={40 * MI}", mems or "")
    if mems is None:
        (stand.directory(1) / "cpuset.mems").unlink()
    stand.round()
    (record,) = stand.round()
    assert str(fields_of(record)["cause"]).startswith(text)


def test_head_room_is_low_and_restored(stand: Stand) -> None:
    stand.create(1, f"anon N0={20 * MI}")
    assert stand.events() == []
    assert stand.check.last.unfaulted == {0: 80 * MI, 1: 0}
    assert stand.check.last.low_nodes == frozenset()
    # 179 MiB less the 80 MiB that the container may still allocate.
    stand.free(0, 179 * MI)
    (record,) = stand.round()
    assert record.event == "head_room_low"
    assert fields_of(record) == {
        "nodes": "0",
        "available_bytes": 179 * MI,
        "unfaulted_bytes": 80 * MI,
        "head_room_bytes": 99 * MI,
        "limit_bytes": 100 * MI,
    }
    assert stand.check.last.low_nodes == {0}
    stand.free(0, 200 * MI)
    assert stand.events() == []
    stand.free(0, 300 * MI)
    assert stand.events() == ["head_room_restored"]
    assert stand.events() == []


def test_an_amount_that_changes_during_a_round_raises_no_alarm(stand: Stand) -> None:
    """Both amounts of the round have to be too small."""
    check = stand.check = stand.new(SETTING, per_tick=1)
    stand.create(1, f"anon N0={20 * MI}")
    stand.create(2, f"anon N0={20 * MI}")
    check.run(stand.engine, 0.0)
    stand.free(0, 100 * MI)
    assert list(check.run(stand.engine, TICK_S)) == []
    check.run(stand.engine, INTERVAL_S)
    assert [record.event for record in check.run(stand.engine, INTERVAL_S)] == ["head_room_low"]


def test_without_the_limit_there_are_amounts_and_no_alarm(stand: Stand) -> None:
    stand.check = stand.new(Residency(int(INTERVAL_S)))
    stand.create(1, f"anon N0={20 * MI}")
    stand.free(0, 10 * MI)
    assert stand.events() == []
    assert stand.check.last.available[0] == 10 * MI
    assert stand.check.last.low_nodes is None


def test_a_machine_that_cannot_be_read(stand: Stand) -> None:
    meminfo = stand.roots.sysfs / "devices/system/node/node0/meminfo"
    meminfo.unlink()
    meminfo.mkdir()
    stand.create(1)
    assert stand.events() == []
    assert (stand.check.last.available, stand.check.last.head_rooms) == ({}, ())


def test_cgroup_v1_is_a_cause(stand: Stand) -> None:
    (stand.roots.cgroup / "cgroup.controllers").unlink()
    stand.create(1)
    memory = stand.roots.cgroup / "memory/kubepods/pod1" / container(1).container_id
    memory.mkdir(parents=True)
    (memory / "memory.numa_stat").write_text("total=0\nanon=99999 N1=99999\n")
    cpuset = stand.roots.cgroup / "cpuset/kubepods/pod1" / container(1).container_id
    cpuset.mkdir(parents=True)
    (cpuset / "cpuset.mems").write_text("0\n")
    stand.round()
    (record,) = stand.round()
    assert "cgroup v1 moves no pages" in str(fields_of(record)["cause"])
