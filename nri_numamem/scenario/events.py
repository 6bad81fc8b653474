"""A scenario's pods and containers as a runtime would describe them, and those at its start."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from nri_numamem.engine.core.cpu_requests import requested_millicores, shares_of
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.kubelet.manifest import CpuAmounts
from nri_numamem.memorymanager import Block, ContainerKind, Pod, Request, pod_request
from nri_numamem.memorymanager import Container as DescribedContainer
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.numa import MEMORY, NodeSet, hugepages_page_size
from nri_numamem.scenario.scenario import Scenario
from nri_numamem.scenario.values import ScenarioPod

# The kubelet's cgroup directories per QoS class, with the cgroupfs driver.
_LEVELS = {"Guaranteed": "", "Burstable": "burstable/", "BestEffort": "besteffort/"}


def sandbox_event(sandbox_id: str, described: ScenarioPod) -> PodSandbox:
    """Return the sandbox of a described pod."""
    return _sandbox(
        sandbox_id,
        described.pod.uid,
        described.namespace,
        described.name,
        _LEVELS[described.qos],
        limits_of_pod(described.pod),
        described.annotations,
        described.labels,
    )


def limits_of_pod(pod: Pod) -> Request:
    """Return the limits of a pod's sandbox: its pod-level limits, else those of its containers."""
    return {**pod_request(pod), **(pod.limits or {})}


def resized_sandbox(
    sandbox: PodSandbox, described: ScenarioPod, memory_bytes: Mapping[str, int]
) -> PodSandbox:
    """Return the sandbox with the pod's new limit: container name -> its memory after a resize."""
    containers = tuple(
        replace(one, requests={**one.requests, MEMORY: memory_bytes[one.name]})
        if one.name in memory_bytes
        else one
        for one in described.pod.containers
    )
    wanted = limits_of_pod(replace(described.pod, containers=containers)).get(MEMORY, 0)
    # The plugin takes the larger of the sandbox's limit at its start and that of the cgroup now.
    return replace(sandbox, memory_limit_bytes=max(sandbox.memory_limit_bytes or 0, wanted))


def sandbox_of_entries(
    sandbox_id: str, uid: str, entries: Mapping[HolderName, Iterable[Block]]
) -> PodSandbox:
    """Return the sandbox of a pod; only its assignments are known."""
    total = sum_blocks(chain.from_iterable(entries.values()))
    return _sandbox(sandbox_id, uid, "default", uid, "", total, {}, {})


def container_event(
    container_id: str,
    sandbox: PodSandbox,
    described: DescribedContainer,
    cpus: str = "",
    devices: tuple[NodeSet, ...] = (),
    amounts: CpuAmounts | None = None,
) -> Container:
    """Return a container before its creation.

    CPUs and devices are those it was allocated, `amounts` its CPU request and limit, if known.
    Allocated CPUs are exclusive, however many the manifest requests: the event has no CPU shares,
    which would contradict them.
    """
    return Container(
        container_id,
        sandbox.sandbox_id,
        described.name,
        described.requests.get(MEMORY),
        _hugepage_limits(described.requests),
        cpuset_cpus=cpus,
        cpu_shares=None if cpus or amounts is None else shares_of(amounts.request),
        device_nodes=devices,
        cpu_limit_millicores=None if amounts is None else amounts.limit,
    )


def _sandbox(
    sandbox_id: str,
    uid: str,
    namespace: str,
    name: str,
    level: str,
    request: Request,
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
) -> PodSandbox:
    # A slash in a uid would be a level of its own.
    cgroup_parent = f"/kubepods/{level}pod{uid.replace('/', '_')}"
    memory_bytes, hugepages = request.get(MEMORY), _hugepage_limits(request)
    return PodSandbox(
        sandbox_id,
        uid,
        namespace,
        name,
        cgroup_parent,
        memory_bytes,
        hugepages,
        annotations,
        labels,
    )


def _hugepage_limits(request: Request) -> dict[int, int]:
    """Return page size in bytes -> bytes; without sizes that do not exist."""
    limits: dict[int, int] = {}
    for resource, size_bytes in request.items():
        if resource != MEMORY:
            with suppress(ValueError):
                limits[hugepages_page_size(resource)] = size_bytes
    return limits


@dataclass(frozen=True, slots=True)
class Start:
    """The engine's state, and what runs on its host."""

    state: EngineState
    sandboxes: Mapping[str, PodSandbox]
    """Pod uid -> its sandbox."""
    running: Mapping[tuple[str, str], Container]


def begin_with_accounting(scenario: Scenario, new_id: Callable[[], str]) -> Start:
    """Return a host that runs the containers of the scenario's accounting."""
    state = EngineState(scenario.accounting)
    sandboxes: dict[str, PodSandbox] = {}
    running: dict[tuple[str, str], Container] = {}
    for uid, containers in scenario.accounting.assignments.items():
        described = scenario.pods.get(uid)
        if described is None:
            sandbox = sandbox_of_entries(new_id(), uid, containers)
        else:
            sandbox = sandbox_event(new_id(), described)
        sandboxes[uid] = sandbox
        state = state.with_pod(sandbox)
        named = {name: found for name, found in containers.items() if isinstance(name, str)}
        for name, blocks in named.items():
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
    """Return a host that runs the containers of a state; pods without a known sandbox get one."""
    sandboxes = {pod.uid: pod for pod in state.pods.values()}
    running: dict[tuple[str, str], Container] = {}
    for key, holder in state.holders.items():
        uid, name = key
        if uid not in sandboxes:
            entries = state.accounting.assignments[uid]
            sandboxes[uid] = sandbox_of_entries(holder.sandbox_id, uid, entries)
            state = state.with_pod(sandboxes[uid])
        if not holder.ended and isinstance(name, str):
            blocks = state.blocks(key) or ()
            running[uid, name] = _container(holder.container_id, sandboxes[uid], name, blocks)
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
