"""Earmarks in a snapshot of the state.

The plugin restores them, so that they hold from the first request after a restart; then the files
of earmarks count. Programs that read the state file show them.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.json_fields import Json, SnapshotError, field_of, object_of
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import is_memory_resource


def earmarks_out(earmarks: Mapping[str, Earmark], pods: Mapping[str, PodSandbox]) -> list[Json]:
    """Return the entries of earmarks, by uid; `pods` is sandbox id -> pod."""
    return [
        {
            "uid": uid,
            "nodes": str(each.room.nodes),
            "amounts": dict(each.room.amounts),
            "namespace": each.beneficiary.namespace,
            "podUid": each.beneficiary.uid,
            "pod": each.beneficiary.name,
            "labels": dict(each.beneficiary.labels),
            "expires": each.expires_s,
            "heldBefore": {uid: dict(sizes) for uid, sizes in each.held_before.items()},
            "begunBefore": sorted(each.begun_before),
            "owners": sorted(each.owners(pods.values())),
        }
        for uid, each in sorted(earmarks.items())
    ]


def earmarks_in(entries: Iterable[object]) -> dict[str, Earmark]:
    """Return uid -> earmark of entries; raises SnapshotError."""
    found: dict[str, Earmark] = {}
    for entry in entries:
        one = object_of(entry, "earmarks")
        labels = object_of(one.get("labels"), "labels")
        held = object_of(one.get("heldBefore"), "heldBefore")
        try:
            nodes = NodeSet.parse(field_of(one, "nodes", str))
        except ValueError as error:
            raise SnapshotError("earmarks: nodes is not a list such as 0-1,3") from error
        uid = field_of(one, "uid", str)
        found[uid] = Earmark(
            uid,
            Room(nodes, _amounts(one.get("amounts"))),
            Beneficiary(
                field_of(one, "namespace", str),
                field_of(one, "podUid", str),
                field_of(one, "pod", str),
                {key: field_of(labels, key, str) for key in labels},
            ),
            field_of(one, "expires", int),
            {pod: _amounts(held[pod]) for pod in held},
            frozenset(map(str, field_of(one, "begunBefore", list))),
            frozenset(map(str, field_of(one, "owners", list))),
        )
    return found


def _amounts(value: object) -> dict[str, int]:
    entry = object_of(value, "amounts")
    amounts = {name: field_of(entry, name, int) for name in entry}
    if not all(is_memory_resource(name) and size > 0 for name, size in amounts.items()):
        raise SnapshotError("earmarks: amounts are not bytes of memory or hugepages")
    return amounts
