"""Resource claims in ``status``: a table for people, and a document."""

from collections.abc import Iterable

from nri_numamem.cli.decisions.outcomes import amounts_text
from nri_numamem.cli.render.bars import fixed, numeric, plain_table
from nri_numamem.cli.render.screen import Screen
from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import escape
from nri_numamem.memorymanager.claims import nodes_of
from nri_numamem.numa import humanize_bytes
from nri_numamem.numa.quantity import MEMORY, sum_mappings

_MOST_USERS = 3


def show_claims(screen: Screen, state: EngineState | None) -> None:
    """Print the claims, if there are any."""
    if state is None or not state.claims:
        return
    screen.heading("Resource claims")
    table = plain_table(
        "claim", fixed("nodes"), "charged", numeric("memory left"), "used by", gap=1
    )
    for each in _sorted(state):
        table.add_row(
            escape(str(each.claim)),
            str(nodes_of(each.claim.amounts)),
            amounts_text(sum_mappings(each.claim.amounts.values())),
            humanize_bytes(_left(each).get(MEMORY, 0)),
            escape(_users(each)),
        )
    screen.shown(table)
    screen.text("memory left: of the claim, for containers that start now.")


def claims_document(state: EngineState | None) -> list[dict[str, object]]:
    """Return the claims as in a document; docs/status.md describes it."""
    return [
        {
            "uid": each.claim.uid,
            "namespace": each.claim.namespace,
            "name": each.claim.name,
            "prepared": each.is_prepared,
            "nodes": list(nodes_of(each.claim.amounts)),
            "bytes": {str(n): dict(wanted) for n, wanted in sorted(each.claim.amounts.items())},
            "leftBytes": _left(each),
            "containers": [
                {
                    "namespace": user.namespace,
                    "pod": user.pod,
                    "podUid": user.pod_uid,
                    "container": user.container,
                    "containerId": user.container_id,
                    "requests": sorted(user.requests),
                    "limitBytes": dict(user.held_bytes),
                }
                for _id, user in sorted(each.users.items())
            ],
        }
        for each in ([] if state is None else _sorted(state))
    ]


def _sorted(state: EngineState) -> list[ChargedClaim]:
    return sorted(state.claims.values(), key=lambda each: (str(each.claim), each.claim.uid))


def _left(each: ChargedClaim) -> dict[str, int]:
    return each.left_bytes(frozenset(each.claim.requests), "")


def _users(each: ChargedClaim) -> str:
    """Return the containers of a claim: "upf/app, upf/side and 2 more"."""
    names: Iterable[str] = sorted(f"{user.pod}/{user.container}" for user in each.users.values())
    shown = list(names)
    if not shown:
        return "no container yet" if each.is_prepared else "-"
    more = len(shown) - _MOST_USERS
    return ", ".join(shown[:_MOST_USERS]) + (f" and {more} more" if more > 0 else "")
