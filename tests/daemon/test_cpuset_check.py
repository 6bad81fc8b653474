"""When cgroups of known containers are compared with the accounting, and what is read."""

from pathlib import Path

import pytest

from nri_numamem.daemon.cgroup_scan import SCANS_AFTER_S
from nri_numamem.daemon.cpuset_check import ROUND_S, SLICE_S, CpusetCheck
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
)
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.event_loop import TICK_S
from nri_numamem.numa import Machine, NumaNode

MI = 1 << 20
SOON_S, LATER_S = SCANS_AFTER_S


def container_id(number: int) -> str:
    return f"{number:064x}"


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number:03}", f"u{number}", "ns", f"p{number}", f"/kubepods/pod{number}")


def container(number: int, pod_number: int | None = None) -> Container:
    sandbox_id = pod(number if pod_number is None else pod_number).sandbox_id
    return Container(container_id(number), sandbox_id, f"c{number}", MI)


class Stand:
    """An engine with containers on node 0, their cgroups, and the check."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "cgroup.controllers").write_text("cpuset memory\n")
        nodes = tuple(NumaNode(node, 4 << 30) for node in range(2))
        self.engine = Engine(Context.of(Machine(nodes), Policy()))
        self.check = CpusetCheck(root, lambda: 0.0)
        self.records: list[Record] = []

    def create(self, number: int, mems: str | None = "0") -> None:
        """Create a container in a pod of its own, with a cgroup unless `mems` is None."""
        self.engine.apply(RunPodSandbox(pod(number)))
        self.engine.apply(CreateContainer(pod(number), container(number)))
        if mems is not None:
            self.write(number, mems)

    def directory(self, number: int) -> Path:
        return self.root / f"kubepods/pod{number}/{container_id(number)}"

    def write(self, number: int, mems: str, populated: int = 1) -> None:
        """Write the files of a container's cgroup."""
        directory = self.directory(number)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.events").write_text(f"populated {populated}\n")
        (directory / "cpuset.mems").write_text(f"{mems}\n")
        (directory / "memory.numa_stat").write_text("anon N0=0 N1=4096\nfile N0=0 N1=0\n")

    def tick(self, now_s: float) -> list[str]:
        """Run the check if it is due; return the events of the records."""
        if not self.check.due(self.engine, now_s):
            return []
        records = list(self.check.run(self.engine, now_s))
        self.records += records
        return [record.event for record in records]

    def updates(self) -> tuple[Update, ...]:
        """Return the updates in the reply to another creation."""
        self.engine.apply(RunPodSandbox(pod(900)))
        return self.engine.apply(CreateContainer(pod(900), container(900))).plan.updates


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def test_a_container_whose_cgroup_came_late_is_repaired(stand: Stand) -> None:
    """It was being started while the plugin synchronized."""
    stand.tick(0.0)
    stand.create(1, None)
    stand.check.synchronized(0.0)
    assert stand.tick(SOON_S) == []
    stand.write(1, "")
    assert stand.tick(SLICE_S - TICK_S) == []
    assert stand.tick(LATER_S) == []  # one look may come too early
    assert stand.tick(LATER_S + TICK_S) == ["cpuset_mems_missing"]
    assert stand.updates() == (Update(container_id(1), "0"),)
    stand.write(1, "0")
    assert stand.tick(LATER_S + SLICE_S) == ["cpuset_mems_restored"]
    assert not stand.check.due(stand.engine, LATER_S + SLICE_S + TICK_S)


def test_a_child_cgroup_that_a_container_makes_changes_nothing(stand: Stand) -> None:
    stand.create(1, "0")
    child = stand.directory(1) / "container"
    child.mkdir()
    (child / "cpuset.mems").write_text("1\n")
    assert stand.tick(0.0) == stand.tick(TICK_S) == []
    machine = stand.engine.state.accounting.machine_state
    assert [machine[node].number_of_assignments for node in (0, 1)] == [1, 0]


def test_both_looks_after_a_synchronize_compare_all_containers(stand: Stand) -> None:
    for number in range(1, 41):
        stand.create(number, "1")
    stand.tick(0.0)
    stand.tick(TICK_S)
    stand.records.clear()
    for number in range(1, 41):
        stand.write(number, "0-1")
    stand.check.synchronized(3.0)
    stand.tick(3.0 + SOON_S)
    found = stand.tick(3.0 + SOON_S + TICK_S)
    assert found == ["cpuset_mems_conflict"] * 40


def test_each_container_is_compared_once_in_a_round(stand: Stand) -> None:
    for number in range(1, 51):
        stand.create(number)
    now_s = 0.0
    while now_s <= ROUND_S + SLICE_S:
        stand.tick(now_s)
        if now_s == 0.0:
            for number in range(1, 51):
                stand.write(number, "1")
        now_s += TICK_S
    changed = [fields_of(record)["container"] for record in stand.records]
    assert sorted(map(str, changed)) == sorted(f"c{number}" for number in range(1, 51))


