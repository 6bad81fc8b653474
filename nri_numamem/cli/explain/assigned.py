"""Containers whose decision is no longer in the history: what the state file has of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.cli.decisions.names import Key, Names
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.live.facts import pod_names
from nri_numamem.cli.render.texts import known_time
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import nodes_of
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import NodeSet
from nri_numamem.observe.state_file import existing_state_file, read_state


@dataclass(frozen=True, slots=True)
class Assigned:
    """A container in the state file."""

    names: Names
    nodes: NodeSet
    amounts: Mapping[str, int]
    """Resource name -> bytes."""
    has_ended: bool
    """Whether only the memory is kept, for the next containers of its pod."""
    since_s: int
    """Unix time of its placement; 0 if unknown."""
    event: str
    """The event that placed it; "" if unknown."""


def assigned(state_file: Path, query: Query, decided: Collection[Key]) -> tuple[Assigned, ...]:
    """Return the containers that the query means, without those in `decided`.

    A state file that cannot be read has none; ``status`` and ``doctor`` report why.
    """
    try:
        state = read_state(existing_state_file(state_file))
    except (OSError, SnapshotError):
        return ()
    return tuple(
        each
        for each in _assigned(state)
        if each.names.key not in decided and query.matches(each.names)
    )


def _assigned(state: EngineState) -> Iterator[Assigned]:
    pods = pod_names(state)
    for (uid, name), holder in state.holders.items():
        if isinstance(name, HolderKind):
            continue  # a part of a pod's limit
        blocks = state.blocks(holder.key) or ()
        reason = state.reasons.pinned.get(holder.container_id)
        yield Assigned(
            Names(*pods.get(uid, ("", "")), pod_uid=uid, container=name),
            nodes_of(blocks),
            {block.type: block.size for block in blocks},
            holder.ended,
            0 if reason is None else reason.since_s,
            "" if reason is None else reason.event,
        )


def assigned_document(found: Iterable[Assigned]) -> list[dict[str, object]]:
    """Return the containers as in a document; docs/explain.md describes it."""
    return [
        {
            **each.names.document(),
            "nodes": list(each.nodes),
            "resources": dict(each.amounts),
            "ended": each.has_ended,
            "since": known_time(each.since_s or None),
            "event": each.event or None,
        }
        for each in found
    ]
