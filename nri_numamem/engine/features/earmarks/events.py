"""Events of earmarks: one is made or renewed, dropped, or its time is over.

The room need not be free when an earmark is made: pods that are to be restarted may still have it.
It must fit on its nodes beside the other earmarks when the nodes are empty. All earmarks together
have at most a share of the host (`earmarks.maxPercent`), because others cannot use them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from nri_numamem.engine.core.allowed_nodes import rooms_left
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.core.events import FeatureEvent
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.earmarks import records
from nri_numamem.memorymanager.blocks import resource_order
from nri_numamem.numa import humanize_bytes
from nri_numamem.numa.quantity import sum_mappings


@dataclass(frozen=True, slots=True)
class MakeEarmark(FeatureEvent):
    """Set room aside, or renew an earmark."""

    earmark: Earmark

    def decide(self, context: Context, state: EngineState) -> Decision:
        """Set the room aside, or refuse it; the refusal of the plan is the answer."""
        earmark, known = self.earmark, state.earmarks.get(self.earmark.uid)
        if known == earmark:
            return Decision.computed(NO_PLAN, state)
        is_same = known is not None and known.room == earmark.room
        if known is not None and is_same and known.beneficiary == earmark.beneficiary:
            renewed = replace(known, expires_s=earmark.expires_s)
            record = records.EarmarkRenewed(
                names=records.names_of(renewed), expires_s=renewed.expires_s
            )
            return Decision.computed(NO_PLAN, _with(state, renewed), record)
        cause = "; ".join(_problems(context, state, earmark))
        if cause:
            rejected = records.EarmarkRejected(names=records.names_of(earmark), cause=cause)
            return Decision.computed(Plan(refusal=cause), state, rejected)
        begun = earmark.began(state.accounting, state.pods.values(), state.outstanding)
        made = records.EarmarkMade(names=records.names_of(begun), expires_s=begun.expires_s)
        return Decision.computed(NO_PLAN, _with(state, begun), made)


@dataclass(frozen=True, slots=True)
class DropEarmark(FeatureEvent):
    """End an earmark."""

    uid: str

    def decide(self, context: Context, state: EngineState) -> Decision:
        """End it; nothing happens if there is none with this uid."""
        return _end(state, (self.uid,), "it was dropped")


@dataclass(frozen=True, slots=True)
class EndExpiredEarmarks(FeatureEvent):
    """End the earmarks whose time is over."""

    now_s: float
    """Unix time."""

    def decide(self, context: Context, state: EngineState) -> Decision:
        """End them."""
        ended = tuple(uid for uid, each in state.earmarks.items() if each.expires_s <= self.now_s)
        return _end(state, ended, "its time is over")


def _with(state: EngineState, earmark: Earmark) -> EngineState:
    return replace(state, earmarks={**state.earmarks, earmark.uid: earmark})


def _end(state: EngineState, uids: tuple[str, ...], cause: str) -> Decision:
    ended = [state.earmarks[uid] for uid in uids if uid in state.earmarks]
    left = {uid: each for uid, each in state.earmarks.items() if uid not in uids}
    pods = state.pods.values()
    found = [
        records.EarmarkEnded(
            names=records.names_of(each),
            cause=cause,
            left_bytes=dict(each.left(state.accounting, pods).amounts),
        )
        for each in ended
    ]
    return Decision.computed(NO_PLAN, replace(state, earmarks=left) if ended else state, *found)


def _problems(context: Context, state: EngineState, earmark: Earmark) -> Iterator[str]:
    """Yield why an earmark cannot be made; of several kinds the first one."""
    machine, nodes = state.accounting.machine_state, earmark.room.nodes
    missing = [n for n in nodes if n not in machine]
    if missing:
        yield f"there is no NUMA node {missing[0]} for pods"
        return
    others = rooms_left(state, lambda each: each.uid != earmark.uid)
    for uid, room in others.items():
        if room.nodes != nodes and not room.nodes.isdisjoint(nodes):
            where, who = format_nodes(room.nodes), state.earmarks[uid].beneficiary
            yield f"room on {where} is set aside for {who}; drop that earmark ({uid})"
            return
    amounts = earmark.room.amounts
    on_nodes = sum_mappings(room.amounts for room in others.values() if room.nodes == nodes)
    allocatable = {name: sum(machine[n].table(name).allocatable for n in nodes) for name in amounts}
    yield from _too_much(amounts, on_nodes, allocatable, f"on {format_nodes(nodes)}")
    percent = context.policy.earmarks_percent
    most = {
        name: sum(node.table(name).allocatable for node in machine.values()) * percent // 100
        for name in amounts
    }
    held = sum_mappings(room.amounts for room in others.values())
    yield from _too_much(amounts, held, most, f"in all (earmarks.maxPercent: {percent})")


def _too_much(
    wanted: Mapping[str, int], held: Mapping[str, int], most: Mapping[str, int], where: str
) -> Iterator[str]:
    for name in sorted(wanted, key=resource_order):
        if wanted[name] + held.get(name, 0) > most[name]:
            size = humanize_bytes(wanted[name], round_up=True)
            other = f" besides {humanize_bytes(held[name])}" if held.get(name) else ""
            yield f"{name} {size}{other} is more than {humanize_bytes(most[name])} {where}"
