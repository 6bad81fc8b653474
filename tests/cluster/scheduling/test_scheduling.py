"""The real scheduler with NodeResourceTopologyMatch and the objects of `nri-numamem export`.

No kubelet runs: a pod that has a node stays there and uses nothing. Each test first checks with
the default profile that the host as a whole has room, so that only zones can explain the result.
"""

import pytest

from tests.cluster.kubernetes.api import Api
from tests.cluster.scheduling.objects import (
    GI,
    PODS,
    bound_node,
    create_pod,
    node_of,
    unschedulable_text,
)
from tests.cluster.scheduling.worker import Worker

pytestmark = pytest.mark.timeout(1200)

NUMA_AWARE, DEFAULT = "numa-aware", "default-scheduler"


@pytest.fixture
def used(workers: list[Worker]) -> list[Worker]:
    """Return hosts with 3 + 3 GiB and 1 + 4 GiB free; the API server has their objects."""
    for worker, sizes in zip(workers, ((5, 5), (7, 4)), strict=True):
        for number, size in enumerate(sizes):
            worker.start_pod(f"{worker.name}-{number}", size)
    assert [worker.available_gib() for worker in workers] == [[3, 3], [1, 4]]
    for worker in workers:
        worker.publish()
    return workers


def place(admin: Api, name: str, memory_gib: int, scheduler: str) -> str:
    """Create a pod, wait until it has a node, and delete it; return the node."""
    create_pod(admin, name, memory_gib * GI, scheduler=scheduler)
    node = bound_node(admin, name)
    admin.delete(f"{PODS}/{name}")
    return node


def test_a_pod_lands_on_the_only_host_with_a_zone_for_it(admin: Api, used: list[Worker]) -> None:
    # worker-1 has more memory left, so the default profile prefers it.
    assert {place(admin, f"d{number}", 4, DEFAULT) for number in range(3)} == {"worker-1"}
    assert {place(admin, f"n{number}", 4, NUMA_AWARE) for number in range(6)} == {"worker-2"}


def test_a_pending_pod_gets_a_node_after_room_is_made(admin: Api, used: list[Worker]) -> None:
    assert place(admin, "d", 5, DEFAULT) == "worker-1"
    create_pod(admin, "n", 5 * GI, scheduler=NUMA_AWARE)
    text = unschedulable_text(admin, "n")
    assert text.startswith("0/2 nodes are available: 2 cannot align container"), text
    used[1].end_pod("worker-2-1")
    assert used[1].available_gib() == [1, 8]
    assert node_of(admin, "n") == ""
    used[1].publish()
    assert bound_node(admin, "n") == "worker-2"


def test_zones_with_memory_alone_make_each_pod_unschedulable(
    admin: Api, workers: list[Worker]
) -> None:
    for worker in workers:
        document = worker.export()
        for zone in document["zones"]:
            zone["resources"] = [each for each in zone["resources"] if each["name"] != "cpu"]
        admin.apply(worker.path, document, "nri-numamem")
    create_pod(admin, "n", GI, scheduler=NUMA_AWARE)
    text = unschedulable_text(admin, "n")
    assert text.startswith("0/2 nodes are available: 2 cannot align container"), text
    workers[0].publish()
    assert bound_node(admin, "n") == "worker-1"
