"""The two halves of an event: it makes no difference when the second one is done."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from nri_numamem.engine import events, records
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.plan import Adjustment, Plan, Record
from nri_numamem.engine.settings import Settings
from nri_numamem.memorymanager import NodeSet, Pool, PoolUse
from tests.engine.conftest import GI, MI, PAGE, SETTINGS, Host, NewHost, four_nodes

if TYPE_CHECKING:
    from nri_numamem.engine.state import EngineState

PAGES = "hugepages-2Mi"


class Remembering(Engine):
    """Keeps all its plans."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.context)
        self.plans: list[Plan] = []

    def handle(self, event: events.Event) -> Plan:
        plan = super().handle(event)
        self.plans.append(plan)
        return plan


class Hasty(Remembering):
    """Leaves nothing for later, and notes each state."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.states: list[EngineState] = []

    def handle(self, event: events.Event) -> Plan:
        plan = super().handle(event)
        self.states.append(self.state)
        return replace(plan, records=tuple(plan.records))


def live_on(host: Host, random: Random, step: int) -> None:
    """Let one thing happen, now and then one of the rarer ones."""
    chance = random.random()
    if chance < 0.8 or not host.pods:
        host.live_on(random, step)
        return
    pod = random.choice(list(host.pods.values()))
    memory, name = random.choice([100, 300]) * MI, random.choice(["one", "two"])
    if chance < 0.85:
        used = {n: {PAGES: Pool(p * PAGE, (16 - p) * PAGE)} for n, p in enumerate((15, 9, 16, 0))}
        host.create(pod, name, memory, container_id=f"c{step}", pool_use=PoolUse(used, {}))
    elif chance < 0.9:
        host.create(pod, name, memory, mems=random.choice(["0", "2-3", "no"]))
    elif chance < 0.97:
        mems = NodeSet([1]) if random.random() < 0.5 else NodeSet()
        lost = events.Container(f"f{step}", pod.sandbox_id, f"f{step}", memory, cgroup_mems=mems)
        host.engine.handle(events.ContainersFound(((pod, lost),)))
    elif chance < 0.98:
        changed = four_nodes().nodes[0]
        nodes = (replace(changed, memory_bytes=GI - step * MI), *four_nodes().nodes[1:])
        host.engine.handle(events.MachineChanged(replace(four_nodes(), nodes=nodes)))
    else:
        host.synchronize()


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        replace(SETTINGS, topology_manager_scope="pod"),
        replace(SETTINGS, when_unsatisfiable="RunUnpinned", topology_manager_policy="restricted"),
    ],
    ids=["container", "pod", "unpinned"],
)
@pytest.mark.parametrize("seed", range(12))
def test_lives_are_the_same_whenever_the_rest_is_done(
    new_host: NewHost, seed: int, settings: Settings
) -> None:
    new_host.groups_may_mix = True  # a cpuset.mems that was set before is taken as it is
    at_once, later = new_host(settings), new_host(settings)
    at_once.engine = hasty = Hasty(at_once.engine)
    later.engine = waiting = Remembering(later.engine)
    for host in (at_once, later):
        random = Random(seed)
        for step in range(120):
            live_on(host, random, step)
    assert waiting.state == hasty.state
    assert hasty.states[-1] == hasty.state
    # Of the one that waited nobody has read a record before.
    assert [tuple(plan.records) for plan in waiting.plans] == [
        tuple(plan.records) for plan in hasty.plans
    ]
    assert waiting.plans == hasty.plans


REPLIES_WITHOUT: list[Callable[[Host, events.PodSandbox], Plan]] = [
    lambda host, pod: host.create(pod),
    lambda host, _pod: host.stop(host.newest("old")),
    lambda host, _pod: host.remove(host.newest("old")),
    lambda host, pod: host.stop_pod(pod),
    lambda host, pod: host.remove_pod(pod),
]


@pytest.mark.parametrize("happens", REPLIES_WITHOUT)
def test_what_the_reply_does_not_need_waits_for_somebody_who_looks(
    host: Host, happens: Callable[[Host, events.PodSandbox], Plan]
) -> None:
    pod = host.run("a")
    host.create(pod, "old")
    before = host.engine.state
    happens(host, pod)
    assert host.engine.settled_state is before
    after = host.engine.state
    assert after != before
    assert host.engine.settled_state is after


def test_an_answer_that_was_never_given_leaves_nothing_behind(host: Host) -> None:
    pod = host.run("a")
    before = host.engine.state
    plan = host.create(pod)
    host.engine.restore(before)
    assert host.engine.state is before
    assert [record.event for record in plan.records] == ["admitted"]  # only what would have been
    assert host.engine.state is before


def test_a_bug_after_the_answer_is_met_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_about: object) -> Record:
        raise RuntimeError("what a bug")

    pod = host.run("a")
    before = host.engine.state
    with monkeypatch.context() as bug:
        bug.setattr(records, "admitted", fail)
        plan = host.create(pod)
        assert plan.adjustment == Adjustment("0")
        with pytest.raises(RuntimeError, match="what a bug"):
            host.engine.settle()
    assert host.engine.state is before
    assert plan.records == ()
    host.engine.settle()
    assert host.create(pod, "other").adjustment == Adjustment("0")
    assert host.placed() == {"a": {"other": "0"}}
