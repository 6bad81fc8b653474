"""Records of changed memory limits, as the engine makes them."""

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    UpdateContainer,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import CpuSet, Machine, NumaNode

GI = 1 << 30
MACHINE = Machine(tuple(NumaNode(n, 4 * GI) for n in (0, 1)))
POD = PodSandbox("s", "uid", "ns", "db", "/kubepods/poduid")
CONTAINER = Container("id", "s", "main", GI)


def resize(new_bytes: int, policy: Policy) -> tuple[Record, str | None]:
    engine = Engine(Context.of(MACHINE, policy))
    engine.apply(RunPodSandbox(POD))
    engine.apply(CreateContainer(POD, CONTAINER))
    applied = engine.apply(UpdateContainer(POD, CONTAINER, new_bytes))
    (record,) = applied.records
    return record, applied.plan.refusal


def test_a_limit_that_fits() -> None:
    record, _ = resize(2 * GI, Policy())
    assert (record.event, record.level) == ("resized", "info")
    assert fields_of(record)["previous_memory_bytes"] == GI
    assert fields_of(record)["candidates"] == [{"nodes": "0", "rule": "chosen", "reason": "chosen"}]
    assert "adjustment" not in fields_of(record)


def test_a_limit_that_needs_more_nodes() -> None:
    record, _ = resize(6 * GI, Policy())
    assert (fields_of(record)["previous_nodes"], fields_of(record)["nodes"]) == ("0", "0-1")
    assert fields_of(record)["candidates"] == [
        {"nodes": "0", "rule": "not_enough_free", "reason": "not enough free"},
        {"nodes": "0-1", "rule": "chosen", "reason": "chosen"},
    ]
    assert fields_of(record)["adjustment"] == {"cpuset_mems": "0-1"}


@pytest.mark.parametrize("when_unsatisfiable", ["Reject", "RunUnpinned"])
def test_a_limit_that_fits_nowhere(when_unsatisfiable: str) -> None:
    record, refusal = resize(9 * GI, Policy(when_unsatisfiable=when_unsatisfiable))
    assert record.level == "warning"
    assert fields_of(record)["shortfall_bytes"]
    if when_unsatisfiable == "Reject":
        assert record.event == "resize_rejected"
        assert refusal is not None
        assert refusal.startswith("numamem: container main of pod ns/db cannot be resized to ")
        reason = {"rule": "not_enough_free", "reason": "5.05Gi short"}
        assert {"nodes": "0", **reason} in list_of(record)
    else:
        assert (record.event, refusal) == ("resized", None)


def list_of(record: Record) -> list[object]:
    listed = fields_of(record)["candidates"]
    assert isinstance(listed, list)
    return [*listed]


def test_the_text_of_a_resize_is_short_on_64_nodes() -> None:
    nodes = tuple(NumaNode(n, (4 * GI) + n, cpus=CpuSet([n])) for n in range(64))
    engine = Engine(Context.of(Machine(nodes), Policy()))
    pod = PodSandbox("s", "uid", "n" * 63, "p" * 253, "/kubepods/poduid")
    container = Container("id", "s", "c" * 63, 250 * GI)
    engine.apply(CreateContainer(pod, container))
    text = engine.apply(UpdateContainer(pod, container, 900 * GI)).plan.refusal
    assert text is not None
    assert len(text) <= 880
    assert "(at most 1.9Gi free on one node)" in text
    assert "; remedy: request at most " in text
