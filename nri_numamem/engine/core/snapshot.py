"""The part of the state that no runtime reports, as bytes and back.

A runtime reports its pods and running containers. It does not report the reservations of ended
containers and of pools, nor the nodes of containers whose pods ended; those are here, with the
holders that they belong to, and the updates that no cgroup has confirmed. The accounting is not
here: the first Synchronize computes it, and uses of a restored state only what agrees with the
runtime's containers (``synchronize``). An old snapshot does no harm; a missing one costs little.

Format, version 2: one line of JSON, {"version", "crc32", "payload"}. The payload is a JSON text in
a string, and the checksum is that of its UTF-8 bytes, so the spelling of numbers and keys does not
matter. Some keys of the payload are optional. The same state gives the same bytes.
"""

import json
import zlib
from collections.abc import Mapping

from nri_numamem.engine.core import reasons
from nri_numamem.engine.core.facts import NetworkInterface
from nri_numamem.engine.core.json_fields import (
    Json,
    SnapshotError,
    cut_text,
    field_of,
    flag_of,
    object_of,
    parsed,
)
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.snapshot_claims import claims_in, claims_out
from nri_numamem.engine.core.snapshot_earmarks import earmarks_in, earmarks_out
from nri_numamem.engine.core.state import (
    NO_CPUS,
    PREVIOUS_NODES_LIMIT,
    Cpusets,
    EngineState,
    Holder,
)
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.holder import HolderKey, HolderKind, HolderName, container_name
from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.numa.quantity import MAX_BYTES, is_memory_resource

VERSION = 2

_VERSION_LIMIT = 10_000  # versions are consecutive numbers; a larger one is damage


class SnapshotVersionError(SnapshotError):
    """A snapshot of a version that cannot be read; it is not damaged."""

    def __init__(self, version: int) -> None:
        super().__init__(f"written by version {version}; this is version {VERSION}")
        self.version = version


def snapshot(state: EngineState) -> bytes:
    """Return the part of the state that no runtime reports: one line of ASCII."""
    payload = _payload(state)
    envelope = {"version": VERSION, "crc32": zlib.crc32(_bytes(payload)), "payload": payload}
    return f"{_text(envelope)}\n".encode("ascii")


def _payload(state: EngineState) -> str:
    """Return the payload's text.

    Each holder becomes text by itself: a tree of the whole payload would take several times the
    memory of its text.
    """
    pinned = state.reasons.pinned
    holders = (
        _text(
            _holder_out(holder, state.blocks(key) or (), pinned.get(holder.container_id))
            | ({"devices": True} if holder.container_id in state.cpusets.with_devices else {})
        )
        for key, holder in sorted(state.holders.items())
    )
    previous_nodes = (
        _text({"uid": uid, "nodes": {container_name(n): str(nodes) for n, nodes in places.items()}})
        for uid, places in state.previous_nodes.items()  # oldest first
    )
    unconfirmed = sorted(state.cpusets.unconfirmed & state.keys.keys())
    more = f',"unconfirmed":{_text(unconfirmed)}' if unconfirmed else ""
    reasons = (reason for _id, reason in sorted(state.reasons.unpinned.items()))
    unpinned = [{**_ids_out(reason), **_reason_out(reason)} for reason in reasons]
    more += f',"unpinned":{_text(unpinned)}' if unpinned else ""
    more += f',"claims":{_text(claims_out(state.claims))}' if state.claims else ""
    earmarks = earmarks_out(state.earmarks, state.pods)
    more += f',"earmarks":{_text(earmarks)}' if earmarks else ""
    return f'{{"holders":[{",".join(holders)}],"homes":[{",".join(previous_nodes)}]{more}}}'


