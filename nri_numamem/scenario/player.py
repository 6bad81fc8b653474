"""Play a scenario through the engine, as a runtime and a kubelet on the scenario's machine would.

``admit``, ``retry``, ``resize`` and ``stop`` become the events that a runtime sends: RunPodSandbox,
CreateContainer, UpdateContainer, StopContainer, and ``remove`` StopPodSandbox. Containers are
created one by one; a refused one does not affect the others of its pod, and ``retry`` creates it
again.
"""

from collections.abc import Iterator
from dataclasses import replace

from nri_numamem.engine.admission.remedy_inputs import trial_context
from nri_numamem.engine.core.annotations import MEMORY_POLICY
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
    StopPodSandbox,
    UpdateContainer,
)
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Applied, Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import (
    ContainerKind,
    PoolUse,
    Rejection,
    State,
    nodes_of,
    remove_container,
)
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.scenario.events import (
    begin_with_accounting,
    begin_with_state,
    container_event,
    resized_sandbox,
    sandbox_event,
)
from nri_numamem.scenario.outcome import Found, Outcome, policy_rejection, strategy_result
from nri_numamem.scenario.scenario import Scenario
from nri_numamem.scenario.steps import (
    Admit,
    Remove,
    Resize,
    Retry,
    Step,
    Stop,
)


def play(scenario: Scenario) -> Iterator[Outcome]:
    """Play all steps, each on the state that the step before left."""
    player = Player(scenario)
    for step in scenario.steps:
        yield player.play(step)


