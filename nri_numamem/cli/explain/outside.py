"""Hugepages used outside of pods that a refused container lacks, on the host as it is now.

Their end is tried by the code that places before it is named as the remedy.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.live.outside import OutsideUse, outside_uses
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.queries.rebalance import placing
from nri_numamem.memorymanager import PoolUse, Request, mask_unavailable_hugepages
from nri_numamem.numa import NodeSet

# Of nodes and page sizes; each is one trial.
_TRIALS = 16


@dataclass(frozen=True, slots=True)
class Outside:
    """The use of requested hugepages outside of pods, and what its end changes."""

    uses: tuple[OutsideUse, ...] = ()
    ended: tuple[OutsideUse, ...] = ()
    """Those whose end makes the request fit; empty if it fits now, or does not fit then."""
    nodes: NodeSet = field(default_factory=NodeSet)
    """Where it then fits."""

    @property
    def remedy(self) -> str:
        """Return what to free, and by whom it is used; "" if that does not suffice."""
        if not self.ended:
            return ""
        what = " and ".join(
            f"{use.pages(use.size_bytes)}{f' on {use.where}' if use.nodes else ''}, {use.verb} "
            f"outside of pods{f' by {use.known_users}' if use.known_users else ''}"
            for use in self.ended
        )
        return f"free {what}; the request then fits on {format_nodes(self.nodes)}"


def outside_of(
    context: Context, state: EngineState, facts: Facts, event: CreateContainer, request: Request
) -> Outside:
    """Return the use of the requested sizes; `event` is the creation that was refused."""
    uses = tuple(use for use in outside_uses(facts) if use.resource in request)
    if not uses or facts.pool_use is None:
        return Outside()
    trial = _Trial(context, state, event, facts.pool_use)
    nodes = trial.nodes_after(uses)
    if nodes is None or trial.nodes_after(()) is not None:
        return Outside(uses)
    ended = uses
    for use in reversed(uses[:_TRIALS]):
        fewer = tuple(each for each in ended if each is not use)
        found = trial.nodes_after(fewer)
        if found is not None:
            ended, nodes = fewer, found
    return Outside(uses, ended, nodes)


@dataclass(frozen=True, slots=True)
class _Trial:
    context: Context
    state: EngineState
    event: CreateContainer
    pool_use: PoolUse

    def nodes_after(self, ended: Collection[OutsideUse]) -> NodeSet | None:
        """Return the nodes of the container after the end of these uses; None if refused."""
        places = {(use.nodes, use.resource) for use in ended}
        masked = mask_unavailable_hugepages(self.state.accounting, self.pool_use, places)
        # The pools are in the accounting that is tried.
        place = placing(self.context, self.state, replace(self.event, pool_use=None))
        return place(masked.state)