def restore(data: bytes) -> EngineState:
    """Return the state in a snapshot, without tables, pods and charges.

    The state is for the argument `restored` of an engine only. Raises SnapshotError for bytes that
    cannot be used.
    """
    payload = object_of(parsed(_payload_of(data)), "payload")
    holders: dict[HolderKey, Holder] = {}
    keys: dict[str, HolderKey] = {}
    assignments: dict[str, dict[HolderName, tuple[Block, ...]]] = {}
    pinned: dict[str, Reason] = {}
    with_devices: set[str] = set()
    for entry in field_of(payload, "holders", list):
        found = object_of(entry, "holders")
        holder, blocks = _holder_in(found)
        if holder.key in holders:
            raise SnapshotError(
                f"holders: {cut_text(holder.container_name)} is there twice in its pod"
            )
        holders[holder.key] = holder
        keys[holder.container_id] = holder.key
        uid, name = holder.key
        assignments.setdefault(uid, {})[name] = blocks
        if flag_of(found, "devices"):
            with_devices.add(holder.container_id)
        reason = _reason_in(found)
        if reason is not None:
            pinned[reason.container_id] = reason
    previous_nodes: dict[str, Mapping[HolderName, NodeSet]] = {}
    for entry in field_of(payload, "homes", list)[-PREVIOUS_NODES_LIMIT:]:
        pod = object_of(entry, "homes")
        places = object_of(pod.get("nodes"), "nodes")
        uid = field_of(pod, "uid", str)
        previous_nodes[uid] = {name or HolderKind.POD: _nodes(places, name) for name in places}
    unpinned = _entries(payload, "unpinned")
    reasons = [_reason_in(object_of(entry, "unpinned")) for entry in unpinned]
    return EngineState(
        State({}, assignments),
        holders=holders,
        keys=keys,
        previous_nodes=previous_nodes,
        cpusets=Cpusets(
            unconfirmed=frozenset(map(str, _entries(payload, "unconfirmed"))),
            with_devices=frozenset(with_devices),
        ),
        claims=claims_in(_entries(payload, "claims")),
        earmarks=earmarks_in(_entries(payload, "earmarks")),
        reasons=Reasons(pinned, {one.container_id: one for one in reasons if one is not None}),
    )


def _entries(payload: Json, name: str) -> list[object]:
    """Return a list that is optional; raises SnapshotError for another type."""
    return field_of(payload, name, list) if name in payload else []


def _holder_out(
    holder: Holder, blocks: tuple[Block, ...], reason: Reason | None
) -> dict[str, object]:
    return {
        **_ids_out(holder),
        "ended": holder.ended,
        "nodes": str(blocks[0].numa_affinity) if blocks else "",
        "resources": {block.type: min(block.size, MAX_BYTES) for block in blocks},
        **_misaligned_out(holder.misaligned),
        **({"shared": True} if holder.is_shared else {}),
        **({"cpuMillicores": holder.cpu_millicores} if holder.cpu_millicores else {}),
        **({"movable": True} if holder.is_movable else {}),
        **({"cpus": str(holder.cpus)} if holder.cpus else {}),
        **({} if reason is None else _reason_out(reason)),
    }


def _ids_out(one: Holder | Reason) -> Json:
    uid, name = one.key
    return {
        "uid": uid,
        "container": container_name(name),
        "containerId": one.container_id,
        "sandboxId": one.sandbox_id,
    }


def _reason_out(reason: Reason) -> Json:
    return {
        "namespace": reason.namespace,
        "pod": reason.pod,
        "event": reason.event,
        "since": reason.since_s,
    }


def _reason_in(entry: Json) -> Reason | None:
    """Return the reason in an entry; None if it has none, or one of a later release."""
    if str(entry.get("event")) not in reasons.EVENTS:
        return None
    return Reason(
        field_of(entry, "containerId", str),
        field_of(entry, "sandboxId", str),
        (field_of(entry, "uid", str), field_of(entry, "container", str)),
        field_of(entry, "namespace", str),
        field_of(entry, "pod", str),
        field_of(entry, "event", str),
        field_of(entry, "since", int),
    )


