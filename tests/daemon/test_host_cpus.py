"""Which CPUs are isolated, and the policy of the kubelet's CPU manager, as files show them."""

import json
from pathlib import Path

import pytest

from nri_numamem.daemon.host_cpus import READ_S, HostCpusMonitor
from nri_numamem.engine.core.events import HostCpus
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.setup import new_context
from nri_numamem.host.roots import HostRoots
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuFollowing, CpuSet, Machine, NumaNode

MACHINE = Machine((NumaNode(0, 1 << 30, cpus=CpuSet(range(4))),))


class Bench:
    """A monitor, and the files that it reads."""

    def __init__(self, root: Path, following: CpuFollowing = CpuFollowing.PREFER) -> None:
        self.isolated = root / "sys/devices/system/cpu/isolated"
        self.isolated.parent.mkdir(parents=True)
        self.state = root / "kubelet/cpu_manager_state"
        self.state.parent.mkdir()
        policy = Policy(
            reserved_memory=(Reservation(0, {"memory": 1 << 20}),), cpu_following=following
        )
        self.engine: Engine | None = Engine(new_context(MACHINE, policy))
        roots = HostRoots(sysfs=root / "sys", kubelet=self.state.parent)
        self.monitor = HostCpusMonitor(roots, lambda: self.engine)

    def write(self, policy: str) -> None:
        self.state.write_text(json.dumps({"policyName": policy, "defaultCpuSet": "0-3"}))

    def read(self) -> list[str]:
        return [record.event for record in self.monitor.run(0.0)]

    @property
    def known(self) -> HostCpus:
        assert self.engine is not None
        return self.engine.context.host_cpus


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_without_files_nothing_is_known(bench: Bench) -> None:
    assert bench.read() == []
    assert bench.known == HostCpus()


def test_isolated_cpus(bench: Bench) -> None:
    bench.isolated.write_text("2-3\n")
    assert bench.read() == []
    assert bench.known == HostCpus(CpuSet({2, 3}))


def test_each_change_of_the_policy_is_recorded_once(bench: Bench) -> None:
    bench.write("none")
    assert bench.read() == []
    bench.write("static")
    assert bench.read() == ["cpus_left_to_kubelet"]
    assert bench.known.kubelet_policy == "static"
    assert bench.read() == []
    bench.state.unlink()
    assert bench.read() == ["cpus_follow_memory"]


def test_errors_are_recorded_once_and_change_nothing(bench: Bench) -> None:
    bench.write("static")
    bench.read()
    bench.state.write_text("{")
    found = list(bench.monitor.run(0.0))
    assert [record.event for record in found] == ["kubelet_cpu_state_unreadable"]
    assert str(fields_of(found[0])["error"]).startswith(f"{bench.state}: it is not a state file")
    assert bench.read() == []
    assert bench.known.kubelet_policy == "static"
    bench.write("static")
    assert bench.read() == []
    bench.state.unlink()
    bench.state.mkdir()
    assert bench.read() == ["kubelet_cpu_state_unreadable"]
    bench.state.rmdir()
    bench.isolated.write_text("x")
    assert bench.read() == ["kubelet_cpu_state_unreadable"]


def test_a_state_file_that_does_not_change_is_read_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("none")
    bench.read()
    monkeypatch.setattr("nri_numamem.daemon.host_cpus.read_regular", pytest.fail)
    assert bench.read() == []


def test_the_files_are_read_from_time_to_time(bench: Bench) -> None:
    assert bench.monitor.due(5.0)
    bench.monitor.run(5.0)
    assert not bench.monitor.due(5.0 + READ_S - 1)
    assert bench.monitor.due(5.0 + READ_S)


def test_switched_off_nothing_is_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CpuFollowing.OFF)
    bench.write("static")
    assert not bench.monitor.due(0.0)
    assert bench.read() == []
    assert bench.known == HostCpus()
    bench.engine = None
    assert not bench.monitor.due(0.0)
    assert bench.read() == []
