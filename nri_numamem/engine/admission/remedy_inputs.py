"""The inputs of a trial decision: what a remedy changes in the settings, the state or the event."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from nri_numamem.engine.core import shortfalls
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import PoolUse, Request, State, remove_pod
from nri_numamem.memorymanager.hugepage_pools import NO_POOL, Pool
from nri_numamem.numa import MEMORY, Machine, NodeSet, hugepages_resource
from nri_numamem.numa.quantity import hugepages_page_size, sum_amounts
from nri_numamem.topologymanager import TopologyPolicy


def trial_context(context: Context) -> Context:
    """Return the context in which decisions are only tried."""
    return replace(context, is_trial=True)


def with_policy(context: Context, policy: Policy, machine: Machine | None = None) -> Context:
    """Return a trial context with other settings; raises what Context.of() raises."""
    if machine is None and policy.memory_nodes == context.policy.memory_nodes:
        topology = replace(context.topology, policy=TopologyPolicy(policy.topology_manager_policy))
        return replace(context, policy=policy, topology=topology, is_trial=True)
    changed = Context.of(machine or context.machine, policy, context.all_features)
    return replace(changed, host_cpus=context.host_cpus, is_trial=True)


def pods_on(state: EngineState, nodes: NodeSet, but: str) -> list[str]:
    """Return the uids of the pods, except `but`, with memory on some of these nodes."""
    pods = {uid for uid, _name in state.holders} - {but}
    return [
        uid
        for uid, holders in state.accounting.assignments.items()
        if uid in pods
        and any(
            not block.numa_affinity.isdisjoint(nodes)
            for blocks in holders.values()
            for block in blocks
        )
    ]


def without_pods(
    state: EngineState, use: PoolUse | None, uids: Iterable[str]
) -> tuple[EngineState, PoolUse | None]:
    """Return the state, and the use of the hugepage pools, after some pods ended."""
    ended = frozenset(uids)
    accounting: State = state.accounting
    for uid in ended:
        accounting = remove_pod(accounting, uid)
    holders = {key: holder for key, holder in state.holders.items() if key[0] not in ended}
    keys = {name: key for name, key in state.keys.items() if key[0] not in ended}
    pods = {name: pod for name, pod in state.pods.items() if pod.uid not in ended}
    rest = {uid: found for uid, found in state.outstanding.items() if uid not in ended}
    after = replace(state.with_all(accounting, holders, keys), pods=pods, outstanding=rest)
    remaining = None if use is None else _without_use(state.accounting, use, ended)
    return shortfalls.charged(after), remaining


def _without_use(accounting: State, use: PoolUse, ended: AbstractSet[str]) -> PoolUse:
    """Return the use of the hugepage pools after some pods ended.

    Pods whose cgroups do not show their use free what the others of them cannot be using, because
    they have not reserved it.
    """
    known = set(use.by_pods)
    unknown_charges = _charges(accounting, ended - known)
    freed: dict[int, dict[str, int]] = {}
    if unknown_charges:
        known_charges = _charges(accounting, known)
        for (node_id, name), size in unknown_charges.items():
            reserved = accounting.machine_state[node_id].table(name).reserved
            reserved -= known_charges.get((node_id, name), 0)
            used = use.pools.get(node_id, {}).get(name, NO_POOL).used
            used -= sum(found.get(node_id, {}).get(name, 0) for found in use.by_pods.values())
            at_least = min(used, reserved) - (reserved - size)
            freed.setdefault(node_id, {})[name] = max(0, at_least)
    for amounts in (freed, *(use.by_pods[uid] for uid in sorted(known & set(ended)))):
        use = with_pages_freed(use, amounts)
    by_pods = {uid: found for uid, found in use.by_pods.items() if uid not in ended}
    return replace(use, by_pods=by_pods)


def _charges(accounting: State, uids: Iterable[str]) -> dict[tuple[int, str], int]:
    """Return (node id, hugepage resource) -> bytes that these pods have reserved there."""
    return sum_amounts(
        ((node_id, block.type), size)
        for uid in uids
        for blocks in accounting.assignments.get(uid, {}).values()
        for block in blocks
        if block.type != MEMORY
        for node_id, size in block.charges
    )


def with_pages_freed(use: PoolUse, amounts: Mapping[int, Mapping[str, int]]) -> PoolUse:
    """Return the use of the pools after pages were freed: node id -> resource -> bytes.

    What is more than the pages in use was reserved for mappings, and is not reserved any more.
    """
    pools = {node_id: dict(by_name) for node_id, by_name in use.pools.items()}
    rsvd = dict(use.rsvd)
    for node_id, sizes in amounts.items():
        for name, size in sizes.items():
            pool = pools.get(node_id, {}).get(name)
            if pool is None:
                continue
            freed = min(size, pool.used)
            pools[node_id][name] = Pool(pool.used - freed, pool.free + freed)
            if name in rsvd:
                rsvd[name] = max(0, rsvd[name] - (size - freed))
    return replace(use, pools=pools, rsvd=rsvd)


def with_new_pages(use: PoolUse, node_id: int, amounts: Mapping[str, int]) -> PoolUse:
    """Return the use of the pools after free pages were added to a node."""
    pools = {other: dict(by_name) for other, by_name in use.pools.items()}
    pools.setdefault(node_id, {}).update({name: Pool(0, size) for name, size in amounts.items()})
    return replace(use, pools=pools)


def with_hugepages(machine: Machine, node_id: int, amounts: Mapping[str, int]) -> Machine:
    """Return the machine with more hugepages on a node."""
    return Machine(
        tuple(
            replace(node, hugepages=_with_pages(node.hugepages, amounts))
            if node.node_id == node_id
            else node
            for node in machine.nodes
        )
    )


def _with_pages(pages: Mapping[int, int], amounts: Mapping[str, int]) -> dict[int, int]:
    found = dict(pages)
    for name, size in amounts.items():
        page = hugepages_page_size(name)
        found[page] = found.get(page, 0) + size // page
    return found


def with_less(
    event: CreateContainer, less: Mapping[str, int], request: Request, *, is_of_pod: bool
) -> CreateContainer:
    """Return the creation of a container that requests less: resource -> bytes.

    `request` is the new request, of the container or, if `is_of_pod`, of the pod as a whole.
    """
    container = _smaller_container(event.container, less, request, is_of_pod=is_of_pod)
    return replace(event, pod=_smaller_pod(event.pod, less), container=container)


def _smaller_pod(pod: PodSandbox, less: Mapping[str, int]) -> PodSandbox:
    memory = pod.memory_limit_bytes
    return replace(
        pod,
        memory_limit_bytes=memory and max(1, memory - less.get(MEMORY, 0)),
        hugepage_limits=_reduced(pod.hugepage_limits, less),
    )


def _smaller_container(
    container: Container, less: Mapping[str, int], smaller: Request, *, is_of_pod: bool
) -> Container:
    memory, pages = container.memory_limit_bytes, container.hugepage_limits
    unified = container.hugepages_unified
    if is_of_pod:  # the container is one of several, and has at most what the pod has
        return replace(
            container,
            memory_limit_bytes=memory and min(memory, smaller[MEMORY]),
            hugepage_limits=None if pages is None else _limited(pages, smaller),
            hugepages_unified=_limited(unified, smaller),
        )
    return replace(
        container,
        memory_limit_bytes=memory and max(1, memory - less.get(MEMORY, 0)),
        hugepage_limits=None if pages is None else _reduced(pages, less),
        hugepages_unified=_reduced(unified, less),
    )


def _limited(limits: Mapping[int, int], most: Request) -> dict[int, int]:
    return {size: min(n, most.get(hugepages_resource(size), n)) for size, n in limits.items()}


def _reduced(limits: Mapping[int, int], less: Mapping[str, int]) -> dict[int, int]:
    return {size: n - less.get(hugepages_resource(size), 0) for size, n in limits.items()}
