"""The names in records."""

from nri_numamem.engine.records.common import ContainerNames, PodNames, names_of
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
