"""Resource claims in a snapshot of the state.

They are there for programs that read the state file. The plugin itself restores claims from the
runtime's containers and the files of claims.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.claims import ChargedClaim, ClaimUser
from nri_numamem.engine.core.json_fields import Json, SnapshotError, field_of, object_of
from nri_numamem.memorymanager.claims import Claim, format_amounts, parse_amounts


def claims_out(claims: Mapping[str, ChargedClaim]) -> list[Json]:
    """Return the entries of claims, by uid."""
    return [
        {
            "uid": uid,
            "namespace": each.claim.namespace,
            "name": each.claim.name,
            "prepared": each.is_prepared,
            "pods": sorted(each.claim.pods),
            "requests": {
                name: format_amounts(amounts)
                for name, amounts in sorted(each.claim.requests.items())
            },
            "users": [_user_out(user) for _id, user in sorted(each.users.items())],
        }
        for uid, each in sorted(claims.items())
    ]


def claims_in(entries: Iterable[object]) -> dict[str, ChargedClaim]:
    """Return uid -> claim of entries; raises SnapshotError."""
    found: dict[str, ChargedClaim] = {}
    for entry in entries:
        one = object_of(entry, "claims")
        requests = object_of(one.get("requests"), "requests")
        try:
            amounts = {name: parse_amounts(field_of(requests, name, str)) for name in requests}
        except ValueError as error:
            raise SnapshotError(f"requests: {error}") from error
        claim = Claim(
            field_of(one, "uid", str),
            field_of(one, "namespace", str),
            field_of(one, "name", str),
            amounts,
            frozenset(map(str, field_of(one, "pods", list))),
        )
        users = [_user_in(object_of(each, "users")) for each in field_of(one, "users", list)]
        by_id = {user.container_id: user for user in users}
        found[claim.uid] = ChargedClaim(claim, field_of(one, "prepared", bool), by_id)
    return found


def _user_out(user: ClaimUser) -> Json:
    return {
        "containerId": user.container_id,
        "sandboxId": user.sandbox_id,
        "podUid": user.pod_uid,
        "namespace": user.namespace,
        "pod": user.pod,
        "container": user.container,
        "requests": sorted(user.requests),
        "held": dict(user.held_bytes),
    }


def _user_in(entry: Json) -> ClaimUser:
    held = object_of(entry.get("held"), "held")
    return ClaimUser(
        field_of(entry, "containerId", str),
        field_of(entry, "sandboxId", str),
        field_of(entry, "podUid", str),
        field_of(entry, "namespace", str),
        field_of(entry, "pod", str),
        field_of(entry, "container", str),
        frozenset(map(str, field_of(entry, "requests", list))),
        {name: field_of(held, name, int) for name in held},
    )
