"""Which containers of a state are pinned, by their cgroups."""

from pathlib import Path

import pytest

from nri_numamem.cli.reset.pins import (
    Condition,
    find_directories,
    find_pins,
    read_pins,
    sent_nodes,
)
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet
from nri_numamem.observe.history.records import Recorded
from tests.cli.explain.stories import recorded

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
    (pin,) = read_pins(state(), root, {})
    assert pin.condition is condition
    assert (pin.pod, pin.name, pin.nodes, pin.allowed) == (*KEY, NodeSet([1]), NodeSet(range(4)))


def test_a_child_cgroup_that_a_container_makes_does_not_count(root: Path) -> None:
    child = write_cgroup(root, "1") / "container"
    child.mkdir()
    (child / "cpuset.mems").write_text("0\n")
    (pin,) = read_pins(state(), root, {})
    assert pin.condition is Condition.PINNED


def test_without_a_cgroup_it_is_gone(root: Path) -> None:
    (pin,) = read_pins(state(), root, {})
    assert pin.condition is Condition.GONE
    assert not pin.allowed


def test_ended_containers_are_left_out(root: Path) -> None:
    write_cgroup(root, "1")
    assert read_pins(state(ended=True), root, {}) == ()


def test_hugepages_with_an_amount_are_named(root: Path) -> None:
    assert [pin.hugepages for pin in read_pins(state(), root, {})] == [()]
    assert [pin.hugepages for pin in read_pins(state(hugepages=4 << 20), root, {})] == [
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
    (pin,) = read_pins(state(), root, {})
    assert pin.allowed == NodeSet([0, 1])


def test_cgroup_v1(tmp_path: Path) -> None:
    directory = tmp_path / "cpuset/kubepods/podu1" / ID
    directory.mkdir(parents=True)
    for name, nodes in (("cpuset.mems", "1"), ("cpuset.effective_mems", "1")):
        (directory / name).write_text(f"{nodes}\n")
        (directory.parent / name).write_text("0-1\n")
    (pin,) = read_pins(state(), tmp_path, {})
    assert (pin.condition, pin.allowed) == (Condition.PINNED, NodeSet([0, 1]))


@pytest.mark.parametrize(
    ("event", "condition"),
    [
        ("admitted", Condition.PINNED),
        ("adopted", Condition.ADOPTED),
        ("cpuset_mems_conflict", Condition.CONFLICT),
    ],
)
def test_nodes_that_the_plugin_did_not_choose(root: Path, event: str, condition: Condition) -> None:
    write_cgroup(root, "1")
    reason = Reason(ID, "s1", KEY, "prod", "db-0", event)
    known = state().with_reasons(Reasons({ID: reason}))
    (pin,) = read_pins(known, root, {})
    assert (pin.condition, pin.pod) == (condition, "prod/db-0")


def admitted(mems: str, container_id: str = ID, **fields: object) -> Recorded:
    names = {"namespace": "prod", "pod": "db-0", "container": "db", "container_id": container_id}
    fields = {**names, "adjustment": {"cpuset_mems": mems}, **fields}
    return recorded(0.0, "admitted", "", fields)


def test_nodes_that_the_plugin_sent() -> None:
    entries = [
        admitted("1"),
        admitted("0-1", extended_container_ids=["b"]),
        admitted("", "c"),
        recorded(0.0, "adopted", "", {"container_id": "c", "nodes": "2"}),
        recorded(0.0, "cpuset_mems_reapplied", "", {"container_id": "d", "nodes": "3"}),
    ]
    assert sent_nodes(entries) == {
        ID: {NodeSet([1]), NodeSet([0, 1])},
        "b": {NodeSet([0, 1])},
        "d": {NodeSet([3])},
    }


@pytest.mark.parametrize(
    ("event", "sent", "condition"),
    [
        ("adopted", NodeSet([1]), Condition.PINNED),
        ("adopted", NodeSet([2]), Condition.ADOPTED),
        ("cpuset_mems_conflict", NodeSet([1]), Condition.CONFLICT),
    ],
)
def test_an_adopted_container_may_have_nodes_that_the_plugin_sent(
    root: Path, event: str, sent: NodeSet, condition: Condition
) -> None:
    write_cgroup(root, "1")
    reason = Reason(ID, "s1", KEY, "prod", "db-0", event)
    (pin,) = read_pins(state().with_reasons(Reasons({ID: reason})), root, {ID: [sent]})
    assert pin.condition is condition


@pytest.mark.parametrize(
    ("mems", "entries", "condition"),
    [
        ("1", [admitted("1")], Condition.PINNED),
        ("1", [admitted("2")], Condition.ADOPTED),
        ("1", [], Condition.ADOPTED),
        ("0-3", [admitted("1")], None),
        ("", [admitted("1")], None),
    ],
)
def test_pins_without_a_state_file(
    root: Path, mems: str, entries: list[Recorded], condition: Condition | None
) -> None:
    write_cgroup(root, mems)
    found = [(pin.condition, pin.pod, pin.name) for pin in find_pins(root, entries)]
    names = ("prod/db-0", "db") if entries else ("u1", ID[:13])
    assert found == ([] if condition is None else [(condition, *names)])


def test_pods_of_which_the_plugin_pins_containers(root: Path) -> None:
    for level in ("burstable", "besteffort"):
        pod = root / f"kubepods/{level}/pod{level}" / ID
        pod.mkdir(parents=True)
        (pod / "cpuset.mems").write_text("1\n")
        (pod.parent / "cpuset.mems.effective").write_text("0-3\n")
    assert [pin.pod for pin in find_pins(root, [])] == ["burstable"]
