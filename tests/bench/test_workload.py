from nri_numamem.engine.core.context import qos_of_cgroup_parent
from nri_numamem.memorymanager import QosClass
from tests.bench.workload import ANNOTATIONS, LABELS, workload
from tests.laboratory import api_pb2 as api

GI = 1 << 30


def test_a_request_is_as_large_as_in_clusters() -> None:
    made = workload(GI)
    container = api.Container.FromString(made.container)
    assert len(container.env) == 40
    assert len(container.mounts) == 12
    assert 5500 < made.request_bytes < 6500


def test_a_pod_has_typical_labels_and_annotations() -> None:
    pod = api.PodSandbox.FromString(workload(GI).pod)
    assert LABELS.items() <= pod.labels.items()
    assert ANNOTATIONS.items() <= pod.annotations.items()


def test_the_cgroup_shows_the_qos_class() -> None:
    for guaranteed, qos in ((True, QosClass.GUARANTEED), (False, QosClass.BURSTABLE)):
        made = workload(GI, guaranteed=guaranteed)
        pod = api.PodSandbox.FromString(made.pod)
        assert qos_of_cgroup_parent(pod.linux.cgroup_parent) is qos
        container = api.Container.FromString(made.container)
        assert container.linux.resources.memory.limit.value == GI


def test_placeholders_are_as_long_as_their_replacements() -> None:
    made = workload(GI)
    pod, container = api.PodSandbox.FromString(made.pod), api.Container.FromString(made.container)
    lengths = [len(text) for text in (pod.uid, pod.name, pod.id, container.id)]
    assert lengths == [36, len("pod-00000001"), 64, 64]


def test_messages_are_deterministic() -> None:
    assert workload(GI) == workload(GI)
