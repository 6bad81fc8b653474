from nri_numamem.engine.qos import QosClass, qos_of_cgroup_parent
from nri_numamem.nri import api_pb2 as api
from tests.bench.workload import ANNOTATIONS, LABELS, workload

GI = 1 << 30


def test_a_request_is_as_large_as_real_ones() -> None:
    made = workload(GI)
    container = api.Container.FromString(made.container)
    assert len(container.env) == 40
    assert len(container.mounts) == 12
    assert 5500 < made.request_bytes < 6500


def test_a_pod_carries_what_clusters_add() -> None:
    pod = api.PodSandbox.FromString(workload(GI).pod)
    assert LABELS.items() <= pod.labels.items()
    assert ANNOTATIONS.items() <= pod.annotations.items()


def test_only_guaranteed_ones_are_to_be_placed() -> None:
    for guaranteed, qos in ((True, QosClass.GUARANTEED), (False, QosClass.BURSTABLE)):
        made = workload(GI, guaranteed=guaranteed)
        pod = api.PodSandbox.FromString(made.pod)
        assert qos_of_cgroup_parent(pod.linux.cgroup_parent) is qos
        container = api.Container.FromString(made.container)
        assert container.linux.resources.memory.limit.value == GI


def test_the_placeholders_have_the_length_of_what_replaces_them() -> None:
    made = workload(GI)
    pod, container = api.PodSandbox.FromString(made.pod), api.Container.FromString(made.container)
    lengths = [len(text) for text in (pod.uid, pod.name, pod.id, container.id)]
    assert lengths == [36, len("pod-00000001"), 64, 64]


def test_the_same_bytes_are_made_each_time() -> None:
    assert workload(GI) == workload(GI)
