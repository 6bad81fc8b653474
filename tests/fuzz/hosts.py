"""Small machines, their engines, and the invariants of an engine after every event."""

import json

from nri_numamem.config.table import (
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
    UNSATISFIABLE_ACTIONS,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation, check_accounting
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.log.render import render_console, render_json
from tests.fuzz.choices import Choices

MI = 1 << 20
PAGE_SIZES = (2 * MI, 1024 * MI)
NODE_BYTES = 2048 * MI


def small_machine(nodes: int) -> Machine:
    """Return up to four nodes of 2 GiB, with 16 pages of 2Mi and one of 1Gi on the even ones."""
    return Machine(
        tuple(
            NumaNode(
                node_id=node,
                memory_bytes=NODE_BYTES,
                hugepages={PAGE_SIZES[0]: 16, PAGE_SIZES[1]: 1 - node % 2},
                cpus=CpuSet(range(4 * node, 4 * node + 4)),
                distances={to: 10 + 6 * (to ^ node) for to in range(nodes)},
            )
            for node in range(nodes)
        )
    )


def draw_engine(choices: Choices) -> Engine:
    """Return an engine; the machine and each setting consume one byte."""
    machine = small_machine(4 - choices.below(4))
    settings = Policy(
        topology_manager_policy=choices.pick(TOPOLOGY_MANAGER_POLICIES),
        topology_manager_scope=choices.pick(TOPOLOGY_MANAGER_SCOPES),
        when_unsatisfiable=choices.pick(UNSATISFIABLE_ACTIONS),
        prefer_closest_numa_nodes=not choices.flag(),
        reserved_memory=tuple(
            Reservation(node.node_id, {"memory": 64 * MI}) for node in machine.nodes
        ),
    )
    return Engine(new_context(machine, settings))


def check_engine(engine: Engine) -> None:
    """Check that the accounting is consistent and the three indexes of the state agree."""
    state = engine.state
    assert check_accounting(state.accounting) == ()
    assert {holder.container_id for holder in state.holders.values()} >= set(state.keys)
    assert all(state.holders[key].container_id == one for one, key in state.keys.items())
    assert all(holder.key == key for key, holder in state.holders.items())
    assigned = {(uid, name) for uid, held in state.accounting.assignments.items() for name in held}
    assert assigned == set(state.holders)


def check_records(records: list[Record]) -> None:
    """Check that each record can be logged, as one line and as JSON, and none reports a bug."""
    for record in records:
        assert not record.event.startswith("internal_error"), fields_of(record)["exception"]
        head = {"ts": "2026-01-31T12:00:00.000Z", "level": record.level, "event": record.event}
        whole = {**head, **fields_of(record)}
        line = render_json(whole)
        assert json.loads(line)["event"] == record.event
        assert "\n" not in line
        assert len(render_console(whole).splitlines()) == 1
