"""The node sets that a decision considered, each with the rule that passed it over.

Computed when the record of the decision is written. Only the first sets are listed: the choice,
the groups, then single nodes by id.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from nri_numamem.engine.core.fields import free_bytes, provider_hints
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.request import NodeChooser
from nri_numamem.engine.core.state import NO_PREVIOUS_NODES, EngineState
from nri_numamem.engine.records.common import Candidate, Considered
from nri_numamem.engine.records.record import Later
from nri_numamem.memorymanager import Hint, Request, State
from nri_numamem.memorymanager.candidates import candidates_for
from nri_numamem.memorymanager.node_reasons import HAS_ROOM, Reason, Rule, reason_for, reason_of
from nri_numamem.numa import NodeSet

LIMIT = 8

RULES: Mapping[Rule, str] = {
    Rule.CHOSEN: "is the choice",
    Rule.TOO_SMALL: "could not hold the request even if it were empty",
    Rule.OTHER_GROUP: "has assignments of another group",
    Rule.BLOCKS_GROUP: "is too small by itself, and its single-node assignments keep it out of a "
    "group that could hold the request",
    Rule.NO_NORMAL_MEMORY: "has only memory in ZONE_MOVABLE; a container cannot start there",
    Rule.NOT_ENOUGH_FREE: "has not enough free memory or hugepages",
    Rule.NOT_ENOUGH_TOGETHER: "could hold the container, but all nodes together cannot hold the "
    "rest of its pod and of pods that run in part",
    Rule.OUTSIDE_POD_NODES: "is not where the pod as a whole is placed",
    Rule.NOT_ALIGNED: "has no node in common with the CPUs or a device of the container",
    Rule.NOT_PREFERRED: "has more nodes than the request needs",
    Rule.OTHER_COUNT: "does not have the number of nodes that the pod's annotation requests",
    Rule.REJECTED_BY_POLICY: "is not admitted by the Topology Manager policy",
    Rule.RANKS_LOWER: "holds the request, but the chosen nodes rank higher: by last-resort nodes, "
    "distance, room for the rest of the pod or for CPU requests, placementStrategy, node ids or "
    "the other memory of the pod",
}
"""Rule -> what it means for a node set, in the order of application."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was placed where."""

    accounting: State
    """Before the decision."""
    uid: str
    resources: Request
    nodes: NodeSet | None = None
    """The nodes that were chosen; None if the request was rejected."""
    others: OtherProviders = NO_OTHER_PROVIDERS
    pod_nodes: NodeSet | None = None
    """The nodes of the pod, if it is placed as a whole."""
    previous_nodes: NodeSet = NO_PREVIOUS_NODES
    chooser: NodeChooser | None = None
    """That of the request."""
    common: Reason | None = None
    """Why the request was rejected on all node sets that could hold it, if that is known."""


def considered(choice: Choice, after: EngineState) -> Later[Considered]:
    """Return the hints of every provider, and the candidates: their rules and free bytes.

    The free bytes are those of the state after the decision. A record that waits does not keep the
    two states, which have all pods: the nodes and what the pod can reuse suffice.
    """
    accounting = choice.accounting
    names = accounting.reusable.get(choice.uid)
    reusable = State(accounting.machine_state)
    if names:
        blocks = accounting.assignments[choice.uid]
        own = {name: blocks[name] for name in names}
        reusable = State(accounting.machine_state, {choice.uid: own}, {choice.uid: names})
    kept = replace(choice, accounting=reusable)
    return Later(partial(_considered, kept, State(after.accounting.machine_state)))


def _considered(choice: Choice, after: State) -> Considered:
    request = choice.resources
    found = candidates_for(choice.accounting, choice.uid, request, choice.previous_nodes)
    sets = (*{nodes.mask: nodes for nodes in _sets(choice)}.values(),)
    # All of `sets` that are admissible, except perhaps the choice.
    admissible = {nodes.mask for nodes in found.listed}
    hints, listed = list[Hint](), list[Candidate]()
    shown = sets[:LIMIT]
    for nodes in shown:
        if choice.chooser is not None:
            hint = _hint_by_chooser(choice, choice.chooser, nodes)
        else:
            hint = None
            if nodes.mask in admissible or (nodes == choice.nodes and found.admits(nodes)):
                hint = found.hint(nodes)
        reason = _reason(choice, nodes, hint)
        listed.append(Candidate(nodes=nodes, rule=reason.rule.value, reason=reason.text))
        if hint is not None:
            hints.append(Hint(nodes, hint.preferred))
    return Considered(
        hints=provider_hints(choice.others, (*hints,)),
        candidates=(*listed,),
        omitted_candidates=len(sets) - len(shown),
        free_bytes=free_bytes(after, request, set(chain.from_iterable(shown))),
    )


def reason_in(choice: Choice, nodes: NodeSet) -> Reason:
    """Return why one node set was chosen or passed over."""
    if choice.chooser is not None:
        return _reason(choice, nodes, _hint_by_chooser(choice, choice.chooser, nodes))
    found = candidates_for(choice.accounting, choice.uid, choice.resources, choice.previous_nodes)
    return _reason(choice, nodes, found.hint(nodes) if found.admits(nodes) else None)


def reasons_in(choice: Choice) -> Callable[[int], Reason]:
    """Return the function that returns the reason for a single node."""
    return lambda node_id: reason_in(choice, NodeSet([node_id]))


def _hint_by_chooser(choice: Choice, chooser: NodeChooser, nodes: NodeSet) -> Hint | None:
    """Return the hint for a node set; None if the chooser excludes it."""
    fits = chooser.fits(choice.accounting, choice.uid, choice.resources, nodes)
    return Hint(nodes, preferred=True) if fits else None


def _sets(choice: Choice) -> Iterator[NodeSet]:
    if choice.nodes:
        yield choice.nodes
    machine = choice.accounting.machine_state
    yield from (node.cells for node in machine.values() if len(node.cells) > 1)
    yield from (NodeSet([node_id]) for node_id in machine)


def _reason(choice: Choice, nodes: NodeSet, hint: Hint | None) -> Reason:
    """Return the reason for a node set; `hint` is None if the set is not admissible."""
    if nodes == choice.nodes:
        return reason_for(Rule.CHOSEN)
    if choice.common is not None and choice.common.rule is Rule.NOT_ENOUGH_TOGETHER:
        return choice.common
    if hint is not None:
        return _reason_of_admissible(choice, nodes, hint)
    accounting, request = choice.accounting, choice.resources
    if choice.chooser is not None:
        return choice.chooser.reason(accounting, choice.uid, request, nodes)
    found = candidates_for(accounting, choice.uid, request, choice.previous_nodes)
    return reason_of(accounting, choice.uid, request, found, nodes) or HAS_ROOM


def _reason_of_admissible(choice: Choice, nodes: NodeSet, hint: Hint) -> Reason:
    if choice.common is not None:
        return choice.common
    if choice.nodes is not None and choice.pod_nodes:
        return reason_for(Rule.OUTSIDE_POD_NODES)
    if choice.others.is_disjoint_from(nodes):
        return reason_for(Rule.NOT_ALIGNED)
    if not hint.preferred:
        return reason_for(Rule.NOT_PREFERRED)
    return HAS_ROOM if choice.nodes is None else reason_for(Rule.RANKS_LOWER)
