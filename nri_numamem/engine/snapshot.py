"""What the engine knows and no runtime can tell, as bytes; and back.

A runtime tells its pods and running containers. What it cannot tell is here: who holds what, so
that a pod keeps what its ended containers and its pool hold, and where the containers of ended
pods were. The books are not here: the first Synchronize makes them, and it takes from a restored
state only what fits to the runtime's answer (``synchronize``). So an old snapshot can be wrong
without doing harm, and a missing one costs little.

The form, version 1: one line of JSON, {"version", "sha256", "payload"}. The payload is a JSON
text within a string, and the checksum is over its UTF-8 bytes, so no way of writing numbers or
keys has to be agreed on. SHA-256, because a damaged file must not pass, people can check it with
a common tool, and a megabyte takes a few milliseconds. The same state gives the same bytes.
"""

import functools
import importlib
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar, cast

from nri_numamem.engine.state import HOMES_LIMIT, EngineState, Holder, Key
from nri_numamem.memorymanager import Block, NodeSet, State

VERSION = 1

# Memory is counted in signed 64 bits by every interface that it comes from.
_SIZE_LIMIT = 1 << 63

_SHOWN_CHARACTERS = 60

_Json = Mapping[str, object]
_T = TypeVar("_T")


class SnapshotError(ValueError):
    """Bytes that are no snapshot, or none that this version reads; the text is one line."""


def snapshot(state: EngineState) -> bytes:
    """Return the state's lasting part, one line of ASCII."""
    payload = _payload(state)
    envelope = {"version": VERSION, "sha256": _checksum(payload), "payload": payload}
    return f"{_text(envelope)}\n".encode("ascii")


def _payload(state: EngineState) -> str:
    """Return the payload's text, made of one text each.

    A tree of everything, and the pieces of its text, would take several times the memory that the
    text takes, and the process would keep it.
    """
    holders = (
        _text(_holder_out(holder, state.blocks(key) or ()))
        for key, holder in sorted(state.holders.items())
    )
    homes = (
        _text({"uid": uid, "nodes": {name: str(nodes) for name, nodes in places.items()}})
        for uid, places in state.homes.items()  # the oldest first
    )
    return f'{{"holders":[{",".join(holders)}],"homes":[{",".join(homes)}]}}'


def restore(data: bytes) -> EngineState:
    """Return the state in a snapshot, without tables, pods and charges; or raise SnapshotError.

    It is fit to be the `former` of an engine, and for nothing else.
    """
    payload = _object(_parsed(_payload_of(data)), "payload")
    holders: dict[Key, Holder] = {}
    keys: dict[str, Key] = {}
    assignments: dict[str, dict[str, tuple[Block, ...]]] = {}
    for entry in _list(payload, "holders"):
        holder, blocks = _holder_in(_object(entry, "holders"))
        if holder.key in holders:
            raise SnapshotError(f"holders: {_cut(holder.key[1])} is there twice in its pod")
        holders[holder.key] = holder
        keys[holder.container_id] = holder.key
        uid, name = holder.key
        assignments.setdefault(uid, {})[name] = blocks
    homes: dict[str, Mapping[str, NodeSet]] = {}
    for entry in _list(payload, "homes")[-HOMES_LIMIT:]:
        home = _object(entry, "homes")
        places = _object(home.get("nodes"), "nodes")
        homes[_field(home, "uid", str)] = {name: _nodes(places, name) for name in places}
    return EngineState(State({}, assignments), holders=holders, keys=keys, homes=homes)


def _holder_out(holder: Holder, blocks: tuple[Block, ...]) -> _Json:
    uid, name = holder.key
    return {
        "uid": uid,
        "container": name,
        "containerId": holder.container_id,
        "sandboxId": holder.sandbox_id,
        "ended": holder.ended,
        "nodes": str(blocks[0].numa_affinity) if blocks else "",
        "resources": {block.type: block.size for block in blocks},
    }


def _holder_in(entry: _Json) -> tuple[Holder, tuple[Block, ...]]:
    key = (_field(entry, "uid", str), _field(entry, "container", str))
    holder = Holder(
        _field(entry, "containerId", str),
        _field(entry, "sandboxId", str),
        key,
        _field(entry, "ended", bool),
    )
    nodes = _nodes(entry, "nodes")
    resources = _object(entry.get("resources"), "resources")
    sizes = {name: _field(resources, name, int) for name in resources}
    if any(not 0 <= size < _SIZE_LIMIT for size in sizes.values()) or bool(sizes) != bool(nodes):
        raise SnapshotError(f"resources: {_cut(key[1])} cannot hold such amounts there")
    return holder, tuple(Block(nodes, name, size) for name, size in sizes.items())


def _payload_of(data: bytes) -> str:
    """Return the payload's text once version and checksum are right."""
    envelope = _object(_parsed(data), "snapshot")
    if _field(envelope, "version", int) != VERSION:
        raise SnapshotError(f"version: not {VERSION}, the one that is read here")
    payload = _field(envelope, "payload", str)
    if _checksum(payload) != _field(envelope, "sha256", str):
        raise SnapshotError("sha256: the payload is not the one that was written")
    return payload


def _text(value: object) -> str:
    # The order of the values says something: `memory` first, the oldest homes first.
    return json.dumps(value, separators=(",", ":"))


def _checksum(payload: str) -> str:
    return str(_sha256()(payload.encode("utf-8", "surrogatepass")).hexdigest())


@functools.cache
def _sha256() -> Callable[[bytes], Any]:
    """Return the interpreter's own function: hashlib's comes with OpenSSL, which takes 4 MB."""
    module = _first_of("_sha2", "_sha256", "hashlib")  # since Python 3.12; before; anywhere else
    function: Callable[[bytes], Any] = module.sha256
    return function


def _first_of(name: str, *others: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        if not others:
            raise
        return _first_of(*others)


def _cut(text: str) -> str:
    """Show a text within one short line, whatever it is made of."""
    return repr(text[:_SHOWN_CHARACTERS])


def _parsed(text: bytes | str) -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {_cut(str(error))}") from error


def _object(value: object, name: str) -> _Json:
    if not isinstance(value, dict):
        raise SnapshotError(f"{name}: not an object")
    return value


def _list(place: _Json, name: str) -> list[object]:
    return _field(place, name, list)


def _field(place: _Json, name: str, kind: type[_T]) -> _T:
    value = place.get(name)
    if type(value) is not kind:  # a bool is no int here
        raise SnapshotError(f"{_cut(name)}: missing, or not of type {kind.__name__}")
    return value


def _nodes(place: _Json, name: str) -> NodeSet:
    text = _field(place, name, str)
    try:
        return NodeSet.parse(text)
    except ValueError as error:
        raise SnapshotError(f"{_cut(name)}: not a list of NUMA nodes such as 0-1,3") from error
