"""Try objects of Kubernetes on a host: how many of their pods fit, and where.

The host is the plugin's in its present state, or an empty machine. The engine that serves the
runtime decides. CPUs and devices are unknown before a container exists; they are not considered.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain

from nri_numamem.cli.live.facts import pod_names
from nri_numamem.cli.live.rebalancing import PodNames, plan_on
from nri_numamem.cli.live.rebalancing import document as rebalancing_document
from nri_numamem.cli.output import DOCUMENT_VERSION
from nri_numamem.cli.simulate.claims import ClaimTrial, ClaimTrials, nodes_of_containers
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.config.values import SettingsError
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.ending_pods import find_pods, with_pods
from nri_numamem.engine.queries.rebalance import ContainerFacts
from nri_numamem.kubelet.claims import ClaimKey, claims_of, users_of
from nri_numamem.kubelet.workload import Workload
from nri_numamem.memorymanager import PoolUse, Rejection, State
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.memorymanager.state_json import state_json
from nri_numamem.numa import NodeSet
from nri_numamem.scenario.outcome import ConfinedResult, error_document
from nri_numamem.scenario.player import Player
from nri_numamem.scenario.scenario import Scenario, WrittenState
from nri_numamem.scenario.steps import Admit
from nri_numamem.scenario.values import ScenarioPod, read_pod

_PODS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Trial:
    """The result for one object."""

    workload: Workload
    pod: ScenarioPod
    """Its first pod."""
    placed: tuple[tuple[str, Mapping[str, str | None]], ...] = ()
    """Per pod that fits: its name, and container -> `cpuset.mems`, None without nodes."""
    rejection: Rejection | None = None
    """Why the next pod does not fit."""
    remedies: tuple[Remedy, ...] = ()
    """What makes it fit, the pods of the host to end included."""
    plan: Rebalancing | None = None
    """How pods of the host could make room for it; None without a rejection or such pods."""
    runs_on: NodeSet | None = None
    """The nodes of a pod that runs already, and is not tried; None for others."""
    confined: Mapping[str, ConfinedResult] = field(default_factory=dict)
    """Container -> the nodes that it gets by the setting `partitions`, if it is not pinned."""
    claims: tuple[ClaimTrial, ...] = ()
    """Of the pod that was tried last."""

    @property
    def fits(self) -> bool:
        """Return whether all its pods fit or run."""
        return self.rejection is None and all(each.fits for each in self.claims)


@dataclass(frozen=True, slots=True)
class Result:
    """The results for all objects, in their order."""

    before: State
    trials: tuple[Trial, ...]
    accountings: tuple[State, ...]
    """After each trial."""
    names: PodNames
    """Pod uid -> namespace and name, of the pods of the host and of those that were tried."""

    @property
    def pod_names(self) -> dict[str, str]:
        """Return pod uid -> "namespace/name"."""
        return {uid: "/".join(name) for uid, name in self.names.items()}


@dataclass(frozen=True, slots=True)
class Host:
    """Where the pods are tried."""

    settings: Settings
    context: Context
    state: EngineState
    pool_use: PoolUse | None = None
    containers: Mapping[str, ContainerFacts] = field(default_factory=dict)
    """Container id -> what a rebalancing plan must know of it."""
    claim_specs: Mapping[ClaimKey, object] = field(default_factory=dict)
    """Of the claims and templates in the file."""


def try_workloads(host: Host, workloads: Iterable[Workload], without: Iterable[str]) -> Result:
    """Try the objects one after the other; each pod that fits stays for the next ones.

    `without` names pods of the host that end before. Raises UsageError for a name without a pod,
    and SettingsError for an invalid pod.
    """
    pods: dict[str, ScenarioPod] = {}
    context, state = host.context, host.state
    scenario = Scenario(
        context.machine, host.settings, context, WrittenState(), state.accounting, pods, ()
    )
    names = pod_names(state)
    player = Player(scenario, state, host.pool_use)
    for uid in [_uid_of(state, names, name) for name in without]:
        player.end_pod(uid)
    before = player.accounting
    claims = ClaimTrials(context, host.pool_use, host.claim_specs)
    trials: list[Trial] = []
    accountings: list[State] = []
    for workload in workloads:
        trial = _try_claims(claims, player, pods, workload)
        trials.append(trial or _try(host, player, pods, workload))
        accountings.append(player.accounting)
    names |= {uid: (pod.namespace, pod.name) for uid, pod in pods.items()} | claims.names
    return Result(before, tuple(trials), tuple(accountings), names)


def _uid_of(state: EngineState, names: PodNames, wanted: str) -> str:
    """Return the uid of a pod that is named by its uid, "namespace/name", or its name.

    Raises UsageError, which names the pods that there are.
    """
    uids = {holder.key[0] for holder in state.holders.values()}
    full = {uid: "/".join(names[uid]) if uid in names else uid for uid in uids}
    found = sorted(uid for uid in uids if wanted in (uid, full[uid], names.get(uid, ("", uid))[1]))
    if len(found) == 1:
        return found[0]
    shown = ", ".join(sorted(full[uid] for uid in found or uids)[:_PODS_SHOWN])
    if found:
        raise UsageError(f"--without: {wanted} is the name of several pods; give one of {shown}")
    remedy = f"give one such as {shown}" if shown else "it has placed none at all"
    raise UsageError(f"--without: the plugin has placed no pod {wanted}; {remedy}")


def _try_claims(
    claims: ClaimTrials, player: Player, pods: dict[str, ScenarioPod], workload: Workload
) -> Trial | None:
    """Try the pods of an object with claims of memory; None for others, and for running pods."""
    first = _pod(workload, 0)
    if first.pod.uid in player.accounting.assignments or not claims_of(workload):
        return None
    placed: list[tuple[str, Mapping[str, str | None]]] = []
    tried: tuple[ClaimTrial, ...] = ()
    for number in range(workload.replicas):
        uid, name = _uid(workload, number), _name(workload, number)
        accounting, tried = claims.try_pod(player.state, workload, uid, name)
        if not tried:
            return None
        if not all(each.fits for each in tried):
            break
        player.replace_accounting(accounting)
        pods[uid] = replace(first, pod=replace(first.pod, uid=uid), name=name)
        placed.append((name, nodes_of_containers(workload, tried)))
    return Trial(workload, first, tuple(placed), claims=tried)


def _name(workload: Workload, number: int) -> str:
    return workload.name if workload.kind == "Pod" else f"{workload.name}-{number}"


def _try(host: Host, player: Player, pods: dict[str, ScenarioPod], workload: Workload) -> Trial:
    first = _pod(workload, 0)
    running = player.accounting.assignments.get(first.pod.uid)
    if running is not None:
        blocks = chain.from_iterable(running.values())
        nodes = NodeSet(node_id for block in blocks for node_id in block.numa_affinity)
        return Trial(workload, first, runs_on=nodes)
    placed: list[tuple[str, Mapping[str, str | None]]] = []
    confined: Mapping[str, ConfinedResult] = {}
    for number in range(workload.replicas):
        uid, name = _uid(workload, number), _name(workload, number)
        pods[uid] = replace(first, pod=replace(first.pod, uid=uid), name=name)
        outcome = player.play(Admit(uid))
        unpinned = next(iter((outcome.unpinned or {}).values()), None)
        rejection = outcome.rejection or unpinned
        if rejection is not None:
            player.end_pod(uid)
            remedies = _remedies(host, player, uid, rejection)
            plan = _plan(host, player, uid)
            return Trial(workload, first, tuple(placed), rejection, remedies, plan)
        placed.append((name, outcome.cpuset_mems or {}))
        confined = outcome.found.confined
    return Trial(workload, first, tuple(placed), confined=confined)


def _remedies(host: Host, player: Player, uid: str, rejection: Rejection) -> tuple[Remedy, ...]:
    """Return what makes a pod fit; pods that were tried before stay."""

    def admits(state: EngineState, use: PoolUse | None) -> bool:
        outcome = player.try_in(state, use, Admit(uid))
        return outcome.rejection is None and not outcome.unpinned

    names = {uid: "/".join(name) for uid, name in pod_names(host.state).items()}
    found = find_pods(player.state, host.pool_use, admits, _running(host, player), names)
    return with_pods(rejection.remedies, found)


def _running(host: Host, player: Player) -> AbstractSet[str]:
    """Return the pods of the host that run."""
    present = player.state.accounting.assignments
    return host.state.accounting.assignments.keys() & present.keys()


def _plan(host: Host, player: Player, uid: str) -> Rebalancing | None:
    """Return how pods of the host could make room for a pod that does not fit.

    None if no pods run there. Pods that were tried before stay.
    """

    def place(accounting: State) -> NodeSet | None:
        outcome = player.try_in(state.with_accounting(accounting), host.pool_use, Admit(uid))
        if outcome.rejection is not None or outcome.unpinned:
            return None
        texts = [text for text in (outcome.cpuset_mems or {}).values() if text]
        return NodeSet(node_id for text in texts for node_id in NodeSet.parse(text))

    state, running = player.state, _running(host, player)
    return plan_on(host.context, state, host.containers, running, place) if running else None


def check_pod(workload: Workload) -> None:
    """Raise SettingsError or WorkloadError, with its path in the document, if it is invalid."""
    _pod(workload, 0)
    claims_of(workload)
    users_of(workload)


def _pod(workload: Workload, number: int) -> ScenarioPod:
    """Return a pod of an object; SettingsError with its path in the document."""
    manifest = workload.manifest
    metadata = manifest.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise SettingsError((*workload.path, "metadata"), "expected a mapping", "write KEY: VALUE")
    own = {
        "uid": _uid(workload, number),
        "name": workload.name,
        "namespace": workload.namespace,
    }
    return read_pod(workload.path, {**manifest, "metadata": {**(metadata or {}), **own}})


def _uid(workload: Workload, number: int) -> str:
    return workload.uid or f"{workload.kind}/{workload.namespace}/{workload.name}/{number}"


def workload_document(result: Result) -> dict[str, object]:
    """Return the trials as one object, with the accounting after the last one."""
    accounting: State = result.accountings[-1] if result.accountings else result.before
    return {
        "version": DOCUMENT_VERSION,
        "workloads": [_trial(trial, result.names) for trial in result.trials],
        **state_json(accounting),
    }


def _trial(trial: Trial, names: PodNames) -> dict[str, object]:
    workload, rejection = trial.workload, trial.rejection
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "qosClass": str(trial.pod.qos),
        "replicas": workload.replicas,
        "fit": workload.replicas if trial.runs_on is not None else len(trial.placed),
        "runsOn": None if trial.runs_on is None else list(trial.runs_on),
        "pods": [{"name": name, "cpusetMems": dict(mems)} for name, mems in trial.placed],
        "confined": {name: each.document for name, each in trial.confined.items()},
        "error": None if rejection is None else error_document(rejection, trial.remedies),
        "claims": [each.document for each in trial.claims],
        "plan": None if trial.plan is None else rebalancing_document(trial.plan, names),
    }
