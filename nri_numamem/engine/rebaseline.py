"""The machine changed while pods run: memory went or came, a hugepage pool was resized.

The books are made anew for the machine as it is now, from what is on them, as a Synchronize of
the same containers would make them: what runs keeps its nodes, what pods hold for their next
containers is kept, pools are made anew around them. What no longer fits is named, once, and so is
what fits again. A machine that does not go with the settings is not taken over: the books of the
old one stay, and that is told.

Memory sizes drift by a little all the time where a balloon driver is at work. Such drift is
followed without a word in the log (level debug) until it adds up to more than a hundredth.
Knows nothing of how a change is noticed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nri_numamem.engine import podscope
from nri_numamem.engine.context import Context
from nri_numamem.engine.events import MachineChanged
from nri_numamem.engine.plan import Plan, Record, RecordValue
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import (
    MEMORY,
    Block,
    Machine,
    NodeSet,
    NumaNode,
    ReservedMemoryError,
    adopt,
    give_back,
    hugepages_resource,
)

# Of a node's memory. A reboot makes less of a difference, and a balloon's small steps add up.
_DRIFT_PERCENT = 1

Outcome = tuple[Context, EngineState, Plan]


def rebaseline(context: Context, state: EngineState, event: MachineChanged) -> Outcome:
    """Return context and state for the machine as it is now; the old ones if it cannot be used."""
    machine = event.machine
    if machine == context.machine:
        return context, state, Plan()
    try:
        changed = Context.of(machine, context.settings)
    except ReservedMemoryError as error:
        return context, state, Plan(records=(_not_used(error),))
    is_drift = _is_drift(context.announced, machine)
    if is_drift:
        changed = replace(changed, announced=context.announced)
    fresh = _with_new_books(changed, state)
    told = _changed(context.announced, machine, fresh, is_drift=is_drift)
    return changed, fresh, Plan(records=(told, *_what_fits(state, fresh)))


def _with_new_books(context: Context, state: EngineState) -> EngineState:
    """Put everything on the books of the new machine, in the order of a Synchronize."""
    holders = {key: h for key, h in state.holders.items() if key[1] != podscope.POOL}
    running = [h for h in holders.values() if not h.ended]
    ended = [h for h in holders.values() if h.ended]
    books = context.empty_books()
    for holder in sorted(running, key=lambda h: (h.sandbox_id, h.container_id)):
        books = adopt(books, *holder.key, *_held(state, holder)).state
    for holder in sorted(ended, key=lambda h: h.key):
        books = adopt(books, *holder.key, *_held(state, holder)).state
        books = give_back(books, *holder.key)
    keys = {container_id: key for container_id, key in state.keys.items() if key in holders}
    fresh = replace(state, books=books, holders=holders, keys=keys)
    return podscope.synchronize(context, state, fresh, state.pods.values())[0]


def _held(state: EngineState, holder: Holder) -> tuple[NodeSet, Mapping[str, int]]:
    uid, name = holder.key
    blocks = state.books.assignments[uid][name]
    return blocks[0].numa_affinity, {block.type: block.size for block in blocks}


def _not_used(error: ReservedMemoryError) -> Record:
    fields: dict[str, RecordValue] = {
        "why": str(error),
        "remedy": "adapt the settings to the machine and restart the plugin; "
        "until then the books are those of the machine before",
    }
    return Record("machine changed, but does not go with the settings", "warning", fields)


def _is_drift(before: Machine, now: Machine) -> bool:
    """Tell whether the two differ by nothing but a little memory."""
    if before.node_set != now.node_set:
        return False
    return all(
        replace(new, memory_bytes=old.memory_bytes) == old
        and abs(new.memory_bytes - old.memory_bytes) * 100 <= old.memory_bytes * _DRIFT_PERCENT
        for old, new in zip(before.nodes, now.nodes, strict=True)
    )


def _changed(before: Machine, now: Machine, fresh: EngineState, *, is_drift: bool) -> Record:
    """Record what became of the machine; nodes that did not change are left out."""
    old = {node.node_id: node for node in before.nodes}
    nodes: dict[str, RecordValue] = {}
    for node in now.nodes:
        known = old.get(node.node_id)
        if node != known:
            tables = fresh.books.machine_state[node.node_id].memory_map
            free = {name: table.free for name, table in tables.items()}
            nodes[str(node.node_id)] = {**_differences(known, node), "free": free}
    fields: dict[str, RecordValue] = {"nodes": nodes}
    gone = before.node_set - now.node_set
    if gone:
        fields["nodes_gone"] = str(gone)
    return Record("machine changed", "debug" if is_drift else "info", fields)


def _differences(old: NumaNode | None, new: NumaNode) -> dict[str, RecordValue]:
    before = {} if old is None else _figures(old)
    found: dict[str, RecordValue] = {}
    for name, figure in _figures(new).items():
        if before.get(name) != figure:
            found[name] = figure
            if name in before:
                found[f"{name}_before"] = before[name]
    found.update((f"{name}_before", before[name]) for name in before if name not in _figures(new))
    return found


def _figures(node: NumaNode) -> dict[str, RecordValue]:
    pools = {hugepages_resource(size): size * count for size, count in node.hugepages.items()}
    distances = " ".join(f"{other}:{distance}" for other, distance in node.distances.items())
    return {MEMORY: node.memory_bytes, **pools, "cpus": len(node.cpus), "distances": distances}


def _what_fits(before: EngineState, now: EngineState) -> Iterator[Record]:
    """Name what the books cannot hold any more, and what they can hold again."""
    for key, holder in sorted(now.holders.items()):
        blocks = now.books.assignments[key[0]][key[1]]
        blocks_before = before.blocks(key) or ()
        shortfall = _shortfall(blocks)
        if shortfall == _shortfall(blocks_before):
            continue
        fields = _who(now, holder, blocks)
        if shortfall:
            fields["does_not_fit"] = dict(shortfall)
        # On a node that is full to the brim each drift makes a small difference; that is no news.
        old, new = (_shortfall(b, _DRIFT_PERCENT).keys() for b in (blocks_before, blocks))
        if new - old:
            yield Record("does not fit any more", "warning", fields)
        elif old and not new:
            yield Record("fits again", fields=fields)
        else:
            yield Record("does not fit any more" if shortfall else "fits again", "debug", fields)


def _shortfall(blocks: tuple[Block, ...], least_percent: int = 0) -> dict[str, int]:
    """Return resource name -> bytes that the books do not hold, if more than a part of it."""
    missing = ((block, block.size - block.charged) for block in blocks)
    return {b.type: left for b, left in missing if left * 100 > b.size * least_percent}


def _who(state: EngineState, holder: Holder, blocks: tuple[Block, ...]) -> dict[str, RecordValue]:
    uid, name = holder.key
    nodes = blocks[0].numa_affinity
    pod = state.pods[holder.sandbox_id]
    fields: dict[str, RecordValue] = {"pod": pod.name, "namespace": pod.namespace, "pod_uid": uid}
    if name != podscope.POOL:
        fields |= {"container": name, "container_id": holder.container_id, "ended": holder.ended}
    fields |= {"request": {block.type: block.size for block in blocks}, "nodes": str(nodes)}
    gone = nodes - NodeSet(state.books.machine_state)
    if gone:
        fields["nodes_gone"] = str(gone)
    return fields
