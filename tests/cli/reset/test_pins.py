"""Which containers of a state are pinned, by their cgroups."""

from pathlib import Path

import pytest

from nri_numamem.cli.reset.pins import Condition, find_directories, read_pins
from nri_numamem.engine.reason import Reason, Reasons
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet

KEY = ("u1", "db")
ID = "a" * 64


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    return tmp_path


def state(*, ended: bool = False, hugepages: int = 0) -> EngineState:
    blocks = (
        Block(NodeSet([1]), "memory", 1 << 30),
        Block(NodeSet([1]), "hugepages-2Mi", hugepages),
    )
    holder = Holder(ID, "s1", KEY, ended)
    return EngineState(State({}, {"u1": {"db": blocks}}), holders={KEY: holder}, keys={ID: KEY})


def write_cgroup(root: Path, mems: str, *, name: str = ID, allowed: str = "0-3") -> Path:
    directory = root / "kubepods.slice/kubepods-podu1.slice" / name
    directory.mkdir(parents=True)
    (directory / "cpuset.mems").write_text(f"{mems}\n")
    (directory.parent / "cpuset.mems.effective").write_text(f"{allowed}\n")
    return directory


@pytest.mark.parametrize(
    ("mems", "condition"),
    [
        ("1", Condition.PINNED),
        ("0", Condition.CHANGED),
        ("0-3", Condition.RESET),
        ("", Condition.RESET),
    ],
)
def test_the_cgroup_decides(root: Path, mems: str, condition: Condition) -> None:
    write_cgroup(root, mems)
    (pin,) = read_pins(state(), root)
    assert pin.condition is condition
    assert (pin.pod, pin.name, pin.nodes, pin.allowed) == (*KEY, NodeSet([1]), NodeSet(range(4)))


def test_without_a_cgroup_it_is_gone(root: Path) -> None:
    (pin,) = read_pins(state(), root)
    assert pin.condition is Condition.GONE
    assert not pin.allowed


def test_ended_containers_are_left_out(root: Path) -> None:
    write_cgroup(root, "1")
    assert read_pins(state(ended=True), root) == ()


def test_hugepages_with_an_amount_are_named(root: Path) -> None:
    assert [pin.hugepages for pin in read_pins(state(), root)] == [()]
    assert [pin.hugepages for pin in read_pins(state(hugepages=4 << 20), root)] == [
        ("hugepages-2Mi",)
    ]


@pytest.mark.parametrize("name", [f"cri-containerd-{ID}.scope", f"crio-{ID}.scope", ID])
def test_cgroups_are_found_by_id(root: Path, name: str) -> None:
    directory = write_cgroup(root, "1", name=name)
    assert find_directories(root, [ID, "b" * 64]) == {ID: directory}


def test_nodes_of_the_next_cgroup_above_with_a_cpuset(root: Path) -> None:
    directory = write_cgroup(root, "1")
    (directory.parent / "cpuset.mems.effective").unlink()
    (root / "kubepods.slice/cpuset.mems.effective").write_text("0-1\n")
    (pin,) = read_pins(state(), root)
    assert pin.allowed == NodeSet([0, 1])


def test_cgroup_v1(tmp_path: Path) -> None:
    directory = tmp_path / "cpuset/kubepods/podu1" / ID
    directory.mkdir(parents=True)
    for name, nodes in (("cpuset.mems", "1"), ("cpuset.effective_mems", "1")):
        (directory / name).write_text(f"{nodes}\n")
        (directory.parent / name).write_text("0-1\n")
    (pin,) = read_pins(state(), tmp_path)
    assert (pin.condition, pin.allowed) == (Condition.PINNED, NodeSet([0, 1]))


@pytest.mark.parametrize(
    ("event", "condition"),
    [
        (EventName.ADMITTED, Condition.PINNED),
        (EventName.ADOPTED, Condition.ADOPTED),
        (EventName.CPUSET_MEMS_CONFLICT, Condition.ADOPTED),
    ],
)
def test_nodes_that_the_plugin_did_not_choose(
    root: Path, event: EventName, condition: Condition
) -> None:
    write_cgroup(root, "1")
    reason = Reason(ID, "s1", KEY, "prod", "db-0", event)
    known = state().with_reasons(Reasons({ID: reason}))
    (pin,) = read_pins(known, root)
    assert (pin.condition, pin.pod) == (condition, "prod/db-0")
