"""Records of placement strategies."""

from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.features.placement_strategy.records import ignored
from nri_numamem.engine.records.plain import fields_of


def test_an_annotation_that_does_not_count() -> None:
    pod = PodSandbox("s", "u", "shop", "web", "/kubepods/podu")
    record = ignored(pod, "x", "because", is_off=False)
    assert (record.level, ignored(pod, "x", "", is_off=True).level) == ("warning", "debug")
    assert fields_of(record) == {
        "pod": "web",
        "namespace": "shop",
        "pod_uid": "u",
        "strategy": "x",
        "cause": "because",
    }