def _misaligned_out(misaligned: OtherProviders) -> Json:
    if misaligned == NO_OTHER_PROVIDERS:
        return {}
    cpu = "" if misaligned.cpu is None else str(misaligned.cpu)
    devices = {str(index): str(nodes) for index, nodes in enumerate(misaligned.devices)}
    network = {each.name: str(each.nodes) for each in misaligned.interfaces}
    more = {"network": network} if network else {}
    return {"misaligned": {"cpu": cpu, "devices": devices, **more}}


def _misaligned_in(entry: Json) -> OtherProviders:
    if "misaligned" not in entry:
        return NO_OTHER_PROVIDERS
    found = object_of(entry["misaligned"], "misaligned")
    devices = object_of(found.get("devices"), "devices")
    network = object_of(found.get("network", {}), "network")
    interfaces = tuple(NetworkInterface(name, _nodes(network, name)) for name in network)
    of_devices = tuple(_nodes(devices, index) for index in devices)
    return OtherProviders(of_devices, _nodes(found, "cpu") or None, interfaces)


def _holder_in(entry: Json) -> tuple[Holder, tuple[Block, ...]]:
    name, container_id = field_of(entry, "container", str), field_of(entry, "containerId", str)
    sandbox_id = field_of(entry, "sandboxId", str)
    # A pod as a whole has its sandbox's id; a runtime may have a container without a name.
    is_pod = not name and container_id == sandbox_id
    holder = Holder(
        container_id,
        sandbox_id,
        (field_of(entry, "uid", str), HolderKind.POD if is_pod else name),
        field_of(entry, "ended", bool),
        _misaligned_in(entry),
        flag_of(entry, "shared"),
        field_of(entry, "cpuMillicores", int) if "cpuMillicores" in entry else 0,
        flag_of(entry, "movable"),
        _cpus(entry) if "cpus" in entry else NO_CPUS,
    )
    nodes = _nodes(entry, "nodes")
    resources = object_of(entry.get("resources"), "resources")
    # Other versions wrote larger amounts, such as the sum of a pod.
    sizes = {each: min(field_of(resources, each, int), MAX_BYTES) for each in resources}
    are_known = all(size >= 0 and is_memory_resource(each) for each, size in sizes.items())
    if not are_known or bool(sizes) != bool(nodes):
        raise SnapshotError(f"resources: {cut_text(name)} cannot hold such amounts there")
    return holder, tuple(Block(nodes, resource, size) for resource, size in sizes.items())


def _payload_of(data: bytes) -> str:
    """Return the payload's text after a check of version and checksum."""
    envelope = object_of(parsed(data), "snapshot")
    version = field_of(envelope, "version", int)
    if not 0 < version < _VERSION_LIMIT:
        raise SnapshotError(f"version: {cut_text(str(version))} is not a version")
    if version != VERSION:
        raise SnapshotVersionError(version)
    payload = field_of(envelope, "payload", str)
    if zlib.crc32(_bytes(payload)) != field_of(envelope, "crc32", int):
        raise SnapshotError("crc32: the payload is not the one that was written")
    return payload


def _bytes(payload: str) -> bytes:
    # Names may contain single surrogates, which are not UTF-8.
    return payload.encode("utf-8", "surrogatepass")


def _text(value: object) -> str:
    # The order of the values has a meaning: `memory` first, the oldest previous nodes first.
    return json.dumps(value, separators=(",", ":"))


def _cpus(entry: Json) -> CpuSet:
    try:
        return CpuSet.parse(field_of(entry, "cpus", str))
    except ValueError as error:
        raise SnapshotError("cpus: not a list of CPUs such as 0-3,8") from error


def _nodes(place: Json, name: str) -> NodeSet:
    text = field_of(place, name, str)
    try:
        return NodeSet.parse(text)
    except ValueError as error:
        raise SnapshotError(f"{cut_text(name)}: not a list of NUMA nodes such as 0-1,3") from error
