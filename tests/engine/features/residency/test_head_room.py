"""Unfaulted bytes, head-room per group, and the alarms with their hysteresis."""

from dataclasses import replace

import pytest

from nri_numamem.engine.features.residency.head_room import (
    HeadRoom,
    head_rooms,
    judge,
    unfaulted_bytes,
)
from nri_numamem.engine.features.residency.setting import HeadRoomLimit
from nri_numamem.numa import NodeSet
from tests.engine.conftest import GI, MI, PAGE, Host

ALL_FREE = dict.fromkeys(range(4), GI)


def test_unfaulted_is_what_is_assigned_and_not_resident(host: Host) -> None:
    pod = host.run("a")
    host.create(pod, "one", 200 * MI, hugepages={PAGE: 8 * PAGE}, container_id="one")
    host.create(pod, "two", 100 * MI, container_id="two")
    found = unfaulted_bytes(host.engine.state, {"one": 50 * MI, "two": 300 * MI})
    # "two" has more than its limit, as in the moment of an OOM kill.
    assert found == {0: 150 * MI, 1: 0, 2: 0, 3: 0}


def test_a_container_whose_memory_is_unknown_does_not_count(host: Host) -> None:
    host.create(host.run("a"), container_id="one")
    assert unfaulted_bytes(host.engine.state, {}) == dict.fromkeys(range(4), 0)


def test_what_a_pod_keeps_for_its_next_containers_counts_as_a_whole(host: Host) -> None:
    host.create(host.run("a"), "init", 200 * MI, container_id="init")
    host.stop(host.newest("init"))
    assert unfaulted_bytes(host.engine.state, {})[0] == 200 * MI


def test_a_container_on_several_nodes_is_divided_by_its_charges(host: Host) -> None:
    host.create(host.run("a"), memory=1200 * MI, container_id="big")
    state = host.engine.state
    (block,) = state.blocks(("a", "main")) or ()
    assert len(block.charges) == 2
    found = unfaulted_bytes(state, {"big": 600 * MI})
    first, second = (found[node] for node, _ in block.charges)
    assert first + second == 600 * MI
    assert second == 600 * MI * block.charges[1][1] // block.size
    (room, *others) = head_rooms(state, {"big": 600 * MI}, ALL_FREE)
    assert (room.nodes, room.unfaulted_bytes, room.most_bytes) == (
        NodeSet([0, 1]),
        600 * MI,
        2 * GI - 600 * MI,
    )
    assert [each.nodes for each in others] == [NodeSet([2]), NodeSet([3])]


def test_blocks_without_charges_count_on_their_first_node(host: Host) -> None:
    host.create(host.run("a"), container_id="one")
    state = host.engine.state
    (block,) = state.blocks(("a", "main")) or ()
    for nodes, found in (("2-3", {2: 200 * MI}), ("9", {})):
        adopted = replace(block, numa_affinity=NodeSet.parse(nodes), charges=())
        accounting = replace(state.accounting, assignments={"a": {"main": (adopted,)}})
        expected = {**dict.fromkeys(range(4), 0), **found}
        assert unfaulted_bytes(replace(state, accounting=accounting), {"one": 0}) == expected


def test_both_times_of_the_available_bytes_bound_the_head_room(host: Host) -> None:
    host.create(host.run("a"), container_id="one")
    before = {**ALL_FREE, 0: 300 * MI}
    room = head_rooms(host.engine.state, {"one": 0}, ALL_FREE, before)[0]
    assert (room.least_bytes, room.most_bytes) == (100 * MI, GI - 200 * MI)


@pytest.mark.parametrize("missing", ["available", "before"])
def test_nodes_without_known_amounts_are_left_out(host: Host, missing: str) -> None:
    some = dict.fromkeys(range(3), GI)
    state = host.engine.state
    found = (
        head_rooms(state, {}, some)
        if missing == "available"
        else head_rooms(state, {}, ALL_FREE, some)
    )
    assert [room.nodes for room in found] == [NodeSet([0]), NodeSet([1]), NodeSet([2])]


def room(most: int, least: int | None = None, nodes: str = "0") -> HeadRoom:
    """Return a group of 1,000 bytes with this head-room."""
    smallest = most if least is None else least
    return HeadRoom(NodeSet.parse(nodes), 1000, 500, smallest + 500, most + 500)


@pytest.mark.parametrize(
    ("found", "low", "raised", "cleared", "after"),
    [
        (room(99), (), True, False, {0}),
        (room(99, -50), (0,), False, False, {0}),
        (room(100), (), False, False, set()),
        (room(100), (0,), False, False, {0}),
        (room(200, 99), (), False, False, set()),
        (room(200, 124), (0,), False, False, {0}),
        (room(200, 125), (0,), False, True, set()),
        (room(200, 125), (), False, False, set()),
        (room(99, nodes="0-1"), (0,), False, False, {0, 1}),
        (room(500, nodes="0-1"), (1,), False, True, set()),
        (room(500, nodes="2"), (0,), False, False, set()),
    ],
    ids=[
        "below",
        "still below",
        "at the limit",
        "between the limits",
        "perhaps below",
        "perhaps below, with an alarm",
        "well above",
        "never below",
        "the group grew",
        "the group grew, and is well above",
        "the node is gone",
    ],
)
def test_an_alarm_is_raised_and_cleared_once(
    found: HeadRoom, low: tuple[int, ...], raised: bool, cleared: bool, after: set[int]
) -> None:
    verdict = judge((found,), HeadRoomLimit(percent=10), frozenset(low))
    assert verdict.raised == ((found,) if raised else ())
    assert verdict.cleared == ((found,) if cleared else ())
    assert verdict.low_nodes == after
