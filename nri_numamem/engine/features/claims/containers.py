"""Containers that use resource claims: their NUMA nodes, and limits that keep to the claims.

Requests of a pod do not count for a container with claims: the claims are charged, once each. So
limits make the charge true. A container without a memory limit gets what is left of its claims,
and one whose limits exceed what is left is refused. What other running containers with a limit
have is not left.

Example: a claim of 40Gi, and two containers that use it. The first one has a limit of 10Gi, the
second one has none and gets 30Gi. A third one is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from nri_numamem.engine.core.claims import ChargedClaim, ClaimUser
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, UpdateContainer
from nri_numamem.engine.core.fields import PREFIX, pod_name
from nri_numamem.engine.core.plan import Adjustment, HugepageRoute, Plan
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.request import request_of_pod
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.features.claims import records
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.memorymanager import remove_container
from nri_numamem.memorymanager.claims import ClaimUse, nodes_of, sum_of
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import MEMORY, NodeSet, hugepages_resource, humanize_bytes
from nri_numamem.numa.quantity import hugepages_page_size, sum_mappings


class _Problem(NamedTuple):
    """Why a container cannot use its claims."""

    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Used:
    """A claim, and the requests of it that a container uses."""

    charged: ChargedClaim
    requests: frozenset[str]


def create(context: Context, state: EngineState, event: CreateContainer) -> Decision:
    """Pin a container to the nodes of its claims, or refuse it with the reason."""
    pod, container = event.pod, event.container
    names = _names(container)
    # The kubelet creates a container again only after the former one has ended. containerd does not
    # report the end of one that did not start because the kubelet did not wait for it.
    state = replace(
        state,
        claims={
            uid: each.without_container(pod.sandbox_id, container.name)
            for uid, each in state.claims.items()
        },
    )
    found = list(_used(state, container))
    amounts = sum_of(use.amounts for use in container.claims)
    nodes = nodes_of(amounts)
    own = _limits_of(container)
    problem = _problem_of_use(state, container) or _problem_of_pod(context, pod, nodes)
    left = _left_of(found, container.container_id)
    problem = problem or _problem_of_limits(found, own, left, names)
    if problem is not None:
        return _refused(state, event, names, problem)
    limits = {**left, **own}
    adjustment = _adjustment(container, nodes, own, limits)
    used = records.Use(names, amounts, limits[MEMORY])
    record = records.used(pod, container, used, adjustment)

    def transition() -> Transition:
        after = _with_users(state.with_pod(pod), pod, container, found, limits)
        return Transition(_with_pool(context, after, pod), (record,))

    return Decision(Plan(adjustment), transition)


def _with_pool(context: Context, state: EngineState, pod: PodSandbox) -> EngineState:
    """Return the state in which the pod's pool does not contain what the pod's claims have.

    The claims of a second pod are not known before its first container.
    """
    pool = state.holders.get((pod.uid, HolderKind.POD))
    if pool is not None and request_of_pod(pod) is None:
        return state.without_holder(pool, remove_container(state.accounting, *pool.key))
    return pod_scope.take_from_pool(context, state, pod)


def update(state: EngineState, event: UpdateContainer) -> Decision | None:
    """Return the decision on a new memory limit; None for a container without claims."""
    container_id, limit_bytes = event.container.container_id, event.memory_limit_bytes
    found = [
        _Used(charged, charged.users[container_id].requests)
        for _uid, charged in sorted(state.claims.items())
        if container_id in charged.users
    ]
    if not found or limit_bytes is None:
        return None
    own = {**_held(found, container_id), MEMORY: limit_bytes}
    names = tuple(str(each.charged.claim) for each in found)
    problem = _problem_of_limits(found, own, _left_of(found, container_id), names)
    if problem is not None:
        return _refused(state, event, names, problem)
    after = _with_users(state, event.pod, event.container, found, own)
    return Decision.computed(Plan(), after)


def _with_users(
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    found: list[_Used],
    limits: Mapping[str, int],
) -> EngineState:
    """Return the state in which a container uses claims.

    Its limits count for each claim as far as that has something left, the rest for the first one:
    claims may have less left for a container that runs already.
    """
    remaining, parts = dict(limits), list[dict[str, int]]()
    for each in found:
        left = each.charged.left_bytes(each.requests, container.container_id)
        part = {name: min(size, remaining.get(name, 0)) for name, size in left.items()}
        parts.append(part)
        remaining = {name: size - part.get(name, 0) for name, size in remaining.items()}
    claims = dict(state.claims)
    for index, (each, part) in enumerate(zip(found, parts, strict=True)):
        held = part if index else sum_mappings((part, remaining))
        user = ClaimUser(
            container.container_id,
            pod.sandbox_id,
            pod.uid,
            pod.namespace,
            pod.name,
            container.name,
            each.requests,
            held,
        )
        uid = each.charged.claim.uid
        claims[uid] = claims[uid].with_user(user)
    return replace(state, claims=claims)


def running(state: EngineState, pod: PodSandbox, container: Container) -> EngineState:
    """Return the state in which a container that runs already uses its claims."""
    found = list(_used(state, container))
    limits = {**_left_of(found, container.container_id), **_limits_of(container)}
    return _with_users(state, pod, container, found, limits)


def _limits_of(container: Container) -> dict[str, int]:
    """Return the limits that a container has: resource -> bytes, > 0."""
    pages = {**(container.hugepage_limits or {}), **container.hugepages_unified}
    found = {hugepages_resource(size): limit for size, limit in sorted(pages.items()) if limit}
    memory = container.memory_limit_bytes
    return {MEMORY: memory, **found} if memory else found


def _left_of(found: list[_Used], container_id: str) -> dict[str, int]:
    """Return what is left of claims for a container: resource -> bytes."""
    return sum_mappings(each.charged.left_bytes(each.requests, container_id) for each in found)


def _held(found: list[_Used], container_id: str) -> dict[str, int]:
    return sum_mappings(each.charged.users[container_id].held_bytes for each in found)


def _used(state: EngineState, container: Container) -> Iterator[_Used]:
    """Yield the claims of a container that are charged, by uid."""
    requests: dict[str, set[str]] = {}
    for use in container.claims:
        charged = state.claims.get(use.uid)
        if charged is not None and use.request in charged.claim.requests:
            requests.setdefault(use.uid, set()).add(use.request)
    for uid, names in sorted(requests.items()):
        yield _Used(state.claims[uid], frozenset(names))


def _problem_of_use(state: EngineState, container: Container) -> _Problem | None:
    """Return which claim of a container is not the one that was prepared."""
    for use in container.claims:
        charged = state.claims.get(use.uid)
        if charged is None:
            remedy = "check that the agent runs (nri-numamem doctor), then delete the pod"
            return _Problem(f"claim {_name(use)} is not prepared on this host", remedy)
        if charged.claim.requests.get(use.request) != use.amounts:
            request = cut_name(use.request)
            cause = f"claim {_name(use)} was prepared with other amounts for its request {request}"
            return _Problem(cause, "delete the pod")
    return None


def _problem_of_pod(context: Context, pod: PodSandbox, nodes: NodeSet) -> _Problem | None:
    """Return why a pod may not use these nodes."""
    allowed = context.allowed_nodes(pod)
    if allowed is None or nodes.issubset(allowed.nodes):
        return None
    return _Problem(
        f"its claims have {format_nodes(nodes)}, but {allowed.cause}",
        f"select devices by the attribute partition, {allowed.name!r} for this pod",
    )


def _problem_of_limits(
    found: list[_Used], own: Mapping[str, int], left: Mapping[str, int], names: tuple[str, ...]
) -> _Problem | None:
    """Return which limit of a container its claims cannot hold."""
    claims = f"claim {names[0]}" if len(names) == 1 else f"the claims {', '.join(names)}"
    if MEMORY not in left:
        remedy = "request device class dra.memory in the same claim"
        return _Problem(f"{claims} has no memory for it", remedy)
    for resource, limit_bytes in own.items():
        if limit_bytes <= left.get(resource, 0):
            continue
        total = humanize_bytes(_total(found, resource))
        free = humanize_bytes(left.get(resource, 0))
        limit = humanize_bytes(limit_bytes, round_up=True)
        return _Problem(
            f"its {resource} limit of {limit} exceeds what is left of {claims}: {free} of {total}"
            f"{_others(found)}",
            "lower its limit, or claim more",
        )
    if not own.get(MEMORY) and not left[MEMORY]:
        total = humanize_bytes(_total(found, MEMORY))
        return _Problem(
            f"nothing is left of the {total} memory of {claims}{_others(found)}",
            "set memory limits that add up to the claim",
        )
    return None


def _total(found: list[_Used], resource: str) -> int:
    amounts = (each.charged.amounts_of(each.requests) for each in found)
    return sum(wanted.get(resource, 0) for one in amounts for wanted in one.values())


def _others(found: list[_Used]) -> str:
    """Return which containers have the rest of claims; "" for none."""
    users = sorted(
        f"{user.pod}/{user.container}" for each in found for user in each.charged.users.values()
    )
    return f" (the rest has {', '.join(users[:3])})" if users else ""


def _adjustment(
    container: Container, nodes: NodeSet, own: Mapping[str, int], limits: Mapping[str, int]
) -> Adjustment:
    """Return what changes in a container that has the limits `own`, and gets `limits`."""
    mems = "" if container.cpuset_mems == str(nodes) else str(nodes)
    pages = {
        hugepages_page_size(name): size
        for name, size in limits.items()
        if name != MEMORY and own.get(name) != size
    }
    is_shown = container.hugepage_limits is not None
    return Adjustment(
        mems,
        pages,
        HugepageRoute.LIMITS if is_shown else HugepageRoute.UNIFIED,
        memory_limit_bytes=None if own.get(MEMORY) else limits[MEMORY],
    )


def _refused(
    state: EngineState,
    event: CreateContainer | UpdateContainer,
    claims: tuple[str, ...],
    problem: _Problem,
) -> Decision:
    """Refuse a creation or a resize; whenUnsatisfiable does not apply to claims."""
    pod, container = event.pod, event.container
    name = f"container {cut_name(container.name)} of pod {pod_name(pod)}"
    is_resize = isinstance(event, UpdateContainer)
    verb = "resized" if is_resize else "created"
    text = f"{PREFIX}{name} cannot be {verb}: {problem.cause}; {problem.remedy}"
    kind = records.ClaimResizeRejected if is_resize else records.ClaimUseRejected
    record = records.use_rejected(kind, pod, container, claims, *problem)
    return Decision.computed(Plan(refusal=text), state.with_pod(pod), record)


def _names(container: Container) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(use) for use in container.claims))


def _name(use: ClaimUse) -> str:
    return cut_name(use.name or use.uid)
