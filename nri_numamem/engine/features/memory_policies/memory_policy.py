"""The memory policy of a container that is created.

An annotation of the pod or a default of its namespace chooses the mode; the settings say which
modes are allowed. A policy only names nodes that the container may use without it, so it never
takes memory from elsewhere. Only the annotation `interleave:N` changes the placement, see
``even_group``.
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.plan import Adjustment, Plan
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.features.memory_policies import even_group, records
from nri_numamem.engine.features.memory_policies.records import ANNOTATION, DEFAULT, PolicyChoice
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import MemoryPolicy, NodeSet, OnUnsupported, mode_and_count, policy_of


def add_policy(
    context: Context,
    state: EngineState,
    event: CreateContainer,
    request: PolicyRequest,
    decision: Decision,
) -> Decision:
    """Return the decision with the container's memory policy, or with a refusal instead of it.

    A container that is refused already, or has neither annotation nor default, gets none.
    """
    if decision.plan.refusal is not None:
        return decision
    ignored: list[Record] = []
    for choice in _choices(context, event, request):
        found = _find(context, event, request, decision, choice)
        if isinstance(found, MemoryPolicy):
            adjustment = decision.plan.adjustment or Adjustment()
            adjustment = replace(adjustment, memory_policy=found)
            record = records.policy_set(event, choice, found)
            plan = replace(decision.plan, adjustment=adjustment)
            return replace(decision, plan=plan).with_records(*ignored, record)
        if _is_rejected(context):
            return _reject(state, event, choice, found)
        is_off = not context.policy.memory_policies.is_active
        ignored.append(records.ignored(event, choice, found, is_off=is_off))
    return decision.with_records(*ignored) if ignored else decision


def _choices(
    context: Context, event: CreateContainer, request: PolicyRequest
) -> Iterable[PolicyChoice]:
    """Yield the annotation, then the namespace's default, which holds if the former is ignored."""
    if request.annotation:
        yield PolicyChoice(request.annotation, ANNOTATION)
    default = context.policy.memory_policies.defaults.get(event.pod.namespace)
    if default is not None:
        yield PolicyChoice(default.value, DEFAULT)


def _is_rejected(context: Context) -> bool:
    policies = context.policy.memory_policies
    return policies.is_active and policies.on_unsupported is OnUnsupported.REJECT


def _find(
    context: Context,
    event: CreateContainer,
    request: PolicyRequest,
    decision: Decision,
    choice: PolicyChoice,
) -> MemoryPolicy | str:
    """Return the policy that was chosen, or why it cannot be set."""
    if choice.source == ANNOTATION:
        obstacle = context.policy.memory_policies.obstacle(event.pod.namespace, choice.text)
        if obstacle:
            return obstacle
    mode, count = mode_and_count(choice.text)
    obstacle = even_group.unsupported(request, mode)
    if obstacle:
        return obstacle
    plan = decision.plan
    mems = plan.adjustment.cpuset_mems if plan.adjustment is not None else ""
    mems = mems or event.container.cpuset_mems
    try:
        nodes = _nodes(context, mems)
    except ValueError:
        return f"its cpuset.mems {cut_name(mems)!r} is not a list of NUMA nodes"
    if not nodes:
        where = f"on its NUMA nodes {cut_name(mems)}" if mems else "on the machine's NUMA nodes"
        return f"there is no memory {where}"
    # A container that starts unpinned, because no nodes have room, interleaves over all nodes.
    if count and decision.rejection is None and not (mems and len(nodes) == count):
        return even_group.obstacle(context, event, count) or even_group.SHARED
    near = _near(context, event) if mems else NodeSet()
    return policy_of(mode, nodes, near)


def _nodes(context: Context, mems: str) -> NodeSet:
    """Return the nodes with memory that a container may use; "" means no limit.

    Without a limit these are the nodes for placement, without excluded and last-resort nodes.
    Raises ValueError if `mems` is not a list of nodes.
    """
    memory = NodeSet(node.node_id for node in context.machine.nodes if node.memory_bytes)
    if mems:
        return memory & NodeSet.parse(mems)
    classification = context.classification
    return memory - classification.excluded - classification.last_resort


def _near(context: Context, event: CreateContainer) -> NodeSet:
    """Return the nodes of the container's devices, or those of its CPUs; empty if unknown."""
    others = context.other_providers_of(event.container)
    if others is NO_OTHER_PROVIDERS:
        return NodeSet()
    devices = NodeSet(node for nodes in others.all_devices for node in nodes)
    return devices or others.cpu or NodeSet()


def _reject(
    state: EngineState, event: CreateContainer, choice: PolicyChoice, obstacle: str
) -> Decision:
    """Refuse the container; the decision on its nodes has not happened."""
    record = records.rejected(event, choice, obstacle)
    text = records.refusal_text(event, choice, obstacle)
    return Decision(Plan(refusal=text), lambda: Transition(state, (record,)))
