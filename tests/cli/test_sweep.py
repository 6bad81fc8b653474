from pathlib import Path

from nri_numamem.cli.sweep import PodSweep
from nri_numamem.engine.events import PodSandbox


def pod(number: int) -> PodSandbox:
    return PodSandbox(f"s{number}", f"u{number}", "ns", f"p{number}", f"/kubepods/podu{number}")


def test_a_cgroup_that_was_there_and_went(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directories = [tmp_path / f"kubepods/podu{number}" for number in range(2)]
    for directory in directories:
        directory.mkdir(parents=True)
    pods = {f"s{number}": pod(number) for number in range(3)}  # the third never had one
    sweep = PodSweep(tmp_path)
    assert sweep.look(pods) == []
    directories[1].rmdir()
    assert sweep.look(pods) == [pods["s1"]]
    assert sweep.look(pods) == [pods["s1"]]  # its release may have been undone
    gone = pods.pop("s1")
    assert sweep.look(pods) == []
    assert sweep.look({**pods, "s1": gone}) == []  # a new one of that id was not seen yet


def test_a_pod_that_ended_properly_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    directory = tmp_path / "kubepods/podu0"
    directory.mkdir(parents=True)
    sweep = PodSweep(tmp_path)
    assert sweep.look({"s0": pod(0)}) == []
    assert sweep.look({}) == []
    directory.rmdir()
    assert sweep.look({"s0": pod(0)}) == []


def test_a_pod_without_a_cgroup_parent_is_not_judged(tmp_path: Path) -> None:
    sweep = PodSweep(tmp_path)
    nameless = PodSandbox("s", "u", "ns", "p", "")
    assert sweep.look({"s": nameless}) == []
    assert sweep.look({"s": nameless}) == []


def test_what_an_earlier_process_held_is_judged_once_a_cgroup_is_found(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    pods = {f"s{number}": pod(number) for number in range(3)}
    sweep = PodSweep(tmp_path)
    sweep.expect(["s0", "s1", "of a pod that is no more"])
    assert sweep.look(pods) == []  # the cgroups may be anywhere
    (tmp_path / "kubepods/podu0").mkdir(parents=True)
    assert sweep.look(pods) == [pods["s1"]]
    del pods["s1"]
    assert sweep.look(pods) == []
