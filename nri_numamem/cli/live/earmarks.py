"""Earmarks for commands: a table for people, and a document."""

from nri_numamem.cli.decisions.outcomes import amounts_text
from nri_numamem.cli.render.bars import fixed, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.cli.render.texts import duration, format_time
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import escape


def show_earmarks(screen: Screen, state: EngineState | None, now_s: float) -> None:
    """Print the earmarks, if there are any."""
    if state is None or not state.earmarks:
        return
    pods = state.pods.values()
    screen.heading("Earmarks")
    table = plain_table("for", fixed("nodes"), "set aside", "left", "ends in", "earmark", gap=1)
    for uid, each in sorted(state.earmarks.items()):
        left = each.left(state.accounting, pods).amounts
        table.add_row(
            escape(str(each.beneficiary)),
            str(each.room.nodes),
            amounts_text(each.room.amounts),
            amounts_text(left) if left else "nothing",
            duration(max(0.0, each.expires_s - now_s)),
            escape(uid),
        )
    screen.shown(table)
    screen.text("left: what its pods have not used; no other pod gets it.")


def earmarks_document(state: EngineState | None) -> list[dict[str, object]]:
    """Return the earmarks as in a document; docs/status.md describes it."""
    if state is None:
        return []
    pods = state.pods.values()
    return [
        {
            "uid": uid,
            "namespace": each.beneficiary.namespace,
            "pod": each.beneficiary.name or None,
            "podUid": each.beneficiary.uid or None,
            "labels": dict(each.beneficiary.labels),
            "nodes": list(each.room.nodes),
            "bytes": dict(each.room.amounts),
            "leftBytes": dict(each.left(state.accounting, pods).amounts),
            "expires": format_time(each.expires_s),
        }
        for uid, each in sorted(state.earmarks.items())
    ]
