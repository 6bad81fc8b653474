"""The host as a plan uses it: earmarks for the pod and for replacements, evictions, cgroups."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.apiserver.client import Client
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.earmark import Target
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.rebalance.carry_out import MARGIN_S, Victim, replacement_uid
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import RefusedPod
from nri_numamem.cli.rebalance.host import Host, victims_of
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.export.evictions import Evicted, Outcome
from nri_numamem.memorymanager.rebalance import Move, Rebalancing, Share
from nri_numamem.numa import NodeSet
from tests.export.test_evictions import pod
from tests.kubernetes_api import KubernetesApi

FIRST = Victim("u1", "shop", "redis-0", 1, 3, 500)
SECOND = Victim("u2", "shop", "api-0", 0, 2, 700)
TARGET = Target(Beneficiary("ml", "u", "big"), NodeSet([0, 1]), {"memory": 900})


@pytest.fixture
def api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as found:
        found.pods["shop/redis-0"] = pod(labels={"app": "redis"})
        found.pods["shop/api-0"] = pod(uid="u2", labels={"app": "api"})
        yield found


class Answers:
    """The plugin's answers to earmarks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = ""
        self.made: list[Earmark] = []
        self.ended: list[str] = []
        monkeypatch.setattr(earmark_requests, "set_aside", self.set_aside)
        monkeypatch.setattr(earmark_requests, "end", lambda _path, uids: self.ended.extend(uids))

    def set_aside(self, _directory: Path, made: Earmark) -> str:
        self.made.append(made)
        return "no room" if made.uid == self.refused else ""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


def host_of(root: Path, cluster: Cluster | None, said: list[str]) -> Host:
    followed = RefusedPod(root / "state", TARGET, cluster)
    (root / "cgroup").mkdir()
    (root / "cgroup" / "cgroup.controllers").write_text("memory\n")
    victims = (FIRST, SECOND)
    return Host(root / "cgroup", root, TARGET, "e", cluster, followed, 600.0, victims, said.append)


@pytest.fixture
def host(api: KubernetesApi, tmp_path: Path) -> Host:
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    return host_of(tmp_path, Cluster(Client(partial(read_kubeconfig, path))), [])


def test_replacements_have_room_by_their_labels(host: Host, answers: Answers) -> None:
    assert [host.obstacle(FIRST), host.obstacle(SECOND)] == ["", ""]
    assert host.set_aside() == ""
    own, first, second = answers.made
    assert (own.uid, own.beneficiary, own.room.amounts) == (
        "e",
        TARGET.beneficiary,
        {"memory": 900},
    )
    assert (first.beneficiary.labels, str(first.room.nodes)) == ({"app": "redis"}, "3")
    assert (second.beneficiary.labels, second.room.amounts) == ({"app": "api"}, {"memory": 700})
    assert own.expires_s == first.expires_s > 600 + MARGIN_S
    uids = ["e", replacement_uid("e", FIRST), replacement_uid("e", SECOND)]
    assert host.earmarks == uids
    assert host.set_aside() == ""  # renewed
    assert host.earmarks == uids
    assert host.evict(FIRST) == Evicted(Outcome.DONE)
    host.drop()
    assert answers.ended == ["e", replacement_uid("e", SECOND)]
    assert host.earmarks == [replacement_uid("e", FIRST)]


def test_only_a_refusal_for_the_refused_pod_counts(host: Host, answers: Answers) -> None:
    host.obstacle(FIRST)
    answers.refused = replacement_uid("e", FIRST)
    assert host.set_aside() == ""
    assert host.earmarks == ["e"]
    answers.made.clear()
    answers.refused = "e"
    assert host.set_aside() == "no room"
    assert [each.uid for each in answers.made] == ["e"]


def test_by_hand_the_command_is_printed(tmp_path: Path, answers: Answers) -> None:
    said: list[str] = []
    host = host_of(tmp_path, None, said)
    assert host.obstacle(FIRST) == ""
    assert host.grace_s(FIRST) == 0.0
    assert host.set_aside() == ""
    assert [each.uid for each in answers.made] == ["e"]
    assert host.evict(FIRST) == Evicted(Outcome.DONE)
    assert said == ["now run: kubectl delete pod --namespace shop redis-0"]
    assert host.waits()
    assert not host.runs()
    host.drop()
    assert answers.ended == ["e"]


def test_a_pod_is_gone_without_its_cgroup(host: Host) -> None:
    directory = host.cgroup_root / "kubepods" / "podu1"
    directory.mkdir(parents=True)
    assert not host.is_gone(FIRST)
    directory.rmdir()
    assert host.is_gone(FIRST)
    assert host.grace_s(FIRST) == 30.0


def test_time_passes(host: Host) -> None:
    begin_s = host.now_s()
    host.sleep(0.01)
    assert host.now_s() > begin_s


def test_the_pods_of_a_plan_have_names() -> None:
    move = Move(Share("u1", 1, ("main",)), 3, 500)
    plan = Rebalancing((move,), NodeSet([0, 1]))
    named = Target(TARGET.beneficiary, TARGET.nodes, {}, plan, {"u1": ("shop", "redis-0")})
    assert victims_of(plan, named) == [FIRST]
    with pytest.raises(UsageError, match="the name of the pod u1 is unknown"):
        victims_of(plan, TARGET)
