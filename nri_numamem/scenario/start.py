"""What runs on a player's host at the start: a written accounting, or the state of a host."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nri_numamem.engine.core.cpu_requests import requested_millicores
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.state import POOL, EngineState, Holder, Key
from nri_numamem.kubelet.manifest import CpuAmounts
from nri_numamem.memorymanager import Block, ContainerKind
from nri_numamem.memorymanager import Container as DescribedContainer
from nri_numamem.scenario.events import container_event, sandbox_event, sandbox_of_entries
from nri_numamem.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Start:
    """The engine's state, and what runs on its host."""

    state: EngineState
    sandboxes: Mapping[str, PodSandbox]
    """Pod uid -> its sandbox."""
    running: Mapping[Key, Container]


def begin_with_accounting(scenario: Scenario, new_id: Callable[[], str]) -> Start:
    """Let the containers run that the scenario's accounting has."""
    state = EngineState(scenario.accounting)
    sandboxes: dict[str, PodSandbox] = {}
    running: dict[Key, Container] = {}
    for uid, containers in scenario.accounting.assignments.items():
        described = scenario.pods.get(uid)
        if described is None:
            sandbox = sandbox_of_entries(new_id(), uid, containers)
        else:
            sandbox = sandbox_event(new_id(), described)
        sandboxes[uid] = sandbox
        state = state.with_pod(sandbox)
        for name, blocks in containers.items():
            amounts = None if described is None else described.cpus.get(name)
            container = _container(new_id(), sandbox, name, blocks, amounts)
            running[uid, name] = container
            holder = new_holder(container, sandbox)
            state = state.with_holder(holder, state.accounting)
    return Start(state, sandboxes, running)


def new_holder(container: Container, sandbox: PodSandbox, *, ended: bool = False) -> Holder:
    """Return the holder of a container."""
    return Holder(
        container.container_id,
        sandbox.sandbox_id,
        (sandbox.uid, container.name),
        ended=ended,
        cpu_millicores=requested_millicores(container),
    )


def begin_with_state(state: EngineState) -> Start:
    """Let the containers run that a host's state has; pods without a known sandbox get one."""
    sandboxes = {pod.uid: pod for pod in state.pods.values()}
    running: dict[Key, Container] = {}
    for key, holder in state.holders.items():
        uid, name = key
        if uid not in sandboxes:
            entries = state.accounting.assignments[uid]
            sandboxes[uid] = sandbox_of_entries(holder.sandbox_id, uid, entries)
            state = state.with_pod(sandboxes[uid])
        if not holder.ended and name != POOL:
            blocks = state.blocks(key) or ()
            running[key] = _container(holder.container_id, sandboxes[uid], name, blocks)
    return Start(state, sandboxes, running)


def _container(
    container_id: str,
    sandbox: PodSandbox,
    name: str,
    blocks: tuple[Block, ...],
    amounts: CpuAmounts | None = None,
) -> Container:
    requests = {block.type: block.size for block in blocks}
    described = DescribedContainer(name, ContainerKind.APP, requests)
    return container_event(container_id, sandbox, described, amounts=amounts)
