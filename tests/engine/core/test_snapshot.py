"""The state as bytes: a golden file, a round trip, and nothing that is not a snapshot."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.reason import NO_REASONS, Reason, Reasons
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import Cpusets, EngineState, Holder
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.numa.quantity import MAX_BYTES

if TYPE_CHECKING:
    from tests.engine.conftest import Host

MI = 1 << 20
PAGE = 2 * MI
GOLDEN = Path(__file__).with_name("snapshot-v2.json")


@pytest.fixture
def lived(host: Host) -> EngineState:
    """Return the state that the golden file shows."""
    gone = host.run("gone")
    host.create(gone, "app", container_id="c1", memory=1200 * MI)
    host.stop_pod(gone)
    pod = host.run("a", hugepages={PAGE: 4 * PAGE})
    host.create(pod, "init", container_id="c2", memory=300 * MI)
    host.stop(host.newest("init"))
    host.create(pod, "app", container_id="c3", memory=100 * MI)
    return host.engine.state


def lasting(state: EngineState) -> EngineState:
    """Return what of a state a snapshot has."""
    assignments = {
        uid: {name: tuple(replace(b, charges=()) for b in blocks) for name, blocks in found.items()}
        for uid, found in state.accounting.assignments.items()
    }
    return EngineState(
        State({}, assignments),
        holders=state.holders,
        keys=state.keys,
        previous_nodes=state.previous_nodes,
    )


def sealed(payload: object, **more: object) -> bytes:
    """Return a payload in a right envelope."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    crc32 = zlib.crc32(text.encode("utf-8", "surrogatepass"))
    return json.dumps({"version": 2, "crc32": crc32, "payload": text} | more).encode()


HOLDER: dict[str, Any] = {
    "uid": "a",
    "container": "app",
    "containerId": "c1",
    "sandboxId": "s1",
    "ended": True,
    "nodes": "0-1",
    "resources": {"memory": 5},
}


def test_the_golden_file_of_version_2(lived: EngineState) -> None:
    assert snapshot(lived) == GOLDEN.read_bytes()
    assert restore(GOLDEN.read_bytes()) == lasting(lived)
    document = json.loads(GOLDEN.read_text())
    assert list(document) == ["version", "crc32", "payload"]
    assert zlib.crc32(document["payload"].encode()) == document["crc32"]


def test_holders_without_reasons(lived: EngineState) -> None:
    restored = restore(snapshot(lived.with_reasons(NO_REASONS)))
    assert (restored, restored.reasons) == (lasting(lived), NO_REASONS)


def test_reasons_have_names_event_and_time(lived: EngineState) -> None:
    reason = Reason("c9", "s9", ("z", "app"), "ns", "pod-z", "unpinned_no_capacity", 1234)
    state = lived.with_reasons(Reasons(lived.reasons.pinned, {"c9": reason}))
    restored = restore(snapshot(state)).reasons
    assert restored.unpinned == {"c9": reason}
    assert restored.pinned == {name: lived.reasons.pinned[name] for name in ("c2", "c3")}
    assert restored.pinned["c3"].pod == "pod-a"


def test_a_reason_of_a_later_release_is_ignored() -> None:
    later = {"namespace": "ns", "pod": "p", "event": "charmed", "since": 1}
    restored = restore(sealed({"holders": [{**HOLDER, **later}], "homes": [], "unpinned": [later]}))
    assert restored.reasons == NO_REASONS
    assert ("a", "app") in restored.holders


def test_a_reason_whose_event_is_no_text_is_ignored() -> None:
    restored = restore(sealed({"holders": [{**HOLDER, "event": ["admitted"]}], "homes": []}))
    assert restored.reasons == NO_REASONS


def test_a_round_trip_gives_the_same_bytes(lived: EngineState) -> None:
    assert snapshot(restore(snapshot(lived))) == snapshot(lived)


def test_an_empty_state(host: Host) -> None:
    assert restore(snapshot(host.engine.state)) == EngineState(State({}))


def test_names_may_be_anything(host: Host) -> None:
    host.create(host.run("ä\n\0"), 'app"\ud800')
    state = host.engine.state
    assert snapshot(state).isascii()
    assert snapshot(state).count(b"\n") == 1
    assert restore(snapshot(state)) == lasting(state)


def test_a_holder_without_blocks(lived: EngineState) -> None:
    empty = replace(lived, accounting=State({}))
    assert restore(snapshot(empty)).holders == lived.holders


def test_the_order_of_events_does_not_matter_to_holders(host: Host) -> None:
    for uid in "ba":
        host.create(host.run(uid), container_id=f"c-{uid}")
    first = snapshot(host.engine.state)
    host.containers = dict(reversed(host.containers.items()))
    host.synchronize()
    assert snapshot(host.engine.state) == first


