"""A holder in the accounting that is neither a container nor a pod, between pods that come and go.

It stands for what later features add: memory set aside under a name of its own, without a pod.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.dump import state_record
from nri_numamem.engine.queries.invariants import check_placements, check_sums
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import adopt, remove_container
from nri_numamem.numa import NodeSet
from tests.engine.conftest import MI
from tests.sequences.on_engine import life_on

if TYPE_CHECKING:
    from nri_numamem.memorymanager.holder import HolderKind
    from tests.engine.conftest import Host


class OtherKind(Enum):
    """A kind that the product does not have."""

    EARMARK = "earmark"


EARMARK = cast("HolderKind", OtherKind.EARMARK)


def set_aside(host: Host, node_id: int, size_bytes: int) -> None:
    """Charge memory of a node to a holder without a pod."""
    state = host.engine.state
    adopted = adopt(state.accounting, "db", EARMARK, NodeSet([node_id]), {"memory": size_bytes})
    assert not adopted.shortfall
    state = state.with_accounting(adopted.state)
    host.engine = Engine.with_state(host.engine.context, state)


def release(host: Host) -> None:
    state = host.engine.state
    state = state.with_accounting(remove_container(state.accounting, "db", EARMARK))
    host.engine = Engine.with_state(host.engine.context, state)


def test_containers_get_what_it_leaves(host: Host) -> None:
    free = host.free()
    set_aside(host, 0, free[0])
    host.create(host.run("a"), memory=200 * MI)
    assert host.placed() == {"db": {"": "0"}, "a": {"main": "1"}}
    release(host)
    host.create(host.run("b"), memory=200 * MI)
    assert host.placed() == {"a": {"main": "1"}, "b": {"main": "0"}}


def test_a_refusal_and_the_state_show_it(host: Host) -> None:
    for node_id, free in enumerate(host.free()[:1]):
        set_aside(host, node_id, free)
    (record,) = host.create(host.run("a"), memory=1 << 40).records
    (holder,) = fields_of(record)["holders"]
    assert (holder["pod_uid"], holder["container"], holder["nodes"]) == ("db", "", "0")
    entries = fields_of(state_record(host.engine.state))["entries"]
    assert list(entries) == ["db"]


@pytest.mark.parametrize("seed", range(10))
def test_the_events_of_pods_do_not_change_it(host: Host, seed: int) -> None:
    random, size_bytes = Random(seed), 100 * MI
    set_aside(host, random.randrange(4), size_bytes)
    before = host.engine.state
    held = before.accounting.assignments["db"]
    life = life_on(host, seed)
    for _ in range(60):
        life.step()
        after = host.engine.state
        if "db" not in after.accounting.assignments:
            return  # a Synchronize: its feature must add it again
        assert after.accounting.assignments["db"] == held
        assert check_sums(after) == check_placements(before, after) == ()
        before = after
