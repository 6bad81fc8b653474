from pathlib import Path

from nri_numamem.daemon.pod_reaper import REAP_S, PodReaper
from nri_numamem.engine.events import PodSandbox


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number}", f"u{number}", "ns", f"p{number}", f"/kubepods/podu{number}")


def test_a_cgroup_that_disappears(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directories = [tmp_path / f"kubepods/podu{number}" for number in range(2)]
    for directory in directories:
        directory.mkdir(parents=True)
    pods = {f"s{number}": pod(number) for number in range(3)}  # the third never had one
    sweep = PodReaper(tmp_path, lambda: None)
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
    sweep = PodReaper(tmp_path, lambda: None)
    assert sweep.find_gone({"s0": pod(0)}) == []
    assert sweep.find_gone({}) == []
    directory.rmdir()
    assert sweep.find_gone({"s0": pod(0)}) == []


def test_a_pod_without_a_cgroup_parent_is_not_judged(tmp_path: Path) -> None:
    sweep = PodReaper(tmp_path, lambda: None)
    nameless = PodSandbox("s", "u", "ns", "p", "")
    assert sweep.find_gone({"s": nameless}) == []
    assert sweep.find_gone({"s": nameless}) == []


def test_pods_of_an_earlier_process_are_released_once_a_cgroup_is_found(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    pods = {f"s{number}": pod(number) for number in range(3)}
    sweep = PodReaper(tmp_path, lambda: None)
    sweep.expect(["s0", "s1", "of a pod that is no more"])
    assert sweep.find_gone(pods) == []  # the cgroups may be anywhere
    (tmp_path / "kubepods/podu0").mkdir(parents=True)
    assert sweep.find_gone(pods) == [pods["s1"]]
    del pods["s1"]
    assert sweep.find_gone(pods) == []


def test_the_job_waits_for_its_interval_and_for_an_engine(tmp_path: Path) -> None:
    reaper = PodReaper(tmp_path, lambda: None)
    assert reaper.due(100.0)
    assert reaper.run(100.0) == ()
    assert not reaper.due(100.0 + REAP_S - 0.1)
    assert reaper.due(100.0 + REAP_S)
