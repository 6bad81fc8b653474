from nri_numamem.engine.core.context import qos_of_cgroup_parent
from nri_numamem.memorymanager import QosClass
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects


def test_a_creation_request_is_as_large_as_real_ones() -> None:
    pod = objects.pod("db")
    container = objects.container(pod, "server", memory_limit_bytes=1 << 30)
    assert 5_000 < api.CreateContainerRequest(pod=pod, container=container).ByteSize() < 7_000


def test_equal_names_give_equal_bytes() -> None:
    first, second = objects.pod("db"), objects.pod("db")
    assert first == second
    assert objects.container(first, "server") == objects.container(second, "server")


def test_an_attempt_changes_the_sandbox_id_and_not_the_pods_identity() -> None:
    first, second = objects.pod("db"), objects.pod("db", attempt=1)
    assert first.id != second.id
    assert first.uid == second.uid
    assert objects.container(first, "server").id != objects.container(first, "server", attempt=1).id


def test_the_cgroup_parent_contains_the_qos_class() -> None:
    for qos in (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT):
        parent = objects.pod("db", qos=qos).linux.cgroup_parent
        assert qos_of_cgroup_parent(parent) is qos
    given = objects.pod("db", uid="abc", cgroup_parent="kubepods-podabc.slice")
    assert given.linux.cgroup_parent == "kubepods-podabc.slice"
    assert given.uid == "abc"


def test_annotations_of_the_manifest_are_sent_with_those_of_the_kubelet() -> None:
    found = objects.pod("db", annotations={"memory-policy.numamem.io": "bind"}).annotations
    assert found["memory-policy.numamem.io"] == "bind"
    assert found["kubernetes.io/config.source"] == "api"


def test_resources_and_hugepages() -> None:
    pod = objects.pod("db", memory_limit_bytes=5)
    assert pod.linux.pod_resources.memory.limit.value == 5
    container = objects.container(
        pod,
        "server",
        memory_limit_bytes=5,
        hugepages={1 << 30: 4 << 30, 2 << 20: 0},
        cpuset_mems="1",
        cpuset_cpus="0-3",
        qos=QosClass.BURSTABLE,
    )
    resources = container.linux.resources
    assert [(h.page_size, h.limit) for h in resources.hugepage_limits] == [
        ("2MB", 0),
        ("1GB", 4 << 30),
    ]
    assert resources.memory.limit.value == 5
    assert (resources.cpu.mems, resources.cpu.cpus) == ("1", "0-3")
    assert container.linux.oom_score_adj.value > 0
    assert container.pod_sandbox_id == pod.id
