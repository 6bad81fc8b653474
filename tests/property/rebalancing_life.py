"""A host on a virtual clock whose agent evicts pods for a refused one, while things fail.

Pods fill four NUMA nodes, and a large one is refused. The agent looks for a plan and carries it out
by its rules. Meanwhile other pods come and go, the kubelet tries refused containers again, and
controllers replace evicted pods. With faults a PodDisruptionBudget forbids evictions for some time,
the API server does not answer, and plugin and agent crash. The engine, the search for plans, their
execution and the rules are those of the program.

    python -m tests.property.rebalancing_life

runs 1,000 lives with and without faults.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from nri_numamem.cli.live.rebalancing import plan_on
from nri_numamem.cli.rebalance.carry_out import (
    MARGIN_S,
    Plan,
    Result,
    Victim,
    earmarks_of,
    replacement_uid,
)
from nri_numamem.engine.core import events
from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.queries.invariants import check_placements, check_sums
from nri_numamem.engine.queries.rebalance import placing
from nri_numamem.export.evictions import ClusterPod, Evicted, Outcome
from nri_numamem.export.rebalancing import HOUR_S, EvictionHistory, Rules, from_bytes, to_bytes
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.memorymanager.rebalance import Rebalancing
from tests.engine.conftest import MI, Answer
from tests.engine.features.earmarks.earmark_host import EarmarkHost

RULES = Rules(frozenset({"ns"}), evictions_per_hour=4, cooldown_s=1800.0)
WAITS_S = 120.0
LIFE_S = 4000.0
LOOK_S = 10.0
SEARCH_S = 300.0
"""Between two searches of a plan."""
RETRY_S = 12.0
"""Between two attempts of the kubelet to create a container."""


def _app_of(uid: str) -> str:
    """Return what a pod and its replacements have in common."""
    return uid.rstrip("'")


class AgentCrashError(Exception):
    """The agent ends without a trace."""


class CheckedHost(EarmarkHost):
    """A host that checks each event: the accounting, and that nothing set aside is taken."""

    def handle(self, event: events.Event) -> Answer:
        before = self.engine.state
        answer = super().handle(event)
        state = self.engine.state
        assert check_sums(state) == ()
        if isinstance(event, events.Synchronize):
            return answer
        assert check_placements(before, state) == ()
        pod = event.pod if isinstance(event, events.CreateContainer) else None
        for made in state.earmarks.values():
            room = made.left(state.accounting, state.pods.values())
            is_for_it = pod is not None and made.beneficiary.includes(pod)
            for node in room.nodes if room.amounts and not is_for_it else ():
                free = free_bytes(state.accounting, (node,), "memory")
                if free < free_bytes(before.accounting, (node,), "memory"):
                    assert len(room.nodes) == 1, event
                    assert free >= room.amounts["memory"], event
        return answer


@dataclass
class Outcomes:
    """What became of a life."""

    results: list[Result] = field(default_factory=list)
    """Of the plans that ended."""
    ran: list[bool] = field(default_factory=list)
    """Whether the refused pod ran when its plan had ended."""
    plans: int = 0
    evicted: list[str] = field(default_factory=list)
    """Uids."""
    requested_s: dict[str, float] = field(default_factory=dict)
    """Uid -> when its eviction was requested first."""
    crashes: int = 0


class Life:
    """One host; `has_faults` lets things fail."""

    def __init__(self, seed: int, *, has_faults: bool) -> None:
        self.random = Random(seed)
        self.has_faults = has_faults
        self.host = CheckedHost()
        self.time_s = 1000.0
        self.found = Outcomes()
        self.history = to_bytes(EvictionHistory())
        self.sizes: dict[str, int] = {}
        self.waiting: set[str] = set()
        """Uids of pods that are refused."""
        self.running: set[str] = set()
        self.replaced_by: dict[str, str] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._budget_until_s = self._away_until_s = 0.0
        self._crash_in = -1
        """Calls of the agent until it crashes; negative for never."""
        self._earmark = ""
        self._victims: list[Victim] = []
        self._target: tuple[str, Rebalancing] = ("", Rebalancing())
        self.waits_s = WAITS_S

    # The host and the cluster

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.time_s + delay_s, next(self._numbers), call))

    def pass_time(self, seconds: float) -> None:
        """Let everything happen that is due until then."""
        end_s = self.time_s + seconds
        while self._events and self._events[0][0] <= end_s:
            self.time_s, _, call = heapq.heappop(self._events)
            self.host.pass_time(self.time_s)
            call()
        self.time_s = end_s
        self.host.pass_time(self.time_s)

    def start(self, uid: str, size: int) -> bool:
        """Start a pod of `size` MiB; the kubelet tries again while it is refused."""
        self.sizes[uid] = size
        self.waiting.add(uid)
        self._attempt(uid)
        return uid in self.running

    def _attempt(self, uid: str) -> None:
        if uid not in self.waiting:
            return
        if self.host.place(uid, self.sizes[uid], app=_app_of(uid)).replace("-", "").isdecimal():
            self.waiting.discard(uid)
            self.running.add(uid)
        else:
            self.later(RETRY_S, lambda: self._attempt(uid))

    def end(self, uid: str) -> None:
        if uid in self.running | self.waiting:
            self.running.discard(uid)
            self.waiting.discard(uid)
            self.host.end(uid)

    def fill(self) -> str:
        """Fill the host, and return the uid of a pod that is refused and has a plan; else ""."""
        random = self.random
        for number in range(40):
            if not self.start(f"p{number}", random.randrange(60, 500)):
                self.end(f"p{number}")
                break
        for uid in random.sample(sorted(self.running), 2):
            self.end(uid)
        for number in range(8):
            uid = f"big{number}"
            is_refused = not self.start(uid, random.randrange(300, 1500))
            if is_refused and self.plan_of(uid).moves:
                return uid
            self.end(uid)
        return ""

    def plan_of(self, uid: str) -> Rebalancing:
        """Return the plan for a refused pod."""
        engine, pod = self.host.engine, self.host.pods[f"sandbox-{uid}"]
        container = events.Container("plan", pod.sandbox_id, "main", self.sizes[uid] * MI)
        event = events.CreateContainer(pod, container)
        others = engine.state.accounting.assignments.keys() - {uid}
        place = placing(engine.context, engine.state, event)
        return plan_on(engine.context, engine.state, {}, others, place)

    def visit(self) -> None:
        """Let a pod come that stays for some minutes, and then the next one."""
        uid = f"v{next(self._numbers)}"
        if self.start(uid, self.random.randrange(30, 300)):
            self.later(self.random.uniform(60, 600), lambda: self.end(uid))
        else:
            self.end(uid)
        self.later(self.random.expovariate(1 / 40), self.visit)

    def fail(self) -> None:
        """Let something fail, and later something else."""
        kind = self.random.randrange(4)
        if kind == 0:
            self._budget_until_s = self.time_s + self.random.uniform(5, 300)
        elif kind == 1:
            self._away_until_s = self.time_s + self.random.uniform(5, 200)
        elif kind == 2:
            self._crash_in = self.random.randrange(12)
        else:
            state = restore(snapshot(self.host.engine.state))
            self.host.engine = Engine(self.host.engine.context, state)
            self.host.synchronize_with(())
        self.later(self.random.expovariate(1 / 60), self.fail)

    # What a plan needs

    def _call(self) -> None:
        """Crash, if it is time."""
        self._crash_in -= 1
        if self._crash_in == -1:
            raise AgentCrashError

    def _pod(self, uid: str) -> ClusterPod:
        return ClusterPod("ns", f"pod-{uid}", uid, _app_of(uid), 0, is_consented=True)

    def obstacle(self, victim: Victim) -> str:
        history = from_bytes(self.history, self.time_s)
        refused = self._pod(self._target[0])
        return history.why_not_evicted(RULES, self.time_s, refused, self._pod(victim.uid))

    def evict(self, victim: Victim) -> Evicted:
        history = from_bytes(self.history, self.time_s)
        self.history = to_bytes(history.evicted(self.time_s, self._pod(victim.uid), RULES))
        self.found.requested_s.setdefault(victim.uid, self.time_s)
        self._call()
        is_away = self.time_s < self._away_until_s
        if is_away and self.random.random() < 0.5:
            return Evicted(Outcome.UNANSWERED, "no answer")
        if victim.uid not in self.running:
            return Evicted(Outcome.GONE)
        if self.time_s < self._budget_until_s:
            return Evicted(Outcome.FAILED, "its disruption budget allows none")
        if victim.uid not in self.found.evicted:
            self.found.evicted.append(victim.uid)
            self.later(self.random.uniform(0.5, 40), lambda: self._replace(victim.uid))
        self._call()
        return Evicted(Outcome.UNANSWERED if is_away else Outcome.DONE, "no answer")

    def _replace(self, uid: str) -> None:
        self.end(uid)
        self.replaced_by[uid] = f"{uid}'"
        self.later(self.random.uniform(0.5, 5), lambda: self._start_replacement(uid))

    def _start_replacement(self, uid: str) -> None:
        self.start(f"{uid}'", self.sizes[uid])

    def is_gone(self, victim: Victim) -> bool:
        self._call()
        return victim.uid not in self.running

    def grace_s(self, _victim: Victim) -> float:
        return 30.0

    def runs(self) -> bool:
        return self._target[0] in self.running

    def waits(self) -> bool:
        return self._target[0] in self.waiting

    def set_aside(self) -> str:
        self._call()
        uid, plan = self._target
        room = Room(plan.nodes, {"memory": self.sizes[uid] * MI})
        who = Beneficiary("ns", uid, f"pod-{uid}")
        expires_s = int(self.time_s + WAITS_S + MARGIN_S)
        labels = {victim: {"app": _app_of(victim.uid)} for victim in self._victims}
        own, *others = earmarks_of(self._earmark, room, who, expires_s, labels)
        refusal = self.host.make(own).refusal or ""
        self._call()
        for each in () if refusal else others:
            self.host.make(each)
        return refusal

    def drop(self) -> None:
        self.host.drop(self._earmark)
        for victim in self._victims:
            if victim.uid not in self.found.evicted:
                self.host.drop(replacement_uid(self._earmark, victim))

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self._call()
        self.pass_time(seconds)

    # The agent

    def look(self, uid: str) -> None:
        """Carry out a plan for a refused pod, if the rules allow it."""
        history = from_bytes(self.history, self.time_s)
        if uid not in self.waiting or history.why_no_plan(RULES, self.time_s, self._pod(uid)):
            return
        plan = self.plan_of(uid)
        if not plan.moves or history.why_too_many(RULES, self.time_s, len(plan.moves)):
            return
        self._target, self._earmark = (uid, plan), f"e{next(self._numbers)}"
        self._victims = victims = [
            Victim(
                move.share.uid,
                "ns",
                move.share.uid,
                move.share.node_id,
                move.target,
                move.assigned_bytes,
            )
            for move in plan.moves
        ]
        if any(map(self.obstacle, victims)):
            return
        self.history = to_bytes(history.begun(self.time_s, self._pod(uid)))
        self.found.plans += 1
        carried = Plan(victims, self, lambda _line: None)
        begin_s = self.time_s
        self.found.results.append(carried.carry_out())
        self.found.ran.append(uid in self.running)
        assert self.time_s - begin_s < 1000, "the plan does not end"

    def live(self) -> Outcomes | None:
        """Return what became of the refused pod; None if none had a plan."""
        uid = self.fill()
        if not uid:
            return None
        self.later(self.random.uniform(5, 60), self.visit)
        if self.has_faults:
            self.later(self.random.uniform(1, 30), self.fail)
        end_s, search_s = self.time_s + LIFE_S, self.time_s
        while self.time_s < end_s:
            try:
                if self.time_s >= search_s:
                    search_s = self.time_s + SEARCH_S
                    self.look(uid)
            except AgentCrashError:
                self.found.crashes += 1
                search_s = self.time_s
            self.pass_time(LOOK_S)
        self.pass_time(2 * WAITS_S)
        assert not self.host.engine.state.earmarks
        for begin_s in self.found.requested_s.values():
            within = [t for t in self.found.requested_s.values() if 0 <= t - begin_s < HOUR_S]
            assert len(within) <= RULES.evictions_per_hour
        return self.found


@dataclass
class Sums:
    """What became of many lives."""

    lives: int = 0
    with_plan: int = 0
    plans: int = 0
    crashes: int = 0
    results: Counter[str] = field(default_factory=Counter)
    ran: int = 0
    evicted: int = 0
    again: int = 0
    """Evicted pods whose replacements run on the host at the end."""


def run(seeds: Iterable[int], *, has_faults: bool) -> Sums:
    """Return the sums of lives; raise AssertionError with the seed of a life that is wrong."""
    sums = Sums()
    for seed in seeds:
        life = Life(seed, has_faults=has_faults)
        try:
            found = life.live()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        sums.lives += 1
        if found is not None:
            sums.with_plan += 1
            sums.plans += found.plans
            sums.crashes += found.crashes
            sums.results.update(result.value for result in found.results)
            sums.ran += sum(found.ran)
            sums.evicted += len(found.evicted)
            sums.again += sum(life.replaced_by.get(uid) in life.running for uid in found.evicted)
    return sums


if __name__ == "__main__":
    for faults in (False, True):
        print("with faults:" if faults else "without faults:", run(range(1000), has_faults=faults))
