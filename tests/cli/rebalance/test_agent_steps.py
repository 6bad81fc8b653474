"""The steps of a plan of the agent: rules, the eviction history, Events, and the end."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from nri_numamem.apiserver.client import Client
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.earmark import Target
from nri_numamem.cli.rebalance.agent_steps import AgentSteps, StoppedError
from nri_numamem.cli.rebalance.carry_out import Victim
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import RefusedPod
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.export.evictions import ClusterPod, Evicted, Outcome
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.rebalancing import Rules
from nri_numamem.numa import NodeSet
from tests.export.test_evictions import pod
from tests.kubernetes_api import KubernetesApi, status

VICTIM = Victim("u1", "shop", "redis-0", 1, 3, 500)
TARGET = Target(Beneficiary("ml", "u", "big"), NodeSet([0, 1]), {"memory": 900})
REFUSED = ClusterPod("ml", "big", "u", "c", 5, is_consented=False)
RULES = Rules(frozenset({"ml", "shop"}), 4, 600.0)


class Scene:
    """The steps of a plan at an API server."""

    def __init__(self, api: KubernetesApi, root: Path) -> None:
        self.api = api
        self.posted: list[PodEvent] = []
        self.history = EvictionHistoryFile(root / "nri_numamem_state")
        kubeconfig = api.write_kubeconfig(root / "kubeconfig")
        cluster = Cluster(Client(partial(read_kubeconfig, kubeconfig)))
        self.steps = AgentSteps(
            root,
            root,
            TARGET,
            "e",
            cluster,
            RefusedPod(root / "state", TARGET, cluster),
            600.0,
            (VICTIM,),
            rules=RULES,
            history=self.history,
            refused=REFUSED,
            is_over=Event(),
            post=self.posted.append,
        )

    def describe(self, **metadata: object) -> None:
        names = {"namespace": "shop", "name": "redis-0"}
        consent = {"annotations": {MOVABLE_ANNOTATION: "true"}}
        self.api.pods["shop/redis-0"] = pod(**{**names, **consent, **metadata})


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with KubernetesApi() as api:
        found = Scene(api, tmp_path)
        found.describe()
        yield found


def test_an_eviction_is_in_the_history_before_it_is_requested(scene: Scene) -> None:
    known: list[list[str]] = []

    def evict(_name: str) -> tuple[int, object]:
        known.append([each.uid for each in scene.history.read().evictions])
        return 201, {"status": "Success"}

    scene.api.evict = evict
    assert scene.steps.obstacle(VICTIM) == ""
    assert scene.steps.evict(VICTIM) == Evicted(Outcome.DONE)
    assert known == [["u1"]]
    (event,) = scene.posted
    assert (event.namespace, event.pod, event.pod_uid, event.type) == (
        *("shop", "redis-0", "u1"),
        "Normal",
    )
    assert event.message == (
        "evicted to make room on nodes 0-1 for ml/big; it fits on node 3 of this host"
    )


def test_a_budget_is_final_and_no_answer_is_not(scene: Scene) -> None:
    scene.steps.obstacle(VICTIM)
    scene.api.evict = lambda _name: (429, status(429, "TooManyRequests", "not now"))
    assert scene.steps.evict(VICTIM) == Evicted(Outcome.FAILED, "not now")
    scene.api.evict = lambda _name: (503, status(503, "ServiceUnavailable", "busy"))
    assert scene.steps.evict(VICTIM) == Evicted(Outcome.UNANSWERED, "busy")
    assert scene.posted == []
    assert len(scene.history.read().evictions) == 1


def test_the_rules_come_after_the_reasons_of_the_command(scene: Scene) -> None:
    scene.describe(annotations={})
    assert scene.steps.obstacle(VICTIM) == f'it lacks the annotation {MOVABLE_ANNOTATION}: "true"'
    scene.describe(annotations={}, ownerReferences=[])
    assert scene.steps.obstacle(VICTIM).startswith("it has no controller")
    scene.describe()
    scene.history.write(scene.history.read().begun(0.0, replace(REFUSED, uid="u1")))
    assert scene.steps.obstacle(VICTIM).startswith("other pods were evicted for it")


def test_a_stop_ends_a_wait(scene: Scene) -> None:
    scene.steps.sleep(0.01)
    scene.steps.is_over.set()
    with pytest.raises(StoppedError):
        scene.steps.sleep(60.0)