class Player:
    """An engine, and what runs on its host."""

    def __init__(
        self,
        scenario: Scenario,
        start: EngineState | None = None,
        pool_use: PoolUse | None = None,
    ) -> None:
        """Begin with the scenario's accounting, or with the state `start` of a host.

        `pool_use` is the present use of the host's hugepage pools, if known.
        """
        self._scenario = scenario
        self._pool_use = pool_use
        self._sandboxes: dict[str, PodSandbox] = {}
        """Pod uid -> its sandbox, while the pod is on the host."""
        self._running: dict[tuple[str, str], Container] = {}
        self._ended_inits: dict[tuple[str, str], str | None] = {}
        """Ordinary init containers that ended -> their nodes. A later resize may move the memory
        that their pod keeps."""
        self._refused: dict[str, Admit] = {}
        """Pod uid -> the admission whose containers were refused, the latest last."""
        self._created = 0
        """Number of sandboxes and containers so far; makes their ids unique."""
        if start is None:
            begun = begin_with_accounting(scenario, self._new_id)
        else:
            begun = begin_with_state(start)
        self._engine = Engine.with_state(scenario.context, begun.state)
        self._sandboxes.update(begun.sandboxes)
        self._running.update(begun.running)

    def end_pod(self, uid: str) -> None:
        """End a pod with all its containers; KeyError if it is not on the host."""
        self._engine.apply(StopPodSandbox(self._sandboxes.pop(uid)))
        self._refused.pop(uid, None)
        for keys in (self._running, self._ended_inits):
            for key in [key for key in keys if key[0] == uid]:
                del keys[key]

    @property
    def state(self) -> EngineState:
        """The engine's state."""
        return self._engine.state

    def replace_accounting(self, accounting: State) -> None:
        """Continue with another accounting, such as one with a resource claim."""
        state = self.state.with_accounting(accounting)
        self._engine = Engine.with_state(self._scenario.context, state)

    def try_in(self, state: EngineState, pool_use: PoolUse | None, step: Admit) -> Outcome:
        """Return the result of an admission in another state; nothing is changed."""
        engine, use, trial = self._engine, self._pool_use, trial_context(self._scenario.context)
        self._engine, self._pool_use = Engine.with_state(trial, state), pool_use
        outcome = self._admit(step)
        self.end_pod(step.uid)
        self._engine, self._pool_use = engine, use
        return outcome

    @property
    def accounting(self) -> State:
        """The accounting, without pools of pods that their containers have used up."""
        accounting = self._engine.state.accounting
        for uid, containers in accounting.assignments.items():
            pool = containers.get(HolderKind.POD)
            if pool is not None and not any(block.size for block in pool):
                accounting = remove_container(accounting, uid, HolderKind.POD)
        return accounting

    def play(self, step: Step) -> Outcome:
        """Play one step."""
        match step:
            case Admit():
                return self._admit(step)
            case Retry():
                return self._retry(step)
            case Resize():
                return self._resize(step)
            case Stop():
                return self._stop(step)
        return self._remove(step)

    def _admit(self, step: Admit) -> Outcome:
        """Start the pod, and each of its containers that does not run."""
        sandbox, records = self._run_sandbox(step.uid)
        described_pod = self._scenario.pods[step.uid]
        mems: dict[str, str | None] = {}
        refused: dict[str, Rejection] = {}
        unpinned: dict[str, Rejection] = {}
        found = Found()
        for described in described_pod.pod.containers:
            key = (step.uid, described.name)
            if key not in self._running and key not in self._ended_inits:
                container = container_event(
                    self._new_id(),
                    sandbox,
                    described,
                    cpus=step.cpus.get(described.name, ""),
                    devices=step.devices.get(described.name, ()),
                    amounts=described_pod.cpus.get(described.name),
                )
                applied = self._create(sandbox, container)
                rejection = applied.rejection or policy_rejection(applied.records)
                if rejection is not None:
                    is_refused = applied.plan.refusal is not None
                    (refused if is_refused else unpinned)[described.name] = rejection
                    if is_refused and described.kind is not ContainerKind.APP:
                        break  # the next containers wait for init containers and sidecars
                    if is_refused:
                        continue
                found.add(container, applied.records)
                self._run(key, container, described.kind)
            mems[described.name] = self._mems(key)
        self._refused.pop(step.uid, None)
        if refused:
            self._refused[step.uid] = step
        return Outcome(
            step,
            self.accounting,
            rejection=next(iter(refused.values()), None),
            refused=refused,
            cpuset_mems=mems,
            unpinned=unpinned,
            found=found,
            pod_strategy=strategy_result(records),
        )

    def _create(self, sandbox: PodSandbox, container: Container) -> Applied:
        text = sandbox.annotation(MEMORY_POLICY, container.name)
        is_requested = text or self._scenario.settings.memory_policies.is_active
        request = PolicyRequest(text) if is_requested else None
        return self._engine.apply(CreateContainer(sandbox, container, self._pool_use, request))

    def _retry(self, step: Retry) -> Outcome:
        """Create the refused containers again, with the CPUs and devices that they had."""
        admissions = [each for each in self._refused.values() if step.uid in (None, each.uid)]
        retried = {each.uid: self._admit(each) for each in admissions}
        return Outcome(step, self.accounting, retried=retried)

    def _run(self, key: tuple[str, str], container: Container, kind: ContainerKind) -> None:
        """Run a created container; an ordinary init container ends at once."""
        if kind is ContainerKind.INIT:
            self._engine.apply(StopContainer(self._sandboxes[key[0]], container))
            self._ended_inits[key] = self._mems(key)
        else:
            self._running[key] = container

    def _resize(self, step: Resize) -> Outcome:
        key = (step.uid, step.container)
        container = self._running.get(key)
        if container is None:
            return Outcome(step, self.accounting, cpuset_mems={step.container: None})
        memory = {name: one.memory_limit_bytes or 0 for name, one in self._running_of(step.uid)}
        memory[step.container] = step.memory_bytes
        described = self._scenario.pods[step.uid]
        sandbox = resized_sandbox(self._sandboxes[step.uid], described, memory)
        applied = self._engine.apply(UpdateContainer(sandbox, container, step.memory_bytes))
        if applied.plan.refusal is not None:
            return Outcome(step, self.accounting, rejection=applied.rejection)
        self._sandboxes[step.uid] = sandbox
        self._running[key] = replace(container, memory_limit_bytes=step.memory_bytes)
        found = Found()
        found.add(container, applied.records)
        mems = {step.container: self._mems(key)}
        return Outcome(step, self.accounting, cpuset_mems=mems, found=Found(cpus=found.cpus))

    def _running_of(self, uid: str) -> list[tuple[str, Container]]:
        return [(key[1], container) for key, container in self._running.items() if key[0] == uid]

    def _stop(self, step: Stop) -> Outcome:
        container = self._running.pop((step.uid, step.container), None)
        if container is not None:
            self._engine.apply(StopContainer(self._sandboxes[step.uid], container))
        return Outcome(step, self.accounting)

    def _remove(self, step: Remove) -> Outcome:
        if step.uid in self._sandboxes:
            self.end_pod(step.uid)
        return Outcome(step, self.accounting)

    def _run_sandbox(self, uid: str) -> tuple[PodSandbox, tuple[Record, ...]]:
        """Return the pod's sandbox, and the records of its start if there was none."""
        if uid in self._sandboxes:
            return self._sandboxes[uid], ()
        sandbox = sandbox_event(self._new_id(), self._scenario.pods[uid])
        self._sandboxes[uid] = sandbox
        return sandbox, self._engine.apply(RunPodSandbox(sandbox, self._pool_use)).records

    def _new_id(self) -> str:
        self._created += 1
        return f"{self._created:064x}"

    def _mems(self, key: tuple[str, str]) -> str | None:
        """Return the list in a container's `cpuset.mems`; None for a container without nodes."""
        if not self._scenario.context.is_static:
            return None
        if key in self._ended_inits:
            return self._ended_inits[key]
        return str(nodes_of(self._engine.state.blocks(key) or ())) or None
