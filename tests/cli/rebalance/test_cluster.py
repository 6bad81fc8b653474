"""Requests about pods to an API server, and what its failures mean."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.apiserver.client import Client
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.rebalance.carry_out import Victim
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.export.evictions import Evicted, Outcome
from tests.export.test_evictions import pod
from tests.kubernetes_api import KubernetesApi, status

VICTIM = Victim("u1", "shop", "redis-0", 1, 3)


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as found:
        found.pods["shop/redis-0"] = pod()
        yield found


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def cluster(api: KubernetesApi, tmp_path: Path, time: Time) -> Cluster:
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    return Cluster(Client(partial(read_kubeconfig, path), 5.0), lambda: time.now_s)


def test_a_pod_is_evicted_by_its_uid(api: KubernetesApi, cluster: Cluster) -> None:
    assert cluster.obstacle(VICTIM) == ""
    assert cluster.evict(VICTIM) == Evicted(Outcome.DONE)
    assert api.seen[-1].path == "/api/v1/namespaces/shop/pods/redis-0/eviction"
    api.pods["shop/redis-0"] = pod(uid="u2")
    assert cluster.evict(VICTIM) == Evicted(Outcome.GONE)
    del api.pods["shop/redis-0"]
    assert cluster.evict(VICTIM).outcome is Outcome.GONE


def test_a_budget_is_a_reason_to_wait(api: KubernetesApi, cluster: Cluster) -> None:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    api.evict = lambda _name: (429, status(429, "TooManyRequests", text))
    assert cluster.evict(VICTIM) == Evicted(Outcome.WAIT, text)


def test_an_obstacle_names_the_reason(api: KubernetesApi, cluster: Cluster) -> None:
    api.pods["shop/redis-0"] = pod(ownerReferences=[])
    assert cluster.obstacle(VICTIM).startswith("it has no controller")
    api.forbidden.add("GET")
    assert cluster.obstacle(VICTIM) == (
        'the API server does not show it: User "x" cannot get resource in API group ""'
    )
    api.forbidden.clear()
    api.pods.clear()
    assert cluster.obstacle(VICTIM) == "the API server does not have it"
    api.stop()
    assert "Connection refused" in cluster.obstacle(VICTIM)
    assert cluster.evict(VICTIM).outcome is Outcome.UNANSWERED
    assert "Connection refused" in cluster.evict(VICTIM).cause


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({"terminationGracePeriodSeconds": 90}, 90.0), ({}, 30.0), ("x", 30.0)],
)
def test_the_grace_period_is_that_of_the_pod(
    api: KubernetesApi, cluster: Cluster, spec: object, expected: float
) -> None:
    assert cluster.grace_s(VICTIM) == 30.0
    api.pods["shop/redis-0"] = {**pod(), "spec": spec}
    cluster.obstacle(VICTIM)
    assert cluster.grace_s(VICTIM) == expected


def test_a_pod_exists_until_the_server_says_otherwise(
    api: KubernetesApi, cluster: Cluster, time: Time
) -> None:
    assert cluster.exists("shop", "redis-0", "u1")
    requests = len(api.seen)
    assert cluster.exists("shop", "redis-0", "u1")
    assert len(api.seen) == requests
    time.now_s += 10.0
    api.stop()
    assert cluster.exists("shop", "redis-0", "u1")
    api.start()
    api.pods["shop/redis-0"] = pod(uid="u2")
    time.now_s += 10.0
    assert not cluster.exists("shop", "redis-0", "u1")


def test_a_deleted_pod_does_not_exist(api: KubernetesApi, cluster: Cluster) -> None:
    api.pods.clear()
    assert not cluster.exists("shop", "redis-0", "u1")


def test_a_pod_that_was_read_is_known(api: KubernetesApi, cluster: Cluster) -> None:
    assert cluster.read("shop", "redis-0", "u1") == ""
    assert cluster.pod("u1").uid == "u1"
    api.pods["shop/redis-0"] = pod(uid="u2")
    assert cluster.read("shop", "redis-0", "u1") == ""
    assert cluster.pod("u1").uid == "u2"
