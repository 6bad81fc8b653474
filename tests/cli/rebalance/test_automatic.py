"""The agent evicts pods that consent, by its rules; the plugin's part is played by an engine."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.apiserver.client import Client
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.rebalance import automatic
from nri_numamem.cli.rebalance.automatic import Rebalancer, rebalancing
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.engine.core.annotations import MOVABLE_ANNOTATION
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.features.earmarks.events import DropEarmark, MakeEarmark
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.rebalancing import Rules
from tests.cli.explain.shop import Shop
from tests.cli.live.live_host import GI
from tests.cli.test_earmark import ENABLED
from tests.kubernetes_api import KubernetesApi, status
from tests.simulated_host import wait_for

RULES = Rules(frozenset({"shop"}), evictions_per_hour=2, cooldown_s=3600.0)
CONSENT = {MOVABLE_ANNOTATION: "true"}
PLANNED = "a plan for a pod of the namespace shop began less than 60 min ago (--cooldown)"
_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


class Scene:
    """A host on which `big` was refused; it fits if `small` moves from node 1 to node 3."""

    def __init__(self, root: Path, consent: dict[str, str]) -> None:
        self.shop = Shop(root, ENABLED)
        for uid, size in (("gone", 58), ("small", 5), ("other", 54), ("large", 58), ("p3", 40)):
            self.shop.run(uid, size, consent)
        for uid in ("gone", "other"):
            self.shop.end(uid)
            shutil.rmtree(self.shop.host.directory(uid))
        self.shop.refuse("big", 90)
        self.records: list[Record] = []
        self.events: list[PodEvent] = []
        self.made: list[Earmark] = []
        self.dropped: list[str] = []
        self.api = KubernetesApi().__enter__()
        for uid in ("small", "large", "p3", "big"):
            self.describe(uid)
        self.api.evict = self.evict
        kubeconfig = self.api.write_kubeconfig(root / "kubeconfig")
        self.client = Client(partial(read_kubeconfig, kubeconfig))
        self.rebalancer = self.agent()

    def describe(self, uid: str, **spec: object) -> None:
        """Let the API server have a pod."""
        metadata = {
            "namespace": "shop",
            "name": f"{uid}-x",
            "uid": uid,
            "annotations": CONSENT,
            "labels": {"app": uid},
            "ownerReferences": [{"kind": "ReplicaSet", "uid": f"of-{uid}", "controller": True}],
        }
        self.api.pods[f"shop/{uid}-x"] = {"metadata": metadata, "spec": spec}

    def agent(self, rules: Rules = RULES) -> Rebalancer:
        """Return an agent that has just started."""
        args = self.shop.host.parsed()
        return Rebalancer(args, rules, self.client, self.records.append, self.events.append)

    def set_aside(self, _directory: Path, made: Earmark) -> str:
        self.made.append(made)
        self.shop.host.engine.apply(MakeEarmark(made))
        return ""

    def drop(self, _directory: Path, uids: list[str]) -> None:
        self.dropped += uids
        for uid in uids:
            self.shop.host.engine.apply(DropEarmark(uid))

    def evict(self, name: str) -> tuple[int, object]:
        """End a pod, start its replacement, and then let the kubelet create `big` again."""
        uid = name.removeprefix("shop/").removesuffix("-x")
        self.end(uid)
        self.shop.run(f"new-{uid}", 5)
        self.start_big()
        return 201, {"status": "Success"}

    def end(self, uid: str) -> None:
        self.shop.end(uid)
        shutil.rmtree(self.shop.host.directory(uid))
        self.shop.host.save()

    def start_big(self) -> None:
        host = self.shop.host
        host.create(host.sandbox("big", 90 * GI), "main", 90 * GI)
        host.save()

    def look(self) -> list[str]:
        """Look once; return the events that were recorded."""
        before = len(self.records)
        with self.shop.host.running():
            self.rebalancer.look()
        return [record.event for record in self.records[before:]]

    def cause(self) -> str:
        """Look once, and return why no pod is evicted."""
        assert self.look() == ["rebalancing_declined"]
        return str(fields_of(self.records[-1])["cause"])

    @property
    def evictions(self) -> list[str]:
        return [seen.path for seen in self.api.seen if seen.method == "POST"]


@pytest.fixture(name="new_scene")
def _new_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scene]]:
    with ExitStack() as stack:

        def make(consent: dict[str, str] = CONSENT) -> Scene:
            scene = Scene(tmp_path, consent)
            stack.callback(scene.api.__exit__, None, None, None)
            monkeypatch.setattr(earmark_requests, "set_aside", scene.set_aside)
            monkeypatch.setattr(earmark_requests, "end", scene.drop)
            scene.shop.host.describe()
            return scene

        yield make


@pytest.fixture
def scene(new_scene: Callable[..., Scene]) -> Scene:
    return new_scene()


def test_room_is_made_for_a_refused_pod(scene: Scene) -> None:
    assert scene.look() == ["rebalancing_began", "rebalancing_ended"]
    assert scene.evictions == ["/api/v1/namespaces/shop/pods/small-x/eviction"]
    began, ended = map(fields_of, scene.records)
    assert (began["pod"], began["nodes"], began["evictions"]) == ("big-x", "0-1", ["shop/small-x"])
    assert (ended["result"], ended["evicted"]) == ("done", ["shop/small-x"])
    assert "cause" not in ended
    made, replacement = scene.made
    assert (made.beneficiary.uid, made.uid) == ("big", began["earmark"])
    assert str(made.room.nodes) == "0-1"
    assert (replacement.beneficiary.labels, str(replacement.room.nodes)) == ({"app": "small"}, "3")
    assert replacement.room.amounts == {"memory": 5 * GI}
    assert scene.dropped == [made.uid]
    of_small, of_big = scene.events
    assert (of_small.pod_uid, of_small.type, of_big.pod_uid, of_big.type) == (
        *("small", "Normal"),
        *("big", "Normal"),
    )
    assert of_small.message == (
        "evicted to make room on nodes 0-1 for shop/big-x; it fits on node 3 of this host"
    )
    assert of_big.message == "evicted for it: shop/small-x; it runs on nodes 0-1"
    assert scene.look() == []


def test_a_pod_that_fails_again_gets_nothing_evicted(scene: Scene) -> None:
    scene.look()
    former = "big"
    scene.shop.end(former)
    for number in range(3):
        scene.rebalancer = scene.agent()  # as after a crash of the agent
        shutil.rmtree(scene.shop.host.directory(former))
        former = f"again-{number}"
        scene.shop.run(f"small-{number}", 5, CONSENT)
        scene.shop.refuse(former, 200)
        scene.describe(former)
        assert scene.cause() == PLANNED
    assert len(scene.evictions) == 1


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            lambda scene: scene.describe("small", priority=1),
            "shop/small-x is not evicted: its priority 1 is higher than 0 of shop/big-x",
        ),
        (
            lambda scene: scene.api.pods["shop/small-x"]["metadata"]["annotations"].clear(),
            f'shop/small-x is not evicted: it lacks the annotation {MOVABLE_ANNOTATION}: "true"',
        ),
        (
            lambda scene: scene.api.pods["shop/small-x"]["metadata"]["ownerReferences"].clear(),
            "shop/small-x is not evicted: it has no controller that would recreate it",
        ),
        (lambda scene: scene.api.pods.pop("shop/big-x"), "the API server does not have it"),
        (
            lambda scene: scene.api.pods["shop/big-x"]["metadata"].update(uid="another"),
            "it was recreated in the meantime",
        ),
        (
            lambda scene: scene.api.pods["shop/big-x"].update(status={"phase": "Failed"}),
            "it has ended",
        ),
    ],
)
def test_a_rule_forbids_it(scene: Scene, change: Callable[[Scene], object], cause: str) -> None:
    scene.api.pods["shop/small-x"]["metadata"]["annotations"] = dict(CONSENT)
    change(scene)
    assert scene.cause() == cause
    assert not scene.evictions
    assert not scene.made


def test_a_pod_that_must_not_be_evicted_is_left_out_of_the_next_plan(scene: Scene) -> None:
    scene.describe("small", priority=1)
    assert "its priority 1" in scene.cause()
    assert scene.look()[0] == "rebalancing_began"
    assert "shop/small-x" not in fields_of(scene.records[1])["evictions"]


def test_pods_without_consent_stay(new_scene: Callable[..., Scene]) -> None:
    scene = new_scene({})
    assert scene.cause() == "there is no plan with pods that consent"
    assert not scene.evictions


def test_other_namespaces_are_left_alone(scene: Scene) -> None:
    scene.rebalancer = scene.agent(Rules(frozenset({"ml"}), 2, 60.0))
    assert scene.look() == []
    assert not scene.api.seen


def test_the_evictions_of_an_hour_are_limited(scene: Scene) -> None:
    scene.rebalancer = scene.agent(Rules(RULES.namespaces, 0, 60.0))
    assert scene.cause() == (
        "0 of 0 evictions of an hour are used, and the plan needs 1 (--max-evictions-per-hour)"
    )


def test_a_budget_ends_the_plan(scene: Scene) -> None:
    scene.api.evict = lambda _name: (429, status(429, "TooManyRequests", _BUDGET))
    assert scene.look() == ["rebalancing_began", "rebalancing_ended"]
    ended = scene.records[-1]
    assert ended.level == "warning"
    assert fields_of(ended)["result"] == "refused"
    assert fields_of(ended)["cause"] == f"shop/small-x is not evicted: {_BUDGET}"
    assert scene.dropped == [made.uid for made in scene.made]
    assert scene.events == []
    history = EvictionHistoryFile(scene.shop.host.state_file).read()
    assert (len(history.plans), len(history.evictions)) == (1, 1)


def test_an_agent_that_stops_ends_its_plan_and_keeps_the_room(scene: Scene) -> None:
    def evict(name: str) -> tuple[int, object]:
        scene.rebalancer.is_over.set()
        return 201, name

    scene.api.evict = evict
    assert scene.look() == ["rebalancing_began", "rebalancing_ended"]
    ended = fields_of(scene.records[-1])
    assert (ended["result"], ended["cause"]) == ("stopped", "the agent stops")
    assert scene.dropped == []
    assert [event.type for event in scene.events] == ["Normal", "Warning"]
    assert scene.events[1].message.endswith("it waits: the agent stops")


def test_a_failure_is_recorded_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.rebalancer.look()  # no plugin holds the lock
    scene.rebalancer.look()
    (record,) = scene.records
    assert fields_of(record)["cause"] == (
        "the plugin does not run; nri-numamem doctor says what to do"
    )

    def fail(*_arguments: Any) -> None:  # noqa: ANN401
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(automatic, "refused_pod", fail)
    assert scene.look() == ["rebalancing_failed"]
    assert "a bug" in str(fields_of(scene.records[-1])["exception"])


def test_a_failure_in_a_plan_ends_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> str:
        raise PermissionError(13, "Permission denied", "/var/lib/x/wanted")

    monkeypatch.setattr(earmark_requests, "set_aside", fail)
    assert scene.look() == ["rebalancing_began", "rebalancing_ended", "rebalancing_failed"]
    assert fields_of(scene.records[-1])["cause"] == (
        "/var/lib/x/wanted: Permission denied; see docs/rebalancing.md"
    )
    assert not scene.evictions


def test_a_bug_in_a_plan_is_its_cause(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> str:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(earmark_requests, "set_aside", fail)
    assert scene.look() == ["rebalancing_began", "rebalancing_ended", "rebalancing_failed"]
    ended = fields_of(scene.records[1])
    assert (ended["result"], ended["cause"]) == ("refused", "a bug")


def test_a_pod_that_was_deleted_does_not_end_the_next_plan(scene: Scene) -> None:
    def delete(name: str) -> tuple[int, object]:
        del scene.api.pods["shop/big-x"]
        scene.end("small")
        return 201, name

    def end_and_start_later(name: str) -> tuple[int, object]:
        scene.end("small")
        threading.Timer(0.3, scene.start_big).start()
        return 201, name

    scene.api.evict = delete
    scene.rebalancer = scene.agent(replace(RULES, cooldown_s=0.0))
    assert scene.look() == ["rebalancing_began", "rebalancing_ended"]
    assert fields_of(scene.records[-1])["cause"] == "the refused pod was deleted"
    scene.describe("big")
    scene.shop.run("small", 5, CONSENT)
    scene.shop.host.save()
    scene.rebalancer._later_s.clear()
    scene.api.evict = end_and_start_later
    assert scene.look() == ["rebalancing_began", "rebalancing_ended"]
    assert fields_of(scene.records[-1])["result"] == "done"


def test_without_a_state_there_is_no_plan(scene: Scene) -> None:
    scene.shop.host.state_file.unlink()
    assert scene.look() == ["rebalancing_failed"]
    assert fields_of(scene.records[-1])["cause"] == ("there is no state file; restart the plugin")
    assert not scene.evictions


def test_what_cannot_be_recorded_is_not_done(scene: Scene) -> None:
    path = EvictionHistoryFile(scene.shop.host.state_file).path
    path.parent.write_text("")
    assert scene.look() == ["rebalancing_failed"]
    assert str(path) in str(fields_of(scene.records[-1])["cause"])
    assert not scene.evictions


def test_the_thread_ends_with_its_context(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(automatic, "LOOK_S", 0.01)
    args, access = scene.shop.host.parsed(), partial(read_kubeconfig, tmp_path / "kubeconfig")
    with (
        scene.shop.host.running(),
        rebalancing(args, RULES, access, scene.records.append, scene.events.append),
    ):
        wait_for(lambda: len(scene.records) == 2, "the end of the plan")
    assert "rebalancing" not in {thread.name for thread in threading.enumerate()}
