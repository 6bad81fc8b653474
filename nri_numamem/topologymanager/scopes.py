"""Admission: collect hints, merge, judge, allocate, per container or for a pod at once.

The memory manager is the only provider here that allocates. Others (device and CPU manager) are
asked beforehand by whoever knows them and come in as answers, in the kubelet's order: they stand
before the memory manager. A rejection changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from nri_numamem.memorymanager.choices import choices_for
from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.hints import container_hints, pod_hints
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.pod import Pod, pod_request
from nri_numamem.memorymanager.quantity import MEMORY
from nri_numamem.memorymanager.refusal import (
    NOT_ALIGNED,
    TOPOLOGY,
    UNEXPECTED,
    Rejection,
    allocation_failed,
    reject,
)
from nri_numamem.memorymanager.state import Request, State
from nri_numamem.memorymanager.static import NO_DEFAULT, Allocated, allocate, choose_nodes
from nri_numamem.topologymanager.merge import (
    HintList,
    Policy,
    ProviderHints,
    admits_all,
    merge,
    offers_of,
)
from nri_numamem.values import valueclass


@valueclass(frozen=True, slots=True)
class Topology:
    """How the Topology Manager is set."""

    policy: Policy = Policy.BEST_EFFORT
    preferences: Preferences = field(default_factory=Preferences)

    def at_home(self, home: NodeSet) -> "Topology":
        """Return the same for a container that had these nodes before."""
        known = self.preferences
        return Topology(self.policy, Preferences(known.distances, known.prefer_closest, home))


@valueclass(frozen=True, slots=True)
class Admitted:
    """Containers that were placed."""

    state: State
    containers: Mapping[str, Allocated]
    """Container name -> what it got; left alone when it has no blocks."""
    hints: Mapping[str, Hint]
    """Container name -> the merged hint that it was placed by."""


def admit_container(
    state: State,
    pod: Pod,
    name: str,
    topology: Topology,
    others: Sequence[ProviderHints] = (),
) -> Admitted | Rejection:
    """Admit one container: merge its hints with the `others`, and place it.

    Source: kubelet topologymanager, scope_container.go.
    """
    hint, own = _merged(state, pod, name, topology, others)
    if hint is None:
        return _refused(state, pod, pod.container(name).requests, own, topology)
    return _place(state, pod, (name,), hint, topology)


def nodes_for_container(
    state: State,
    pod: Pod,
    name: str,
    topology: Topology,
    others: Sequence[ProviderHints] = (),
) -> tuple[NodeSet, Hint] | Rejection:
    """Return where admit_container() would place a container, and the merged hint for it."""
    hint, own = _merged(state, pod, name, topology, others)
    if hint is None:
        return _refused(state, pod, pod.container(name).requests, own, topology)
    nodes, is_offered = hint.affinity, own is not None and hint in own
    if nodes is not None and is_offered and state.blocks(pod.uid, name) is None:
        return nodes, hint  # offered because it is a place; other hints are looked at
    found = choose_nodes(state, pod, name, hint, topology.preferences)
    return found if isinstance(found, Rejection) else (found, hint)


def _merged(
    state: State, pod: Pod, name: str, topology: Topology, others: Sequence[ProviderHints]
) -> tuple[Hint | None, HintList | None]:
    """Return a container's merged hint, or None to refuse it, and the memory manager's own."""
    offers = offers_of(others, topology.policy)
    own = container_hints(state, pod, name, topology.preferences, offers)
    if own and not others and topology.policy is Policy.BEST_EFFORT:
        return own[0], own  # the only one, on nodes of the machine: as it would come out of a merge
    return _judge(state, own, topology, others), own


def admit_containers(
    state: State,
    pod: Pod,
    topology: Topology,
    others: Mapping[str, Sequence[ProviderHints]] | None = None,
) -> Admitted | Rejection:
    """Admit all containers of a pod, one after the other, in the kubelet's order.

    `others` are the other providers' answers per container. The kubelet leaves earlier containers
    allocated when a later one is refused; here the pod is admitted whole or not at all.
    """
    admitted = Admitted(state, {}, {})
    for container in pod.containers:
        answers = (others or {}).get(container.name, ())
        one = admit_container(admitted.state, pod, container.name, topology, answers)
        if isinstance(one, Rejection):
            return one
        admitted = Admitted(
            one.state,
            {**admitted.containers, **one.containers},
            {**admitted.hints, **one.hints},
        )
    return admitted


def admit_pod(
    state: State, pod: Pod, topology: Topology, others: Sequence[ProviderHints] = ()
) -> Admitted | Rejection:
    """Admit a pod as a whole: one merge for its request, then place every container by it.

    The kubelet demands of each container that nothing smaller than the pod's nodes would do for
    it, once its init containers have used up what is free there, and so refuses pods that fit.
    Here that is asked of the pod only. Source: kubelet topologymanager, scope_pod.go.
    """
    offers = offers_of(others, topology.policy)
    own = pod_hints(state, pod, topology.preferences, offers)
    hint = _judge(state, own, topology, others)
    if hint is None:
        return _refused(state, pod, pod_request(pod), own, topology)
    names = tuple(c.name for c in pod.containers)
    judged = hint if hint.affinity is None else replace(hint, preferred=False)
    placed = _place(state, pod, names, judged, topology)
    if isinstance(placed, Rejection):
        return placed
    return replace(placed, hints=dict.fromkeys(names, hint))


def _judge(
    state: State, own: HintList | None, topology: Topology, others: Sequence[ProviderHints]
) -> Hint | None:
    """Merge the memory manager's hints with the others; None is "impossible", or policy's no."""
    if own is not None and not own:
        return None
    # All resources have the same list; it counts once (see memorymanager.hints).
    answers = (*others, {MEMORY: own})
    hint, admits = merge(answers, state.machine_state, topology.policy, topology.preferences)
    return hint if admits else None


def _refused(
    state: State, pod: Pod, request: Request, own: HintList | None, topology: Topology
) -> Rejection:
    """Return why _judge() gave no hint."""
    reason, sentence = TOPOLOGY, NOT_ALIGNED
    if not own and admits_all(topology.policy):
        # No allocation could succeed; the text of the kubelet's default case says why best.
        reason, sentence = UNEXPECTED, allocation_failed(NO_DEFAULT)
    choices = choices_for(state, pod.uid, request, topology.preferences.home)
    return reject(state, request, choices, topology.preferences, reason, sentence)


def _place(
    state: State, pod: Pod, names: tuple[str, ...], hint: Hint, topology: Topology
) -> Admitted | Rejection:
    placed: dict[str, Allocated] = {}
    for name in names:
        allocated = allocate(state, pod, name, hint, topology.preferences)
        if isinstance(allocated, Rejection):
            return allocated
        state = allocated.state
        placed[name] = allocated
    return Admitted(state, placed, dict.fromkeys(names, hint))