def test_a_waiting_repair_is_compared_at_each_tick(stand: Stand) -> None:
    stand.create(1, "")
    stand.tick(0.0)
    assert stand.tick(TICK_S) == ["cpuset_mems_missing"]
    much = f"anon N0=0 N1={300 * MI}\n"
    (stand.directory(1) / "memory.numa_stat").write_text(much)
    assert stand.tick(2 * TICK_S) == ["cpuset_mems_missing"]
    assert fields_of(stand.records[-1])["outcome"] == "unpinned"
    assert stand.updates() == ()


def test_a_repair_that_became_unnecessary_is_dropped(stand: Stand) -> None:
    stand.create(1, "")
    stand.tick(0.0)
    stand.tick(TICK_S)
    stand.write(1, "0")
    assert stand.tick(2 * TICK_S) == ["cpuset_mems_restored"]
    assert not stand.check.due(stand.engine, 3 * TICK_S)
    assert stand.updates() == ()


def test_records_say_where_the_memory_is_before_and_after_a_repair(stand: Stand) -> None:
    stand.create(1, "")
    stand.tick(0.0)
    assert stand.tick(TICK_S) == ["cpuset_mems_missing"]
    assert fields_of(stand.records[-1])["resident_bytes"] == {"1": 4096}
    assert fields_of(stand.records[-1])["remote_bytes"] == {"1": 4096}
    assert stand.updates() == (Update(container_id(1), "0"),)
    # The runtime writes the file some time after the reply.
    assert stand.tick(2 * TICK_S) == []
    stand.write(1, "0")
    moved = "anon N0=4096 N1=0\nfile N0=0 N1=8192\n"
    (stand.directory(1) / "memory.numa_stat").write_text(moved)
    assert stand.tick(3 * TICK_S) == ["cpuset_mems_restored"]
    fields = fields_of(stand.records[-1])
    assert (fields["container"], fields["nodes"]) == ("c1", "0")
    assert (fields["resident_bytes"], fields["remote_bytes"]) == ({"0": 4096}, {})
    assert not stand.check.due(stand.engine, 4 * TICK_S)


def test_a_conflict_says_what_is_not_on_the_previous_nodes(stand: Stand) -> None:
    stand.create(1, "0-1")
    stand.tick(0.0)
    assert stand.tick(TICK_S) == ["cpuset_mems_conflict"]
    fields = fields_of(stand.records[-1])
    assert (fields["previous_nodes"], fields["nodes"]) == ("0", "0-1")
    assert fields["remote_bytes"] == {"1": 4096}


def test_a_repair_of_a_container_that_ended_or_moved_is_forgotten(stand: Stand) -> None:
    for number in (1, 2):
        stand.create(number, "")
    stand.check.synchronized(-SOON_S)
    stand.tick(0.0)
    assert stand.tick(TICK_S) == ["cpuset_mems_missing"] * 2
    assert stand.updates() == (Update(container_id(1), "0"),)
    stand.engine.apply(StopContainer(pod(1), container(1)))
    stand.write(2, "1")
    found = [event for tick in range(2, 5) for event in stand.tick(tick * TICK_S)]
    assert found == ["cpuset_mems_conflict"]
    assert not stand.check.due(stand.engine, SLICE_S - 1)


def test_a_value_that_is_gone_at_the_next_tick_does_not_count(stand: Stand) -> None:
    stand.create(1, "")
    stand.tick(0.0)
    stand.write(1, "0")
    assert stand.tick(TICK_S) == []
    assert not stand.check.due(stand.engine, 2 * TICK_S)


def test_containers_without_processes_or_cgroup_are_skipped(stand: Stand) -> None:
    for number, populated in ((1, 0), (2, 1)):
        stand.create(number)
        stand.write(number, "", populated)
    stand.engine.apply(StopContainer(pod(2), container(2)))
    stand.create(3, None)
    stand.directory(3).mkdir(parents=True)
    bad = PodSandbox("s004", "u4", "ns", "p4", "/kubepods/../pod4")
    stand.engine.apply(CreateContainer(bad, container(4)))
    assert stand.tick(0.0) == []
    assert not stand.check.due(stand.engine, TICK_S)


def test_a_suspect_that_ended_is_forgotten(stand: Stand) -> None:
    stand.create(1, "")
    stand.tick(0.0)
    stand.engine.apply(StopContainer(pod(1), container(1)))
    assert stand.tick(TICK_S) == []
    assert not stand.check.due(stand.engine, 2 * TICK_S)


def test_a_file_that_cannot_be_read_is_recorded_once(stand: Stand) -> None:
    stand.create(1, "many")
    assert stand.tick(0.0) == ["container_cgroup_unreadable"]
    assert stand.tick(SLICE_S) == []
    stand.write(1, "0")
    assert stand.tick(2 * SLICE_S) == []
    stand.write(1, "many")
    assert stand.tick(3 * SLICE_S) == ["container_cgroup_unreadable"]
