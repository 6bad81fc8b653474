"""The nodes of a container in a Synchronize: runtime, cgroup and accounting as a table."""

from dataclasses import replace

import pytest

from nri_numamem.engine.core.events import CgroupUse, Container
from nri_numamem.engine.core.state import Cpusets, EngineState, Holder
from nri_numamem.engine.cpusets.reported import Action, ReportedNodes, reported_nodes
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet

LISTED = ReportedNodes(NodeSet([1]))
KEY = ("uid", "main")
USE = CgroupUse(memory_bytes={})
CONTAINERD, CRIO = True, False


def before(assigned: str, *, is_unconfirmed: bool = False) -> EngineState:
    """Return a state in which the container has these nodes; no container for ""."""
    if not assigned:
        return EngineState(State({}))
    block = Block(NodeSet.parse(assigned), "memory", 1)
    return EngineState(
        State({}, {"uid": {"main": (block,)}}),
        holders={KEY: Holder("c", "s", KEY)},
        keys={"c": KEY},
        cpusets=Cpusets(unconfirmed=frozenset({"c"} if is_unconfirmed else ())),
    )


@pytest.mark.parametrize(
    ("in_runtime", "in_cgroup", "assigned", "keeps_updates", "nodes", "action"),
    [
        # There is no cgroup, or all agree.
        ("1", None, "2", CONTAINERD, "1", Action.NONE),
        ("", None, "2", CRIO, "", Action.NONE),
        ("1", "1", "2", CONTAINERD, "1", Action.NONE),
        ("", "", "2", CONTAINERD, "", Action.NONE),
        # The cgroup has nodes that the runtime lacks.
        ("", "2", "", CONTAINERD, "2", Action.STORE),
        ("1", "2", "2", CONTAINERD, "2", Action.STORE),
        ("1", "2", "2", CRIO, "2", Action.STORE),
        ("1", "2", "", CRIO, "2", Action.STORE),
        ("1", "2", "3", CRIO, "2", Action.STORE),
        # The cgroup lacks nodes.
        ("1", "", "1", CONTAINERD, "1", Action.REPAIR),
        ("1", "", "", CRIO, "1", Action.REPAIR),
        ("1", "", "2", CRIO, "2", Action.REPAIR),
        ("1", "", "2", CONTAINERD, "1", Action.REPAIR),
        # The cgroup has other nodes than runtime and accounting.
        ("1", "2", "1", CONTAINERD, "2", Action.SHOW_CONFLICT),
        ("1", "2", "1", CRIO, "2", Action.SHOW_CONFLICT),
        ("1", "2", "", CONTAINERD, "1", Action.REPAIR),
        ("1", "2", "3", CONTAINERD, "1", Action.REPAIR),
    ],
)
def test_the_nodes_and_the_action(
    in_runtime: str,
    in_cgroup: str | None,
    assigned: str,
    nodes: str,
    action: Action,
    *,
    keeps_updates: bool,
) -> None:
    mems = None if in_cgroup is None else NodeSet.parse(in_cgroup)
    container = Container("c", "s", "main", 1, cgroup_mems=mems, cgroup_use=USE)
    runtime = ReportedNodes(NodeSet.parse(in_runtime))
    found = reported_nodes(before(assigned), container, runtime, keeps_updates=keeps_updates)
    assert (str(found.nodes), found.action) == (nodes, action)
    assert bool(found.cause) == (action not in (Action.NONE, Action.SHOW_CONFLICT))
    assert (found.previous is not None) == (action is Action.SHOW_CONFLICT)


def test_an_unconfirmed_update_is_repaired() -> None:
    container = Container("c", "s", "main", 1, cgroup_mems=NodeSet([2]), cgroup_use=USE)
    old = before("1", is_unconfirmed=True)
    found = reported_nodes(old, container, LISTED, keeps_updates=CONTAINERD)
    assert (str(found.nodes), found.action) == ("1", Action.REPAIR)


def test_what_must_not_be_repaired_is_shown() -> None:
    container = Container("c", "s", "main", 1, cgroup_mems=NodeSet(), has_devices=True)
    found = reported_nodes(before("1"), container, LISTED, keeps_updates=CONTAINERD)
    assert found.action is Action.SHOW_UNPINNED
    assert found.cause == "the container has devices"
    held = replace(container, cgroup_mems=NodeSet([2]))
    found = reported_nodes(before(""), held, LISTED, keeps_updates=CONTAINERD)
    assert (str(found.nodes), found.action) == ("2", Action.SHOW_CONFLICT)


def test_effective_nodes_of_the_accounting_need_no_action() -> None:
    use = replace(USE, effective_mems=NodeSet([1]))
    container = Container("c", "s", "main", 1, cgroup_mems=NodeSet(), cgroup_use=use)
    found = reported_nodes(before("1"), container, LISTED, keeps_updates=CONTAINERD)
    assert (str(found.nodes), found.action) == ("1", Action.NONE)
