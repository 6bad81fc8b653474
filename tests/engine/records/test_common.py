"""The names in records."""

from nri_numamem.engine.records.common import ContainerNames, Decided, PodNames, names_of
from nri_numamem.engine.records.files import LogReopened
from tests.engine.records.examples import example


def test_the_names_in_a_record() -> None:
    assert names_of(LogReopened()) is None
    pod = names_of(example("pod_released", {"pod_uid": "u"}))
    assert isinstance(pod, PodNames)
    assert pod.pod_uid == "u"
    inner = names_of(example("pinned_while_running", {"container_id": "c"}))
    assert isinstance(inner, ContainerNames)
    assert inner.container_id == "c"


def test_what_a_decision_considered() -> None:
    candidates = [{"nodes": "1", "rule": "chosen", "reason": "chosen"}]
    record = example("admitted", {"candidates": candidates, "free_bytes": {"1": {"memory": 5}}})
    assert isinstance(record, Decided)
    assert [one.rule for one in record.candidates] == ["chosen"]
    assert record.free_bytes == {1: {"memory": 5}}
