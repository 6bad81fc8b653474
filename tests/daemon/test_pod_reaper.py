from pathlib import Path

import pytest

from nri_numamem.daemon.pod_reaper import REAP_S, PodReaper
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, RunPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import Machine, NumaNode


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number}", f"u{number}", "ns", f"p{number}", f"/kubepods/podu{number}")


def test_a_cgroup_that_disappears(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directories = [tmp_path / f"kubepods/podu{number}" for number in range(2)]
    for directory in directories:
        directory.mkdir(parents=True)
    pods = {f"s{number}": pod(number) for number in range(3)}  # the third never had one
    sweep = PodReaper(tmp_path)
    assert sweep.find_gone(pods) == []
    directories[1].rmdir()
    assert sweep.find_gone(pods) == [pods["s1"]]
    assert sweep.find_gone(pods) == [pods["s1"]]  # its release may have been undone
    gone = pods.pop("s1")
    assert sweep.find_gone(pods) == []
    assert sweep.find_gone({**pods, "s1": gone}) == []  # a new one of that id was not seen yet


def test_a_pod_that_ended_properly_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directory = tmp_path / "kubepods/podu0"
    directory.mkdir(parents=True)
    sweep = PodReaper(tmp_path)
    assert sweep.find_gone({"s0": pod(0)}) == []
    assert sweep.find_gone({}) == []
    directory.rmdir()
    assert sweep.find_gone({"s0": pod(0)}) == []


def test_a_pod_without_a_cgroup_parent_is_not_judged(tmp_path: Path) -> None:
    sweep = PodReaper(tmp_path)
    nameless = PodSandbox("s", "u", "ns", "p", "")
    assert sweep.find_gone({"s": nameless}) == []
    assert sweep.find_gone({"s": nameless}) == []


def test_pods_of_an_earlier_process_are_released_once_a_cgroup_is_found(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    pods = {f"s{number}": pod(number) for number in range(3)}
    sweep = PodReaper(tmp_path)
    sweep.expect(["s0", "s1", "of a pod that is no more"])
    assert sweep.find_gone(pods) == []  # the cgroups may be anywhere
    (tmp_path / "kubepods/podu0").mkdir(parents=True)
    assert sweep.find_gone(pods) == [pods["s1"]]
    del pods["s1"]
    assert sweep.find_gone(pods) == []


class Twins:
    """Two running containers of one name, in two sandboxes of one pod."""

    def __init__(self, root: Path) -> None:
        (root / "cgroup.controllers").touch()
        self.engine = Engine(Context.of(Machine((NumaNode(0, 1 << 30),)), Policy()))
        self.ids = ["a" * 64, "b" * 64]
        self.folders = [root / f"kubepods/podu0/{container_id}" for container_id in self.ids]
        for number, container_id in enumerate(self.ids):
            sandbox = PodSandbox(f"s{number}", "u0", "ns", "p", "/kubepods/podu0")
            container = Container(container_id, sandbox.sandbox_id, "app", 100 << 20)
            self.engine.apply(RunPodSandbox(sandbox))
            self.engine.apply(CreateContainer(sandbox, container))
        self.reaper = PodReaper(root)

    def run(self, now_s: float) -> list[Record]:
        return list(self.reaper.run(self.engine, now_s))

    def live(self) -> list[str]:
        holders = self.engine.state.holders.values()
        return sorted(holder.container_id for holder in holders if not holder.ended)


def test_an_earlier_container_of_the_same_name_ends_with_its_cgroup(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    assert twins.run(0.0) == []  # no cgroup yet: the containers are being started
    for folder in twins.folders:
        folder.mkdir(parents=True)
    assert twins.run(5.0) == []
    twins.folders[0].rmdir()
    (record,) = twins.run(10.0)
    assert record.event == "container_ended"
    assert twins.live() == twins.ids[1:]
    twins.folders[1].rmdir()  # its end is the runtime's to report
    assert twins.run(15.0) == []
    assert twins.live() == twins.ids[1:]


def test_a_cgroup_that_cannot_be_read_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(tmp_path)
    for folder in twins.folders:
        folder.mkdir(parents=True)
    assert twins.run(0.0) == []

    def fail(_path: Path) -> None:
        raise PermissionError(13, "denied")

    with monkeypatch.context() as patched:
        patched.setattr("nri_numamem.host.sysfs.os.listdir", fail)
        assert twins.run(5.0) == []
    assert twins.live() == twins.ids


def test_the_job_waits_for_its_interval(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    assert twins.reaper.due(twins.engine, 100.0)
    assert twins.run(100.0) == []
    assert not twins.reaper.due(twins.engine, 100.0 + REAP_S - 0.1)
    assert twins.reaper.due(twins.engine, 100.0 + REAP_S)
