"""Evictions at a real API server: PodDisruptionBudgets, the chart's permissions, and Events.

Controllers create the replacements. The test is the kubelet, and the plugin is a process.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.cluster.kubernetes.servers import ControlPlane
from tests.cluster.scheduling.claim_cluster import NODE, agents_kubeconfig, control_plane
from tests.cluster.scheduling.objects import create_node
from tests.cluster.scheduling.played_kubelet import PODS, PlayedKubelet
from tests.simulated_host import PLUGIN

_VALUES = {"rebalance.policy": "consented", "rebalance.namespaces": ["default"]}
_SETTINGS = "earmarks: {enabled: true, maxPercent: 60}\n"
_REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_EVENTS = "/api/v1/namespaces/default/events"
_GI = 1 << 30
# Gi of 57 on each node. The first and the third one end when all have started.
_PODS = {"filler": 52, "small": 11, "neighbour": 43, "large": 52, "last": 29}
_BIG = 85


class Cluster:
    """A host on which `big` is refused; it fits on two nodes if `small` moves."""

    def __init__(self, plane: ControlPlane, kubelet: PlayedKubelet, node_uid: str) -> None:
        self.plane, self.kubelet, self.node_uid = plane, kubelet, node_uid
        self.admin: Api = plane.admin

    def fill(self, *, consents: bool) -> None:
        for name, size in _PODS.items():
            if name == "small":
                self.admin.create(_REPLICASETS, _replica_set(name, size, consents=consents))
            else:
                self._create_pod(name, size)
            wait_for(partial(self.running, name), f"start of {name}")
        for name in ("filler", "neighbour"):
            self.admin.delete(f"{PODS}/{name}")
            wait_for(partial(self._is_over, name), f"end of {name}")
        self._create_pod("big", _BIG)
        wait_for(lambda: self.kubelet.is_in_history("big"), "the refusal of big in the history")
        assert "big" in self.kubelet.refusals

    def _create_pod(self, name: str, size: int) -> None:
        self.admin.create(PODS, {"metadata": {"name": name}, "spec": _spec(size)})

    def _is_over(self, name: str) -> bool:
        return name not in self.kubelet.nodes

    def running(self, prefix: str) -> dict[str, str]:
        """Return the pods that run and whose names begin so: name -> NUMA nodes."""
        found = dict(self.kubelet.nodes)
        return {name: nodes for name, nodes in found.items() if name.startswith(prefix)}

    def protect(self, *, available: int) -> None:
        """Let a PodDisruptionBudget protect `small`."""
        labels = {"matchLabels": {"app": "small"}}
        spec = {"minAvailable": available, "selector": labels}
        self.admin.create(_BUDGETS, {"metadata": {"name": "small"}, "spec": spec})
        wait_for(
            lambda: self.admin.get(f"{_BUDGETS}/small").get("status", {}).get("currentHealthy"),
            "the status of the budget",
        )

    def events(self) -> dict[str, Document]:
        """Return pod -> Event of a plan."""
        found = self.admin.get(_EVENTS)["items"]
        plans = [each for each in found if each["reason"] == "NUMAMemoryRebalanced"]
        return {each["involvedObject"]["name"]: each for each in plans}

    @contextmanager
    def agent(self, log: Path) -> Iterator[None]:
        words = (
            *("agent", "--node-name", NODE, "--rebalance", "consented"),
            *("--rebalance-namespaces", "default", "--kubelet-root", str(log.parent)),
            *("--kubeconfig", str(agents_kubeconfig(self.plane, self.node_uid))),
        )
        with log.open("w") as file:
            process = subprocess.Popen([*PLUGIN, *words, *self.kubelet.options()], stderr=file)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(30) == 0


def _spec(size: int) -> Document:
    amounts = {"cpu": "1", "memory": str(size * _GI)}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "registry.invalid/main", "resources": resources}
    return {"containers": [container], "terminationGracePeriodSeconds": 5}


def _replica_set(name: str, size: int, *, consents: bool) -> Document:
    metadata: Document = {"labels": {"app": name}}
    if consents:
        metadata["annotations"] = {MOVABLE_ANNOTATION: "true"}
    template = {"metadata": metadata, "spec": _spec(size)}
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def _records(log: Path, event: str) -> list[Document]:
    lines = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found = [json.loads(line) for line in lines]
    return [record for record in found if record["event"] == event]


@pytest.fixture(name="cluster", params=[True, False], ids=["consented", "unconsented"])
def _cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    controllers = ("replicaset-controller", "disruption-controller")
    values = control_plane(tmp_path / "plane", values=_VALUES, controllers=controllers)
    with values as plane, PlayedKubelet(plane.admin, _SETTINGS) as kubelet:
        uid = create_node(plane.admin, NODE, 64, 512 * _GI)
        cluster = Cluster(plane, kubelet, uid)
        cluster.fill(consents=request.param)
        yield cluster


@pytest.mark.parametrize("cluster", [False], indirect=True, ids=["unconsented"])
def test_the_command_waits_for_the_budget(cluster: Cluster, tmp_path: Path) -> None:
    cluster.protect(available=1)
    (small,) = cluster.running("small")
    kubeconfig = cluster.plane.kubeconfig("operator", token=cluster.admin.token)
    words = (*PLUGIN, "rebalance", "default/big", "--apply", "--kubeconfig", str(kubeconfig))
    output = tmp_path / "rebalance.out"
    with output.open("w") as file:
        process = subprocess.Popen([*words, *cluster.kubelet.options()], stdout=file, stderr=file)
    is_waiting = "cannot be evicted yet"
    wait_for(lambda: is_waiting in output.read_text() or process.poll(), "the budget's refusal")
    assert "violate the pod's disruption budget" in output.read_text()
    assert cluster.running("small").keys() == {small}
    cluster.admin.merge(f"{_BUDGETS}/small", {"spec": {"minAvailable": 0}})
    status = process.wait(120)
    assert status == 0, output.read_text()
    assert "default/big runs on nodes 0-1" in output.read_text()
    wait_for(lambda: cluster.running("small").keys() - {small}, "the replacement")
    assert cluster.kubelet.nodes["big"] == "0-1"
    (replacement,) = cluster.running("small").values()
    assert replacement == "3"


def test_the_agent_evicts_what_consents(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log = tmp_path / "agent.log"
    (small,) = cluster.running("small")
    is_consented = request.node.callspec.params["cluster"]
    with cluster.agent(log):
        if not is_consented:
            wait_for(lambda: _records(log, "rebalancing_declined"), "the agent's record")
            (record,) = _records(log, "rebalancing_declined")
            assert record["cause"] == "there is no plan with pods that consent"
            assert cluster.running("small").keys() == {small}
            return
        wait_for(lambda: _records(log, "rebalancing_ended"), "the end of the plan")
        wait_for(lambda: len(cluster.events()) == 2, "two Events")
    (ended,) = _records(log, "rebalancing_ended")
    assert (ended["result"], ended["evicted"]) == ("done", [f"default/{small}"])
    assert cluster.kubelet.nodes["big"] == "0-1"
    assert set(cluster.running("small").values()) == {"3"}
    events = cluster.events()
    assert events["big"]["message"] == f"evicted for it: default/{small}; it runs on nodes 0-1"
    assert events[small]["message"] == (
        "evicted to make room on nodes 0-1 for default/big; it fits on node 3 of this host"
    )


@pytest.mark.parametrize("cluster", [True], indirect=True, ids=["consented"])
def test_a_budget_ends_the_agents_plan(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    cluster.protect(available=1)
    with cluster.agent(log):
        wait_for(lambda: _records(log, "rebalancing_ended"), "the end of the plan")
    (ended,) = _records(log, "rebalancing_ended")
    assert ended["result"] == "refused"
    assert "violate the pod's disruption budget" in ended["cause"]
    assert len(cluster.running("small")) == 1
    assert "big" not in cluster.kubelet.nodes
