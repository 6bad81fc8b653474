import pytest

from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.store import RuntimeStore


@pytest.fixture
def store() -> RuntimeStore:
    """One pod with a container in each state that containerd knows."""
    made = RuntimeStore()
    pod = objects.pod("db")
    made.pods[pod.id] = pod
    for state in (api.CONTAINER_CREATED, api.CONTAINER_RUNNING, api.CONTAINER_STOPPED):
        container = objects.container(pod, f"c{state}", cpuset_mems="0")
        container.state = state
        made.add_container(container)
    return made


def _mems_update(container_id: str, mems: str) -> api.ContainerUpdate:
    update = api.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.mems = mems
    return update


def test_stopped_containers_are_not_listed(store: RuntimeStore) -> None:
    assert [container.name for container in store.alive()] == ["c1", "c3"]


def test_pod_of_a_container_and_containers_of_a_pod(store: RuntimeStore) -> None:
    (pod,) = store.pods.values()
    assert len(store.containers_of(pod.id)) == 3
    assert store.containers_of("other") == []
    assert store.pod_of(store.containers_of(pod.id)[0]) is pod


def test_updates_change_only_containers_that_have_not_ended(store: RuntimeStore) -> None:
    created, _, stopped = store.containers.values()
    assert store.apply_update(_mems_update(created.id, "1"))
    assert created.linux.resources.cpu.mems == "1"
    assert not store.apply_update(_mems_update(stopped.id, "1"))
    assert stopped.linux.resources.cpu.mems == "0"
    assert not store.apply_update(_mems_update("unknown", "1"))


def test_forget_updates_resets_mems_to_their_value_after_creation(store: RuntimeStore) -> None:
    first = next(iter(store.containers.values()))
    store.apply_update(_mems_update(first.id, "1"))
    store.forget_updates()
    assert first.linux.resources.cpu.mems == "0"


def test_dropped_containers_are_removed(store: RuntimeStore) -> None:
    first = next(iter(store.containers.values()))
    store.drop_container(first.id)
    assert first.id not in store.containers
    store.forget_updates()
