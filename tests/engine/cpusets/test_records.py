"""Records of containers whose cgroup does not have their nodes."""

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets import records as cpusets
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import State
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages

N0, N1 = NodeSet([0]), NodeSet([1])
HOLDER = Holder("c", "s", ("u", "main"))
POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
STATE = EngineState(State({}), pods={"s": POD})
WHO = {"pod": "p", "namespace": "ns", "container": "main", "pod_uid": "u", "container_id": "c"}


def test_a_repair_that_waits_is_no_warning() -> None:
    record = cpusets.missing(STATE, HOLDER, N0)
    assert record.level == "info"
    assert fields_of(record) == {**WHO, "nodes": "0", "outcome": "repair_deferred"}


def test_an_unpinned_container_has_a_cause_and_a_remedy() -> None:
    record = cpusets.missing(STATE, HOLDER, N0, "it has devices")
    assert record.level == "warning"
    assert fields_of(record)["outcome"] == "unpinned"
    assert fields_of(record)["cause"] == "it has devices"
    assert "restart the container" in str(fields_of(record)["remedy"])


def test_a_repair_has_what_the_cgroup_showed() -> None:
    record = cpusets.repaired(STATE, HOLDER, N0, N1)
    assert fields_of(record)["cgroup_cpuset_mems"] == "1"
    assert fields_of(record)["cause"] == "the update did not reach the cgroup"
    assert (
        fields_of(cpusets.repaired(STATE, HOLDER, N0, NodeSet()))["cause"] == "the cgroup has none"
    )


def test_a_conflict_has_both_values() -> None:
    record = cpusets.conflict(STATE, HOLDER, N0, N1, {"memory": 0, "hugepages-2Mi": 4})
    assert record.level == "warning"
    assert fields_of(record) == {
        **WHO,
        "previous_nodes": "0",
        "nodes": "1",
        "shortfall_bytes": {"hugepages-2Mi": 4},
    }
    unknown = EngineState(State({}))
    assert "pod" not in fields_of(cpusets.conflict(unknown, HOLDER, N0, N1, {}))


def test_pages_are_in_the_record_if_they_are_known() -> None:
    pages = Pages({0: 1, 1: 2}, {2: 3}, {0: 4}, {1: 9})
    restored = cpusets.restored(STATE, HOLDER, N0, pages)
    assert restored.level == "info"
    assert fields_of(restored) == {
        **WHO,
        "nodes": "0",
        "resident_bytes": {"0": 5, "1": 2, "2": 3},
        "remote_bytes": {"1": 2, "2": 3},
    }
    missing = cpusets.missing(STATE, HOLDER, N0, "it has devices")
    assert cpusets.with_pages(missing, N0, None) is missing
    with_pages = cpusets.with_pages(missing, N1, pages)
    assert with_pages.level == "warning"
    assert fields_of(with_pages)["remote_bytes"] == {"0": 5, "2": 3}
