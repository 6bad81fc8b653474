"""Rebalancing by the agent: it looks for refused pods, and carries out one plan at a time.

``export.rebalancing`` has the rules. A plan of the agent moves only pods that consent, and ends
when a PodDisruptionBudget forbids an eviction. If the agent stops, the plan ends with it: the
earmark keeps the room for the refused pod until its time is over.
"""

import argparse
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from nri_numamem.apiserver.access import Access
from nri_numamem.apiserver.client import Client
from nri_numamem.cli.decisions.names import Names
from nri_numamem.cli.earmark import refused_pod
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.live.collect import collect_accounting
from nri_numamem.cli.live.facts import Facts, pod_names
from nri_numamem.cli.rebalance.agent_steps import AgentSteps, StoppedError, pod_event
from nri_numamem.cli.rebalance.carry_out import Plan, Result
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import RefusedPod
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.cli.rebalance.host import victims_of
from nri_numamem.cli.rebalance.refused_pods import RefusedPods
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.common import PodNames
from nri_numamem.engine.records.export import (
    RebalancingBegan,
    RebalancingDeclined,
    RebalancingEnded,
    RebalancingFailed,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.rebalancing import Rules
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe.earmark_files import EarmarkFileError
from nri_numamem.observe.files import reason_of, traceback_of
from nri_numamem.observe.threads import start_thread

LOOK_S = 10.0
RETRY_S = 300.0
"""Until a refused pod, or one that must not be evicted, is considered again."""
WAITS_S = 600.0
"""How long a plan waits for a change."""
STOP_S = 5.0
"""For a request or a search that has begun when the agent stops; its plan ends with the process."""


@contextmanager
def rebalancing(
    args: argparse.Namespace,
    rules: Rules,
    access: Callable[[], Access],
    emit: Callable[[Record], None],
    post: Callable[[PodEvent], None],
) -> Iterator[None]:
    """Look for refused pods on a thread until the context ends."""
    rebalancer = Rebalancer(args, rules, Client(access), emit, post)
    thread = start_thread(rebalancer.run, "rebalancing")
    try:
        yield
    finally:
        rebalancer.is_over.set()
        thread.join(STOP_S)


class Rebalancer:
    """Carries out plans for refused pods, on one thread."""

    def __init__(
        self,
        args: argparse.Namespace,
        rules: Rules,
        client: Client,
        emit: Callable[[Record], None],
        post: Callable[[PodEvent], None],
    ) -> None:
        self.is_over = Event()
        self._args = args
        self._rules = rules
        self._client = client
        self._emit = emit
        self._post = post
        self._refused = RefusedPods()
        self._failure = ""
        self._declined: dict[str, str] = {}
        """Uid of a refused pod -> why no pod is evicted for it, as recorded last."""
        self._later_s: dict[str, float] = {}
        """Uid of a pod -> monotonic time until which it is not considered."""

    def run(self) -> None:
        """Look until the agent stops."""
        while not self.is_over.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Carry out a plan for one refused pod, if there is one."""
        failure, exception = "", None
        try:
            self._look()
        except StoppedError:
            return
        except (UsageError, MachineError, EarmarkFileError) as error:
            failure = str(error)
        except OSError as error:
            failure = f"{error.filename}: {reason_of(error)}; see docs/rebalancing.md"
        except Exception as error:  # noqa: BLE001 - claims and exports must go on
            failure, exception = repr(error), traceback_of(error)
        if failure and failure != self._failure:
            self._emit(RebalancingFailed(cause=failure, exception=exception))
        self._failure = failure

    def _look(self) -> None:
        facts = collect_accounting(self._args)
        directory, state = earmark_requests.directory_of(facts), facts.state
        if state is None:
            raise UsageError(
                f"{facts.state_problem or 'there is no state file'}; restart the plugin"
            )
        found = self._refused.read(Path(facts.state_file), roots_of(self._args).cgroup)
        wanted = [names for names in found if names.namespace in self._rules.namespaces]
        self._forget_others({names.pod_uid for names in wanted})
        for names in wanted:
            uid = names.pod_uid
            if uid in self._later_s:
                continue
            self._later_s[uid] = time.monotonic() + RETRY_S
            cause = self._make_room(names, facts, state, directory)
            if not cause:
                return
            if self._declined.get(uid) != cause:
                self._declined[uid] = cause
                self._emit(RebalancingDeclined(names=_names(names), cause=cause))

    def _forget_others(self, refused: Collection[str]) -> None:
        now_s = time.monotonic()
        self._later_s = {uid: until for uid, until in self._later_s.items() if until > now_s}
        self._declined = {uid: why for uid, why in self._declined.items() if uid in refused}

    def _make_room(self, names: Names, facts: Facts, state: EngineState, directory: Path) -> str:
        """Carry out the plan for a pod; return why no pod is evicted for it, "" if it began."""
        steps = self._steps_for(names, facts, state, directory)
        if isinstance(steps, str):
            return steps
        for victim in steps.victims:
            cause = steps.obstacle(victim)
            if cause:
                # The next search is soon, and for a plan without this pod.
                self._later_s[victim.uid] = self._later_s.pop(names.pod_uid)
                return f"{victim} is not evicted: {cause}"
        steps.history.write(steps.history.read().begun(time.time(), steps.refused))
        self._carry_out(names, steps)
        return ""

    def _steps_for(
        self, names: Names, facts: Facts, state: EngineState, directory: Path
    ) -> AgentSteps | str:
        """Return the steps of the plan for a pod, or why there is none that the rules allow."""
        cluster, now_s = Cluster(self._client), time.time()
        cause = _why_not_waiting(cluster, names)
        if cause:
            return cause
        refused, state_file = cluster.pod(names.pod_uid), Path(facts.state_file)
        file = EvictionHistoryFile(state_file)
        history = file.read()
        cause = history.why_no_plan(self._rules, now_s, refused)
        if cause:
            return cause
        target = refused_pod(refused.uid, facts, roots_of(self._args), self._movable(state))
        if target.plan is None or not target.plan.moves:
            fits_now = target.plan is not None and target.plan.fits_now
            return "it fits now" if fits_now else "there is no plan with pods that consent"
        victims = victims_of(target.plan, target)
        return history.why_too_many(self._rules, now_s, len(victims)) or AgentSteps(
            roots_of(self._args).cgroup,
            directory,
            target,
            f"rebalancing-{secrets.token_hex(4)}",
            cluster,
            RefusedPod(state_file, target, cluster),
            WAITS_S,
            victims,
            rules=self._rules,
            history=file,
            refused=refused,
            is_over=self.is_over,
            post=self._post,
        )

    def _movable(self, state: EngineState) -> frozenset[str]:
        """Return the uids of the pods that consent, and are considered now."""
        kept = {
            key[0] for key, each in state.holders.items() if not (each.is_movable or each.ended)
        }
        return frozenset(
            uid
            for uid, (namespace, _) in pod_names(state).items()
            if namespace in self._rules.namespaces and uid not in kept | self._later_s.keys()
        )

    def _carry_out(self, names: Names, steps: AgentSteps) -> None:
        """Carry out a plan, record its end, and post the Event of the refused pod."""
        nodes, pods, shown = steps.target.nodes, tuple(map(str, steps.victims)), _names(names)
        self._emit(RebalancingBegan(names=shown, nodes=nodes, evictions=pods, earmark=steps.uid))
        plan = Plan(steps.victims, steps, steps.say)
        result, cause = Result.REFUSED.value, ""
        try:
            result = plan.carry_out().value
            cause = plan.cause
        except StoppedError:
            result, cause = "stopped", "the agent stops"
            raise
        except Exception as error:
            cause = str(error)
            raise
        finally:
            evicted, is_done = tuple(map(str, plan.evicted)), result == Result.DONE.value
            self._emit(
                RebalancingEnded(
                    names=shown,
                    result=result,
                    cause=cause or None,
                    evicted=evicted,
                    alternate=not is_done,
                )
            )
            if evicted:
                how = f"it runs on {format_nodes(nodes)}" if is_done else f"it waits: {cause}"
                message = f"evicted for it: {', '.join(evicted)}; {how}"
                self._post(pod_event(steps.refused, steps.uid, message, is_warning=not is_done))


def _why_not_waiting(cluster: Cluster, names: Names) -> str:
    """Return why a refused pod does not wait at the API server, "" if it does."""
    problem = cluster.read(names.namespace, names.pod, names.pod_uid)
    if problem:
        return problem
    pod = cluster.pod(names.pod_uid)
    if pod.uid != names.pod_uid:
        return "it was recreated in the meantime"
    return "it has ended" if pod.is_ended else ""


def _names(names: Names) -> PodNames:
    return PodNames(pod=names.pod, namespace=names.namespace, pod_uid=names.pod_uid)
