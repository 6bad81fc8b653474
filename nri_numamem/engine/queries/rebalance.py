"""Rebalancing plans on the engine's state: which pods' shares may move, and where a request fits.

``memorymanager.rebalance`` searches. Here is what it needs: the shares of running pods with their
obstacles, and the trial of a creation by the engine, as the runtime's request would be decided.
No request of a runtime comes here: commands compute plans from the state file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.engine.admission.remedy_inputs import trial_context
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.rebalance import Place, Share, assignments_of
from nri_numamem.numa import MEMORY, NodeSet

HUGEPAGES = "hugepages"
DEVICES = "devices"
OWN_CPUS = "CPUs of its own"
POLICY = "a memory policy"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What the host shows of a running container."""

    resident_bytes: int | None = None
    """Anonymous and shared memory; None if unknown."""
    has_hugepages: bool = False
    has_own_cpus: bool = False
    """Its `cpuset.cpus` is set: its threads would stay behind. CPUs that a reply of the plugin set
    are no obstacle."""
    has_policy: bool = False
    """Its memory policy names nodes, which a move destroys."""


_UNKNOWN = ContainerFacts()


def shares_of(
    state: EngineState, facts: Mapping[str, ContainerFacts], uids: Iterable[str]
) -> tuple[Share, ...]:
    """Return what these pods have on single nodes, in the order of their uids and nodes.

    `facts` is by container id. What only ended containers have is no share.
    """
    return tuple(share for uid in sorted(uids) for share in _shares_of_pod(state, facts, uid))


def _shares_of_pod(
    state: EngineState, facts: Mapping[str, ContainerFacts], uid: str
) -> Iterator[Share]:
    blocks = [b for found in state.accounting.assignments.get(uid, {}).values() for b in found]
    singles = {b.numa_affinity for b in blocks if len(b.numa_affinity) == 1}
    for node_id in sorted(next(iter(nodes)) for nodes in singles):
        names = assignments_of(state.accounting, uid, node_id)
        holders = [state.holders.get((uid, name)) for name in names if isinstance(name, str)]
        live = [holder for holder in holders if holder is not None and not holder.ended]
        if not live:
            continue
        found = [facts.get(holder.container_id, _UNKNOWN) for holder in live]
        known = [each.resident_bytes for each in found if each.resident_bytes is not None]
        yield Share(
            uid,
            node_id,
            tuple(holder.container_name for holder in live),
            sum(known) if len(known) == len(live) else None,
            is_consented=all(holder.is_movable for holder in live),
            obstacle=_obstacle(state, names, live, found),
        )


def _obstacle(
    state: EngineState,
    names: Iterable[HolderName],
    live: Sequence[Holder],
    facts: Iterable[ContainerFacts],
) -> str:
    """Return what a share must not move with; "" if nothing is known."""
    uid, found = live[0].key[0], list(facts)
    blocks = [block for name in names for block in state.accounting.assignments[uid][name]]
    if any(b.type != MEMORY and b.size for b in blocks) or any(f.has_hugepages for f in found):
        return HUGEPAGES
    if any(holder.container_id in state.cpusets.with_devices for holder in live):
        return DEVICES
    if any(f.has_own_cpus and not h.cpus for h, f in zip(live, found, strict=True)):
        return OWN_CPUS
    return POLICY if any(f.has_policy for f in found) else ""


def placing(context: Context, state: EngineState, event: CreateContainer) -> Place:
    """Return a function that decides a creation in another accounting of this state."""
    trial = trial_context(context)

    def place(accounting: State) -> NodeSet | None:
        engine = Engine.with_state(trial, state.with_accounting(accounting))
        plan = engine.decide(event)
        if engine.rejection is not None:
            return None
        adjustment = plan.adjustment
        return NodeSet() if adjustment is None else NodeSet.parse(adjustment.cpuset_mems)

    return place
