"""The feature that resource claims choose NUMA nodes: where its hooks lead.

A container with claims is not placed, and it holds nothing in the accounting: its claims do. A
pod's limit contains the requests of such containers, which mirror their claims for the scheduler.
So the rules for pods see the pod's limit without its claims.

A container with claims that is not adjusted does not start, because the hook of its claims compares
its NUMA nodes. So it needs no search in cgroups and no repair.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nri_numamem.engine.core.claims import ChargedClaim, charged
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodCgroupGone,
    PodSandbox,
    RemoveContainer,
    RemovePodSandbox,
    RunPodSandbox,
    StopContainer,
    StopPodSandbox,
    Synchronize,
    UpdateContainer,
    UpdatePodSandbox,
)
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.claims import containers, records
from nri_numamem.engine.features.claims.events import released
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.running.synchronize import known_state
from nri_numamem.memorymanager.claims import Claim, ClaimAmounts
from nri_numamem.numa import MEMORY, hugepages_resource
from nri_numamem.numa.quantity import sum_mappings


class ResourceClaims(Feature):
    """Resource claims choose NUMA nodes (`claims`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether memory is managed."""
        return context.policy.is_static

    def requested(self, state: EngineState, event: Event) -> Event:
        """Return the event whose pods have limits without their claims."""
        if isinstance(event, Synchronize):
            claims = claims_at(known_state(state), event).values()
            pods = tuple(without_claims(pod, claims) for pod in event.pods)
            return replace(event, pods=pods)
        if not state.claims:
            return event
        if isinstance(event, CreateContainer):
            uids = {use.uid for use in event.container.claims}
            pod = without_claims(event.pod, state.claims.values(), uids)
            return replace(event, pod=pod)
        if isinstance(event, RunPodSandbox | UpdatePodSandbox | UpdateContainer):
            return replace(event, pod=without_claims(event.pod, state.claims.values()))
        return event

    def decided(
        self, context: Context, state: EngineState, event: CreateContainer
    ) -> Decision | None:
        """Return the decision on a container with claims."""
        return containers.create(context, state, event)

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision on a resize of a container with claims, and end what ended."""
        if not state.claims:
            return decision
        if isinstance(event, UpdateContainer):
            return containers.update(state, event) or decision
        ended = _ended(state, event)
        return _without_users(decision, ended) if ended else decision

    def began(self, state: EngineState, old: EngineState, event: Synchronize) -> EngineState:
        """Return the state with the claims that are prepared, or that running containers use."""
        claims = claims_at(old, event)
        accounting = charged(state.accounting, claims.values())
        state = replace(state, accounting=accounting, claims=claims)
        for container in sorted(event.containers, key=lambda one: one.container_id):
            pod = state.pods.get(container.sandbox_id)
            if container.claims and pod is not None and not container.ended:
                state = containers.running(state, pod, container)
        return state


def claims_at(old: EngineState, event: Synchronize) -> dict[str, ChargedClaim]:
    """Return uid -> claim at a Synchronize, without containers; `old` is the state before it.

    A claim that is not prepared any more is known by the containers that use it.
    """
    prepared = event.claims
    if prepared is None:
        prepared = tuple(each.claim for each in old.claims.values() if each.is_prepared)
    found = {claim.uid: ChargedClaim(claim) for claim in sorted(prepared, key=lambda c: c.uid)}
    unprepared: dict[str, Claim] = {}
    for container in event.containers:
        for use in () if container.ended else container.claims:
            if use.uid in found or not use.amounts:
                continue
            namespace, _slash, name = use.name.partition("/")
            claim = unprepared.get(use.uid, Claim(use.uid, namespace, name, {}))
            requests: Mapping[str, ClaimAmounts] = {**claim.requests, use.request: use.amounts}
            unprepared[use.uid] = replace(claim, requests=requests)
    left = {uid: ChargedClaim(claim, is_prepared=False) for uid, claim in unprepared.items()}
    return _with_pods(found | dict(sorted(left.items())), event)


def _with_pods(claims: dict[str, ChargedClaim], event: Synchronize) -> dict[str, ChargedClaim]:
    """Return the claims with the uids of the pods whose containers use them."""
    uids = {pod.sandbox_id: pod.uid for pod in event.pods}
    for container in event.containers:
        for use in container.claims:
            if use.uid in claims and container.sandbox_id in uids:
                each = claims[use.uid]
                pods = each.claim.pods | {uids[container.sandbox_id]}
                claims[use.uid] = replace(each, claim=replace(each.claim, pods=pods))
    return claims


def without_claims(
    pod: PodSandbox, claims: Iterable[ChargedClaim], uids: Iterable[str] = ()
) -> PodSandbox:
    """Return a pod whose limits do not contain its claims, among them those with `uids`."""
    also = frozenset(uids)
    amounts = sum_mappings(
        wanted
        for each in claims
        if each.claim.uid in also or _is_of_pod(each, pod.uid)
        for wanted in each.claim.amounts.values()
    )
    if not amounts:
        return pod
    memory = max(0, (pod.memory_limit_bytes or 0) - amounts.get(MEMORY, 0))
    pages = {
        size: max(0, limit - amounts.get(hugepages_resource(size), 0))
        for size, limit in pod.hugepage_limits.items()
    }
    return replace(pod, memory_limit_bytes=memory or None, hugepage_limits=pages)


def _is_of_pod(each: ChargedClaim, uid: str) -> bool:
    return uid in each.claim.pods or any(user.pod_uid == uid for user in each.users.values())


def _ended(state: EngineState, event: Event) -> frozenset[str]:
    """Return the ids of containers with claims that an event ends."""
    users = (user for each in state.claims.values() for user in each.users.values())
    if isinstance(event, StopContainer | RemoveContainer):
        one: Container = event.container
        return frozenset(u.container_id for u in users if u.container_id == one.container_id)
    if isinstance(event, StopPodSandbox | RemovePodSandbox | PodCgroupGone):
        sandbox_id = event.pod.sandbox_id
        return frozenset(u.container_id for u in users if u.sandbox_id == sandbox_id)
    return frozenset()


def _without_users(decision: Decision, ended: frozenset[str]) -> Decision:
    """Return the decision after which these containers use no claims any more."""

    def transition() -> Transition:
        done = decision.compute_transition()
        state, more = done.state, list[Record]()
        for uid, each in done.state.claims.items():
            if ended.isdisjoint(each.users):
                continue
            left = each.without_users(ended)
            state = replace(state, claims={**state.claims, uid: left})
            if not left.users and not left.is_prepared:
                state = released(state, uid)
                more.append(records.released(each.claim))
        return replace(done, state=state, records=(*done.records, *more))

    return replace(decision, compute_transition=transition)
