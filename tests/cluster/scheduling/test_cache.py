"""The scheduler plugin with its cache, which it corrects where the fingerprints are equal."""

from collections.abc import Iterator

import pytest

from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.cluster.kubernetes.servers import ControlPlane, Server
from tests.cluster.scheduling import documented
from tests.cluster.scheduling.objects import (
    GI,
    PODS,
    create_pod,
    is_decided,
    node_of,
    set_phase,
    unschedulable_text,
)
from tests.cluster.scheduling.worker import Worker, name_of_pod

pytestmark = pytest.mark.timeout(1200)

CACHED = "numa-cached"
# Of the scheduler's log.
_FOREIGN, _CORRECTED = "marked with foreign pods", '"flushing"'
_MISMATCH = "podset fingerprint mismatch"


def cached_configuration() -> Document:
    """Return the documented configuration with the documented cache, in a profile of its own."""
    configuration = documented.scheduler_configuration()
    profile = configuration["profiles"][-1]
    profile["schedulerName"] = CACHED
    profile["pluginConfig"][0]["args"] |= documented.cache_arguments()
    return {**configuration, "profiles": [profile]}


@pytest.fixture
def worker(workers: list[Worker]) -> Worker:
    """Return a host with 3 + 3 GiB free, the only one; it has a completed pod."""
    workers.pop().remove()
    (worker,) = workers
    for uid in ("first", "second"):
        worker.start_pod(uid, 5)
    create_pod(worker.admin, "completed", GI, node=worker.name)
    set_phase(worker.admin, "completed", "Succeeded")
    assert worker.available_gib() == [3, 3]
    worker.publish()
    return worker


@pytest.fixture
def scheduler(control_plane: ControlPlane, worker: Worker) -> Iterator[Server]:
    """Start a scheduler with a correct cache: the plugin reads all objects when it starts.

    Pods of other schedulers are on the host. So the plugin rejects all pods for it until it has
    compared the fingerprints.
    """
    server = control_plane.start_topology_scheduler(CACHED, cached_configuration())
    try:
        wait_for(lambda: is_corrected(server, foreign=2), "a comparison of equal fingerprints")
        yield server
    finally:
        server.stop()


def is_corrected(scheduler: Server, foreign: int) -> bool:
    """Return whether the cache was corrected after these pods of other schedulers were found."""
    scheduler.check()
    parts = scheduler.output().split(_FOREIGN)
    return len(parts) > foreign and _CORRECTED in parts[-1]


def place(admin: Api, name: str) -> str:
    """Create a pod of 2 GiB; return its node, or "" after deleting it if it was rejected."""
    create_pod(admin, name, 2 * GI, scheduler=CACHED)
    wait_for(lambda: is_decided(admin, name), f"a decision on {name}")
    node = node_of(admin, name)
    if not node:
        assert "Insufficient" not in unschedulable_text(admin, name)  # the host has room
        admin.delete(f"{PODS}/{name}")
    return node


def test_equal_fingerprints_correct_the_cache(
    admin: Api, worker: Worker, scheduler: Server
) -> None:
    assert place(admin, name_of_pod("third")) == worker.name
    worker.accept_pod("third", 2)
    # The object shows 3 GiB in each zone; the cache has subtracted the pod from both.
    assert place(admin, "fourth") == ""
    worker.end_pod("second")
    assert worker.available_gib() == [1, 8]
    worker.publish()
    # The API server has the second pod, which the object no longer shows.
    wait_for(
        lambda: place(admin, "fourth") or _MISMATCH in scheduler.output(),
        "a comparison of the fingerprints",
    )
    assert place(admin, "fourth") == ""
    admin.delete(f"{PODS}/{name_of_pod('second')}")
    wait_for(lambda: place(admin, "fourth"), "a correction of the cache")