def test_every_damaged_byte_is_detected(lived: EngineState) -> None:
    data = snapshot(lived)
    random = Random(4)
    for _ in range(300):
        at = random.randrange(len(data) - 1)
        damaged = bytearray(data)
        damaged[at] ^= 1 << random.randrange(8)
        message = ""
        try:
            # Characters of the envelope have several encodings, which leave the payload unchanged.
            assert restore(bytes(damaged)) == lasting(lived)
        except SnapshotError as error:
            message = str(error)
        assert "\n" not in message
        assert len(message) < 200
    for length in range(0, len(data) - 1, 7):
        with pytest.raises(SnapshotError):
            restore(data[:length])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "snapshot: not an object"),
        (b"{}", "'version'"),
        (sealed({}, version=3), "written by version 3; this is version 2"),
        (sealed({}, version=1), "written by version 1; this is version 2"),
        (sealed({}, version=0), "version: '0' is not a version"),
        (sealed({}, version=10**300), "is not a version"),
        (sealed({}, version=True), "'version'"),
        (sealed({}, version=None), "'version'"),
        (b'{"version": 2, "payload": {}}', "'payload'"),
        (sealed({}, crc32=0), "crc32: the payload is not the one that was written"),
        (sealed({}, crc32=None), "'crc32'"),
        (sealed("{"), "not JSON"),
        (sealed("7"), "payload: not an object"),
        (sealed({"homes": []}), "'holders'"),
        (sealed({"holders": []}), "'homes'"),
        (sealed({"holders": [1], "homes": []}), "holders: not an object"),
        (sealed({"holders": [], "homes": [1]}), "homes: not an object"),
        (sealed({"holders": [], "homes": [{"uid": "a"}]}), "nodes: not an object"),
        (sealed({"holders": [], "homes": [{"uid": 1, "nodes": {}}]}), "'uid'"),
        (sealed({"holders": [], "homes": [{"uid": "a", "nodes": {"x": "y"}}]}), "list of NUMA"),
        (sealed({"holders": [HOLDER, HOLDER], "homes": []}), "'app' is there twice in its pod"),
    ],
)
def test_the_error_of_an_invalid_snapshot_is_one_line(data: bytes, why: str) -> None:
    with pytest.raises(SnapshotError, match=why) as raised:
        restore(data)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        {"uid": None},
        {"container": 1},
        {"containerId": None},
        {"sandboxId": None},
        {"ended": 1},
        {"nodes": "0-"},
        {"nodes": 0},
        {"nodes": "4096"},
        {"nodes": ""},
        {"cpus": 1},
        {"cpus": "4-"},
        {"resources": {}},
        {"resources": []},
        {"resources": {"memory": -1}},
        {"resources": {"a": 1}},
        {"resources": {"memory": 1.0}},
        {"resources": {"memory": True}},
    ],
)
def test_an_invalid_holder(change: dict[str, Any]) -> None:
    restore(sealed({"holders": [HOLDER], "homes": []}))
    with pytest.raises(SnapshotError):
        restore(sealed({"holders": [{**HOLDER, **change}], "homes": []}))


def test_an_amount_beyond_64_bits_does_not_make_the_file_unreadable(lived: EngineState) -> None:
    entry = {**HOLDER, "resources": {"memory": 1 << 80}}
    restored = restore(sealed({"holders": [entry], "homes": []}))
    (block,) = restored.accounting.assignments["a"]["app"]
    assert block.size == MAX_BYTES
    key = next(key for key in lived.holders if lived.blocks(key))
    uid, name = key
    (first, *rest) = lived.accounting.assignments[uid][name]
    blocks = (replace(first, size=1 << 80), *rest)
    pods = {**lived.accounting.assignments, uid: {name: blocks}}
    large = replace(lived, accounting=replace(lived.accounting, assignments=pods))
    assert restore(snapshot(large)).accounting.assignments[uid][name][0].size == MAX_BYTES


def test_two_holders_may_have_one_container_id() -> None:
    other = {**HOLDER, "container": "other"}
    restored = restore(sealed({"holders": [HOLDER, other], "homes": []}))
    assert set(restored.holders) == {("a", "app"), ("a", "other")}


def test_of_too_many_previous_nodes_the_newest_are_kept() -> None:
    previous_nodes = [{"uid": f"u{n}", "nodes": {"app": "0"}} for n in range(1030)]
    restored = restore(sealed({"holders": [], "homes": previous_nodes}))
    assert len(restored.previous_nodes) == 1024
    assert list(restored.previous_nodes)[-1] == "u1029"


def test_writing_a_snapshot_changes_nothing(lived: EngineState, host: Host) -> None:
    before = host.engine.state
    snapshot(before)
    host.handle(events.RunPodSandbox(host.pods["sandbox-a"]))
    assert host.engine.state.accounting == before.accounting


def test_cpus_that_follow_memory_are_kept(host: Host) -> None:
    host.create(host.run("a"), "app", container_id="c")
    holder = host.engine.state.holders["a", "app"]
    known = replace(holder, cpus=CpuSet({0, 2, 3}))
    state = host.engine.state.with_holder(known, host.engine.state.accounting)
    assert b'\\"cpus\\":\\"0,2-3\\"' in snapshot(state)
    assert restore(snapshot(state)).holders["a", "app"] == known


def test_updates_that_no_cgroup_confirmed_are_kept() -> None:
    key = ("uid", "main")
    state = EngineState(
        State({}, {"uid": {"main": (Block(NodeSet([0]), "memory", 1),)}}),
        holders={key: Holder("c", "s", key)},
        keys={"c": key},
        cpusets=Cpusets(unconfirmed=frozenset({"c", "gone"})),
    )
    assert restore(snapshot(state)).cpusets == Cpusets(unconfirmed=frozenset({"c"}))
    confirmed = replace(state, cpusets=Cpusets())
    assert b"unconfirmed" not in snapshot(confirmed)
    assert restore(snapshot(confirmed)).cpusets == Cpusets()
