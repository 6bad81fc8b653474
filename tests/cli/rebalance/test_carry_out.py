"""Plans that are carried out: each ends, and what is set aside is not forgotten."""

from dataclasses import dataclass, field
from random import Random

import pytest

from nri_numamem.cli.rebalance.carry_out import (
    MARGIN_S,
    Plan,
    Result,
    Victim,
    earmarks_of,
    replacement_uid,
)
from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.export.evictions import Evicted, Outcome
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import NodeSet
from nri_numamem.observe.earmark_files import is_uid

FIRST = Victim("u1", "shop", "redis-0", 1, 3)
SECOND = Victim("u2", "shop", "api-0", 0, 2)
WAITS_S = 600.0


@dataclass
class World:
    """A cluster and a host, in which time passes only while a plan waits."""

    busy: int = 0
    """How many evictions are not allowed before one is."""
    ends_after_s: float = 5.0
    """How long an evicted pod takes to end."""
    starts_after_s: float = 20.0
    """How long the refused pod takes to run when there is room."""
    grace: float = 30.0
    obstacles: dict[str, str] = field(default_factory=dict)
    failure: str = ""
    """Why an eviction fails."""
    refusals: list[str] = field(default_factory=list)
    """The plugin's next refusals."""
    deleted_at_s: float = 1e9
    """When the refused pod is deleted."""
    waits_s: float = WAITS_S
    time_s: float = 100.0
    made_s: list[float] = field(default_factory=list)
    dropped: bool = False
    ended_s: dict[str, float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def obstacle(self, victim: Victim) -> str:
        return self.obstacles.get(victim.uid, "")

    def evict(self, victim: Victim) -> Evicted:
        assert self.is_kept, "a pod is evicted while its room is not set aside"
        if self.failure:
            return Evicted(Outcome.FAILED, self.failure)
        if self.busy:
            self.busy -= 1
            return Evicted(Outcome.WAIT, "its disruption budget allows none")
        self.ended_s[victim.uid] = self.time_s + self.ends_after_s
        return Evicted(Outcome.DONE)

    def is_gone(self, victim: Victim) -> bool:
        return self.ended_s[victim.uid] <= self.time_s

    def grace_s(self, victim: Victim) -> float:
        return self.grace

    def runs(self) -> bool:
        last_s = max(self.ended_s.values())
        return self.waits() and self.time_s >= last_s + self.starts_after_s and self.is_kept

    def waits(self) -> bool:
        return self.time_s < self.deleted_at_s

    @property
    def is_kept(self) -> bool:
        return (
            not self.dropped
            and bool(self.made_s)
            and self.time_s < self.made_s[-1] + WAITS_S + MARGIN_S
        )

    def set_aside(self) -> str:
        if self.refusals:
            return self.refusals.pop()
        self.made_s.append(self.time_s)
        return ""

    def drop(self) -> None:
        self.dropped = True

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def plan(self, *victims: Victim) -> Plan:
        return Plan(victims or (FIRST, SECOND), self, self.said.append)


def test_pods_are_evicted_one_after_the_other() -> None:
    world = World(busy=2)
    plan = world.plan()
    assert plan.carry_out() is Result.DONE
    assert world.said == [
        "shop/redis-0 cannot be evicted yet: its disruption budget allows none",
        "evicted shop/redis-0; waiting until it ends",
        "shop/redis-0 has ended",
        "evicted shop/api-0; waiting until it ends",
        "shop/api-0 has ended",
    ]
    assert world.ended_s == {"u1": 115.0, "u2": 120.0}
    assert plan.evicted == [FIRST, SECOND]
    assert world.dropped


def test_without_an_answer_an_eviction_is_requested_again() -> None:
    world = World()
    answers = [Evicted(Outcome.UNANSWERED, "no answer")] * 2
    evict = world.evict
    world.evict = lambda victim: (  # type: ignore[method-assign]
        answers.pop() if answers else evict(victim)
    )
    plan = world.plan(FIRST)
    assert plan.carry_out() is Result.DONE
    assert world.said[0] == "shop/redis-0 cannot be evicted yet: no answer"


def test_an_obstacle_of_any_pod_comes_before_everything() -> None:
    world = World(obstacles={"u2": "it has no controller"})
    plan = world.plan()
    assert plan.carry_out() is Result.REFUSED
    assert plan.cause == "shop/api-0 is not evicted: it has no controller"
    assert not world.made_s
    assert not world.ended_s


def test_a_refusal_of_the_plugin_evicts_nothing() -> None:
    world = World(refusals=["no room"])
    plan = world.plan()
    assert plan.carry_out() is Result.REFUSED
    assert plan.cause == "the room cannot be set aside: no room"
    assert not world.ended_s


def test_a_failed_eviction_drops_the_earmark_unless_a_pod_was_evicted() -> None:
    world = World(failure="forbidden")
    assert world.plan().carry_out() is Result.REFUSED
    assert world.dropped
    world = World()
    plan = world.plan()
    evict = world.evict
    world.evict = lambda victim: (  # type: ignore[method-assign]
        evict(victim) if victim is FIRST else Evicted(Outcome.FAILED, "forbidden")
    )
    assert plan.carry_out() is Result.REFUSED
    assert plan.cause == "shop/api-0 is not evicted: forbidden"
    assert plan.evicted == [FIRST]
    assert not world.dropped


def test_a_budget_that_never_allows_it_ends_the_plan() -> None:
    world = World(busy=10**6)
    plan = world.plan()
    assert plan.carry_out() is Result.EXPIRED
    assert plan.cause == "waited 600 s until shop/redis-0 can be evicted"
    assert world.made_s == [100.0]


def test_a_pod_may_take_its_grace_period_and_the_room_is_kept() -> None:
    world = World(ends_after_s=3000.0, grace=3600.0)
    assert world.plan(FIRST).carry_out() is Result.DONE
    assert len(world.made_s) > 10
    world = World(ends_after_s=3000.0, grace=30.0)
    plan = world.plan(FIRST)
    assert plan.carry_out() is Result.EXPIRED
    assert plan.cause == "waited 630 s until shop/redis-0 ends"


def test_the_plan_ends_when_the_refused_pod_is_deleted() -> None:
    world = World(deleted_at_s=112.0)
    plan = world.plan(FIRST)
    assert plan.carry_out() is Result.REFUSED
    assert plan.cause == "the refused pod was deleted"
    assert world.dropped


def test_a_refused_renewal_ends_the_plan() -> None:
    world = World(ends_after_s=3000.0, grace=3600.0)
    plan = world.plan(FIRST)
    made = world.set_aside
    world.set_aside = lambda: "another machine" if world.made_s else made()  # type: ignore[method-assign]
    assert plan.carry_out() is Result.REFUSED
    assert plan.cause == "the room cannot be kept: another machine"
    assert not world.dropped


@pytest.mark.parametrize("seed", range(300))
def test_every_plan_ends(seed: int) -> None:
    """Random worlds: no pod is evicted without its room, and no plan waits for ever."""
    random = Random(seed)
    world = World(
        busy=random.choice((0, 0, 3, 200)),
        ends_after_s=random.choice((0.0, 5.0, 400.0, 5000.0)),
        starts_after_s=random.choice((0.0, 20.0, 300.0, 2000.0)),
        grace=random.choice((0.0, 30.0, 3600.0)),
        failure=random.choice(("", "", "", "forbidden")),
        obstacles=random.choice(({}, {}, {"u2": "it is of a DaemonSet"})),
        deleted_at_s=random.choice((1e9, 1e9, 105.0, 500.0)),
    )
    plan = world.plan()
    result = plan.carry_out()
    assert world.time_s < 20_000
    if result is Result.DONE:
        assert world.dropped
        assert plan.evicted == [FIRST, SECOND]
    else:
        assert plan.cause
        assert world.dropped or not world.made_s or plan.evicted or result is Result.EXPIRED


def test_room_is_set_aside_for_the_pod_and_for_replacements() -> None:
    room, who = Room(NodeSet([0, 1]), {"memory": 90}), Beneficiary("ml", "u", "big")
    known = Victim("u1", "shop", "redis-0", 1, 3, 5)
    labels = {known: {"app": "redis"}, SECOND: {"app": "api"}, Victim("u3", "a", "b", 0, 1, 7): {}}
    own, other = earmarks_of("e", room, who, 60, labels)
    assert own == Earmark("e", room, who, 60)
    assert other.uid == replacement_uid("e", known) != replacement_uid("e", SECOND)
    assert other.room == Room(NodeSet([3]), {"memory": 5})
    assert other.beneficiary == Beneficiary("shop", labels={"app": "redis"})
    assert is_uid(replacement_uid("rebalancing-0123abcd", known))
