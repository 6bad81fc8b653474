"""Records of decisions on pods, as the engine makes them."""

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox, RunPodSandbox, StopPodSandbox, Synchronize
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.pods.records import adopted, released
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import default_state
from nri_numamem.numa import Machine, NodeSet, NumaNode

GI = 1 << 30
MACHINE = Machine(tuple(NumaNode(n, 4 * GI) for n in (0, 1)))
# Of the 100 MiB that are reserved by default, each node has a half.
FREE = 4 * GI - (50 << 20)


def pod(memory_bytes: int) -> PodSandbox:
    return PodSandbox("s", "uid", "ns", "db", "/kubepods/poduid", memory_limit_bytes=memory_bytes)


@pytest.fixture
def engine() -> Engine:
    return Engine(Context.of(MACHINE, Policy(topology_manager_scope="pod")))


def run(engine: Engine, memory_bytes: int) -> Record:
    (record,) = engine.apply(RunPodSandbox(pod(memory_bytes))).records
    return record


def test_an_admission_names_the_candidates(engine: Engine) -> None:
    record = run(engine, 2 * GI)
    assert record.event == "pod_admitted"
    assert fields_of(record)["candidates"] == [
        {"nodes": "0", "rule": "chosen", "reason": "chosen"},
        {"nodes": "1", "rule": "ranks_lower", "reason": "fits, but the chosen nodes rank higher"},
    ]
    assert fields_of(record)["merged_hint"] == {"affinity": "0", "preferred": True}


def test_a_rejection_names_the_candidates(engine: Engine) -> None:
    record = run(engine, 9 * GI)
    assert (record.event, record.level) == ("pod_rejected", "warning")
    assert fields_of(record)["candidates"] == [
        {"nodes": n, "rule": "too_small", "reason": f"{short} short, even if empty"}
        for n, short in (("0", "5.05Gi"), ("1", "5.05Gi"))
    ]


def test_a_release_names_the_containers(engine: Engine) -> None:
    present = fields_of(run(engine, 2 * GI))["free_bytes"]
    assert present == {"0": {"memory": FREE - 2 * GI}, "1": {"memory": FREE}}
    (record,) = engine.apply(StopPodSandbox(pod(2 * GI))).records
    assert (record.event, fields_of(record)["containers"]) == ("pod_released", [])
    assert fields_of(record)["free_bytes"] == {"0": {"memory": FREE}}


@pytest.mark.parametrize("count", [50, 51, 3000])
def test_a_release_names_some_of_many_containers(count: int) -> None:
    holders = [Holder(f"c{n}", "s", ("uid", f"init-{n}")) for n in range(count)]
    state = EngineState(default_state(MACHINE, {}))
    record = released(state, state, pod(GI), holders)
    assert fields_of(record)["containers"] == [f"init-{n}" for n in range(50)]
    assert fields_of(record).get("container_count") == (count if count > 50 else None)


def test_an_adoption_names_the_shortfall() -> None:
    state = EngineState(default_state(MACHINE, {}))
    record = adopted(state, pod(GI), {"memory": GI}, NodeSet([0]), {"memory": 5})
    assert record.level == "warning"
    assert fields_of(record)["shortfall_bytes"] == {"memory": 5}


def test_a_list_without_pods(engine: Engine) -> None:
    (record,) = engine.apply(Synchronize((), ())).records
    assert fields_of(record)["pod_count"] == 0
