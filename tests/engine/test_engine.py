"""Decide, commit, discard: what each of them changes."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from nri_numamem.engine.admission import records
from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment, Plan
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Applied, Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import Machine, NodeSet
from tests.engine.conftest import GI, MI, PAGE, SETTINGS, Answer, Host, NewHost, four_nodes
from tests.sequences.on_engine import EngineDriver, life_on

PAGES = "hugepages-2Mi"


class Discarding(Engine):
    """Decides everything twice, and discards the first decision."""

    discarded = 0

    def decide(self, event: events.Event) -> Plan:
        first = super().decide(event)
        self.discard()
        self.discarded += 1
        second = super().decide(event)
        assert first == second
        return second


def live_on(life: EngineDriver, random: Random, step: int) -> None:
    """Let one thing happen, now and then one of the rarer ones."""
    chance, host = random.random(), life.host
    if chance < 0.8 or not host.pods:
        life.step()
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
        host.handle(events.ContainersFound(((pod, lost),)))
    elif chance < 0.98:
        changed = four_nodes().nodes[0]
        nodes = (replace(changed, memory_bytes=GI - step * MI), *four_nodes().nodes[1:])
        host.handle(events.MachineChanged(replace(four_nodes(), nodes=nodes)))
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
def test_discarded_decisions_have_no_effect(new_host: NewHost, seed: int, settings: Policy) -> None:
    new_host.groups_may_mix = True  # a cpuset.mems that was set before is taken as it is
    plain, hesitant = new_host(settings), new_host(settings)
    hesitant.engine = discarding = Discarding(hesitant.engine.context)
    answers: list[list[Answer]] = []
    for host in (plain, hesitant):
        random, life = Random(seed), life_on(host, seed)
        host.answers = []
        for step in range(120):
            live_on(life, random, step)
        answers.append(host.answers)
    assert answers[0] == answers[1]
    assert plain.engine.state == hesitant.engine.state
    assert discarding.discarded == len(answers[0])


def machine_with_more_memory() -> Machine:
    nodes = four_nodes().nodes
    return Machine((replace(nodes[0], memory_bytes=2 * GI), *nodes[1:]))


EVENTS: list[Callable[[events.PodSandbox, events.Container], events.Event]] = [
    lambda pod, old: events.CreateContainer(pod, replace(old, container_id="new", name="new")),
    lambda pod, old: events.UpdateContainer(pod, old, 300 * MI),
    events.StopContainer,
    events.RemoveContainer,
    lambda pod, _old: events.StopPodSandbox(pod),
    lambda pod, _old: events.RemovePodSandbox(pod),
    lambda pod, _old: events.PodCgroupGone(pod),
    lambda pod, _old: events.RunPodSandbox(replace(pod, sandbox_id="other")),
    lambda pod, old: events.ContainersFound(((pod, replace(old, container_id="lost")),)),
    lambda pod, _old: events.Synchronize((pod,), ()),
    lambda _pod, _old: events.MachineChanged(machine_with_more_memory()),
]


@pytest.mark.parametrize("event_of", EVENTS)
def test_a_decision_is_visible_only_after_its_commit(
    host: Host, event_of: Callable[[events.PodSandbox, events.Container], events.Event]
) -> None:
    pod = host.run("a")
    host.create(pod, "old")
    engine = host.engine
    before, context = engine.state, engine.context
    event = event_of(pod, host.newest("old"))
    first = engine.decide(event)
    assert (engine.state, engine.context) == (before, context)
    uncommitted = [engine.uncommitted]
    engine.discard()
    assert [*uncommitted, engine.uncommitted] == [(event, first), None]
    assert engine.commit() == ()
    assert engine.state is before
    assert engine.decide(event) == first
    engine.commit()
    assert (engine.state, engine.context) != (before, context)


def test_a_commit_replaces_context_and_state_at_once(host: Host) -> None:
    host.create(host.run("a"))
    before = host.engine.committed
    host.handle(events.MachineChanged(machine_with_more_memory()))
    after = host.engine.committed
    # Who read both before still has a machine and an accounting that belong together.
    for read, memory in ((before, GI), (after, 2 * GI)):
        assert read.context.machine.nodes[0].memory_bytes == memory
        assert read.state.accounting.machine_state[0].table("memory").total == memory
    assert (after.context, after.state) == (host.engine.context, host.engine.state)


def test_a_second_decision_needs_the_commit_of_the_first(host: Host) -> None:
    pod = host.run("a")
    engine = host.engine
    engine.decide(events.StopPodSandbox(pod))
    with pytest.raises(RuntimeError, match="not committed"):
        engine.decide(events.StopPodSandbox(pod))
    with pytest.raises(RuntimeError, match="not committed"):
        engine.apply(events.StopPodSandbox(pod))
    engine.commit()
    assert engine.state.pods == {}
    assert engine.apply(events.StopPodSandbox(pod)) == Applied(Plan(), ())


def test_a_commit_that_fails_leaves_the_state_as_it_was(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_about: object) -> Record:
        raise RuntimeError("what a bug")

    pod = host.run("a")
    before = host.engine.state
    with monkeypatch.context() as bug:
        bug.setattr(records, "placed_as", fail)
        container = events.Container("c", pod.sandbox_id, "main", 200 * MI)
        plan = host.engine.decide(events.CreateContainer(pod, container))
        assert plan == Plan(Adjustment("0"))
        with pytest.raises(RuntimeError, match="what a bug"):
            host.engine.commit()
    assert host.engine.state is before
    assert host.engine.commit() == ()
    assert host.create(pod, "other").adjustment == Adjustment("0")
    assert host.placed() == {"a": {"other": "0"}}
