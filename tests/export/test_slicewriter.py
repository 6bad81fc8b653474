"""When the slice is written, on a virtual clock, with an API server that answers at once."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from nri_numamem.engine.records.export import SliceWriteFailed, SliceWritten
from nri_numamem.engine.records.record import Level, Record
from nri_numamem.export.requests import FailureKind
from nri_numamem.export.resourceslice import is_counted_for_node
from nri_numamem.export.slicewriter import CHECK_S, WRITE_S, SliceStep, SliceWriter

INF = float("inf")
NAME = "w-numamem.io"
PATH = f"/apis/resource.k8s.io/v1/resourceslices/{NAME}"
MISSING = {"kind": "Status", "details": {"name": NAME, "kind": "resourceslices"}}


def document(size: int) -> dict[str, Any]:
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": NAME},
        "spec": {
            "pool": {"name": "w", "generation": 1},
            "devices": [
                {
                    "name": "memory-0",
                    "allowMultipleAllocations": True,
                    "attributes": {"resource": {"string": "memory"}},
                    "size": size,
                }
            ],
        },
    }


class World:
    """A writer, a clock, and an API server."""

    def __init__(self, *, is_registered: bool = True, counts_for_node: bool = False) -> None:
        self.now_s = 100.0
        self.writer = SliceWriter("w", lambda: 0.0, counts_for_node=counts_for_node)
        self.has_gate = True
        self.refuses_mapping = False
        self.stored: dict[str, Any] | None = None
        self.version = 0
        self.failing: dict[str, tuple[int, dict[str, Any]]] = {}
        """Method -> answer."""
        self.steps: list[tuple[float, SliceStep]] = []
        self.records: list[Record] = []
        self.writer.offer(document(1))
        if is_registered:
            self.register()
            self.run()

    def register(self, error: str = "") -> None:
        self.records += self.writer.registered(error)

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, and do every step when it is due."""
        end_s = self.now_s + seconds
        while True:
            step = self.writer.next_step(self.now_s)
            if step is not None:
                self.steps.append((self.now_s, step))
                self.take(self.writer.answered(self.now_s, *self.answer(step)))
                continue
            wait_s = self.writer.wait_s(self.now_s)
            if self.now_s + wait_s > end_s:
                self.now_s = end_s
                return
            assert wait_s > 0
            self.now_s += wait_s

    def take(self, records: Iterable[Record]) -> None:
        self.records += records

    def answer(self, step: SliceStep) -> tuple[int, dict[str, Any]]:
        if step.method in self.failing:
            return self.failing[step.method]
        if step.path == "/api/v1/nodes/w":
            return 200, {"metadata": {"uid": "u-1"}}
        if step.method == "GET":
            return (404, MISSING) if self.stored is None else (200, self.stored)
        if step.method == "DELETE":
            self.stored = None
            return 200, {"kind": "Status"}
        body = json.loads(step.body)
        if self.refuses_mapping and is_counted_for_node(body):
            text = "spec.devices[0].nodeAllocatableResources: node w does not support the feature"
            return 403, {"kind": "Status", "message": text}
        if not self.has_gate:
            for device in body["spec"]["devices"]:
                del device["allowMultipleAllocations"]
        status = 201 if self.stored is None else 200
        if "dryRun" not in step.path:
            self.change(body)
        return status, body

    def change(self, stored: dict[str, Any]) -> None:
        """Store a slice with another version."""
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.stored = stored

    def requests(self) -> list[str]:
        """Return method and, of other paths than the slice's, the path of all requests."""
        found = [f"{step.method} {step.path.removeprefix(PATH)}".strip() for _, step in self.steps]
        self.steps.clear()
        return found

    def events(self) -> list[str]:
        found = [record.event for record in self.records]
        self.records.clear()
        return found

    def exists(self) -> bool:
        return self.stored is not None

    def generation(self) -> object:
        assert self.stored is not None
        return self.stored["spec"]["pool"]["generation"]


NODE, WRITE, TRY = (
    "GET /api/v1/nodes/w",
    "PATCH ?fieldManager=nri-numamem",
    ("PATCH ?fieldManager=nri-numamem&dryRun=All"),
)


def test_nothing_is_written_before_the_kubelet_has_registered_the_driver() -> None:
    world = World(is_registered=False)
    assert world.writer.wait_s(0.0) == INF
    assert world.writer.next_step(0.0) is None
    assert world.writer.status == "the kubelet has not registered the driver yet"
    world.register("no supported version")
    assert world.writer.next_step(0.0) is None
    assert world.writer.status == "the kubelet does not use the driver: no supported version"
    world.register()
    assert world.writer.status == "not written yet"
    world.run()
    assert world.stored is not None
    assert world.writer.status == f"wrote {NAME}"
    assert world.events() == ["driver_refused", "driver_registered", "slice_written"]


def test_the_first_write_has_the_node_as_owner() -> None:
    world = World()
    assert world.requests() == [NODE, "GET", WRITE]
    assert world.stored is not None
    owner = {"apiVersion": "v1", "kind": "Node", "name": "w", "uid": "u-1"}
    assert world.stored["metadata"]["ownerReferences"] == [owner]
    assert world.generation() == 1
    record = world.records[-1]
    assert record == SliceWritten(
        slice=NAME, generation=1, size_bytes=len(json.dumps(document(1))), created=True,
        alternate=True,
    )  # fmt: skip
    assert record.level is Level.INFO


def test_without_a_slice_nothing_is_written() -> None:
    world = World()
    world.requests()
    world.writer.offer(None)
    assert world.writer.wait_s(0.0) == INF
    world.run(100.0)
    assert world.requests() == []


def test_one_step_at_a_time() -> None:
    writer = SliceWriter("w", lambda: 0.0)
    writer.offer(document(1))
    list(writer.registered(""))
    assert writer.next_step(0.0) == SliceStep("GET", "/api/v1/nodes/w")
    assert writer.wait_s(0.0) == INF
    assert writer.next_step(1e9) is None


def test_other_devices_have_the_next_generation_and_are_written_once_a_second() -> None:
    world = World()
    world.now_s += 5.0
    world.requests()
    world.writer.offer(document(2))
    world.run()
    assert world.generation() == 2
    for size in range(3, 9):
        world.writer.offer(document(size))
        world.run(WRITE_S / 10)
    assert world.requests() == [WRITE]
    world.run(WRITE_S)
    assert world.generation() == 3
    assert [record.level for record in world.records[-2:]] == [Level.DEBUG] * 2


def test_the_slice_is_read_each_ten_seconds_and_written_only_if_it_changed() -> None:
    world = World()
    world.requests()
    world.run(3 * CHECK_S)
    assert world.requests() == ["GET"] * 3
    assert world.generation() == 1


def test_a_slice_that_the_kubelet_deleted_is_written_anew() -> None:
    world = World()
    world.requests()
    world.stored = None
    world.run(CHECK_S)
    assert world.requests() == ["GET", NODE, WRITE]
    assert world.generation() == 2
    assert world.records[-1].level is Level.INFO


def test_a_slice_that_something_else_changed_is_written_anew() -> None:
    world = World()
    world.requests()
    other = document(7)
    other["spec"]["pool"]["generation"] = 40
    world.change(other)
    world.run(CHECK_S)
    assert world.requests() == ["GET", WRITE]
    assert world.generation() == 41


def test_a_new_process_continues_the_generation() -> None:
    first = World()
    second = World(is_registered=False)
    second.stored, second.version = first.stored, first.version
    second.register()
    second.run()
    assert second.requests() == [NODE, "GET", WRITE]
    assert second.generation() == 2


def test_each_registration_writes_the_slice() -> None:
    world = World()
    world.requests()
    world.register()
    world.run(WRITE_S)
    assert world.requests() == [NODE, "GET", WRITE]


def test_a_registration_during_a_request_counts() -> None:
    world = World()
    world.writer.offer(document(2))
    world.run(WRITE_S)
    world.now_s += CHECK_S
    step = world.writer.next_step(world.now_s)
    assert step == SliceStep("GET", PATH)
    world.register()
    world.take(world.writer.answered(world.now_s, *world.answer(step)))
    world.requests()
    world.run()
    assert world.requests() == [NODE, WRITE]


def test_a_slice_without_devices_is_written() -> None:
    world = World()
    empty = document(1)
    del empty["spec"]["devices"]
    world.writer.offer(empty)
    world.run(WRITE_S)
    assert world.stored is not None
    assert "devices" not in world.stored["spec"]


def test_a_server_that_drops_fields_keeps_no_slice_and_is_tried_each_minute() -> None:
    world = World(is_registered=False)
    world.has_gate = False
    world.register()
    world.run()
    assert world.requests() == [NODE, "GET", WRITE, "DELETE"]
    assert world.exists() is False
    assert world.writer.status == "not written: the API server drops consumable capacity"
    world.run(61.0)
    assert world.requests() == ["GET", TRY]
    assert world.records[1:] == [
        SliceWriteFailed(
            slice=NAME, failure="dropped", cause="the API server drops consumable capacity",
            remedy="enable DRAConsumableCapacity in the API server and the scheduler; Kubernetes "
            "1.36 and newer have it on",
        )
    ]  # fmt: skip
    world.has_gate = True
    world.run(60.0)
    assert world.requests() == ["GET", TRY, WRITE]
    assert world.exists()
    assert world.records[-1].level is Level.INFO
    assert world.writer.status == f"wrote {NAME}"


def test_a_slice_that_cannot_be_deleted_is_deleted_later() -> None:
    world = World(is_registered=False)
    world.has_gate = False
    world.failing = {"DELETE": (403, {"message": "no"})}
    world.register()
    world.run(4.0)
    assert world.requests() == [NODE, "GET", WRITE, "DELETE", "DELETE"]
    failed = world.records[-1]
    assert isinstance(failed, SliceWriteFailed)
    assert failed.remedy == (
        "grant this user get, create, patch and delete of resourceslices, and get of nodes"
    )
    world.failing.clear()
    world.run(60.0)
    assert world.stored is None
    assert "DELETE" in world.requests()


@pytest.mark.parametrize(
    ("method", "status", "answer", "failure", "remedy"),
    [
        ("PATCH", 404, {}, "no_api",
         "resource claims need resource.k8s.io/v1, of Kubernetes 1.34 or newer"),
        ("GET", 403, {"message": "no"}, "forbidden",
         "grant this user get, create, patch and delete of resourceslices, and get of nodes"),
        ("PATCH", 422, {"message": "step"}, "rejected",
         "see `cause`: an admission policy, or an API server of another version"),
        ("PATCH", 409, {"message": 'conflicts with "x"'}, "conflict",
         "delete the ResourceSlice; it is then made again"),
        ("PATCH", 500, {}, "server_error", "see the log of the API server"),
        ("PATCH", 200, {"kind": "Hello"}, "server_error", "correct the address of the API server"),
    ],
)  # fmt: skip
def test_failures(
    method: str, status: int, answer: dict[str, Any], failure: str, remedy: str
) -> None:
    world = World(is_registered=False)
    world.failing = {method: (status, answer)}
    world.register()
    world.run()
    found = world.records[-1]
    assert isinstance(found, SliceWriteFailed)
    assert (found.failure, found.remedy, found.http_status) == (failure, remedy, status)
    assert world.writer.status.startswith("not written: ")
    world.failing.clear()
    world.run(61.0)
    assert world.records[-1].event == "slice_written"


def test_an_api_server_without_resource_slices() -> None:
    world = World(is_registered=False)
    step = None
    world.register()
    while step is None or step.path != PATH:
        step = world.writer.next_step(world.now_s)
        assert step is not None
        if step.path != PATH:
            world.take(world.writer.answered(world.now_s, *world.answer(step)))
    world.take(world.writer.answered(world.now_s, 404, {}))
    failed = world.records[-1]
    assert isinstance(failed, SliceWriteFailed)
    assert failed.failure == "no_api"


def test_a_request_without_an_answer_is_made_again() -> None:
    world = World()
    world.writer.offer(document(2))
    world.now_s += WRITE_S
    assert world.writer.next_step(world.now_s) is not None
    world.take(world.writer.unanswered(world.now_s, FailureKind.UNREACHABLE, "refused"))
    world.requests()
    world.run(1.0)
    assert world.requests() == ["GET", WRITE]
    assert world.events()[-2:] == ["slice_write_failed", "slice_written"]


def test_claims_count_for_the_node_where_the_api_server_accepts_it() -> None:
    assert World().records[-1].counts_for_node is False  # type: ignore[attr-defined]
    world = World(counts_for_node=True)
    assert world.stored is not None
    (device,) = world.stored["spec"]["devices"]
    assert device["nodeAllocatableResources"] == {
        "memory": {"mapping": {"capacityKey": "size", "capacityMultiplier": "1"}}
    }
    (written,) = [each for each in world.records if isinstance(each, SliceWritten)]
    assert written.counts_for_node


def test_without_the_feature_on_the_node_the_slice_is_written_without_the_mapping() -> None:
    world = World(is_registered=False, counts_for_node=True)
    world.refuses_mapping = True
    world.register()
    world.run(5.0)
    assert world.stored is not None
    assert not is_counted_for_node(world.stored)
    failed, written = world.records[-2:]
    assert isinstance(failed, SliceWriteFailed)
    assert (failed.failure, failed.http_status) == (FailureKind.UNSUPPORTED, 403)
    assert "remove --node-allocatable" in failed.remedy
    assert isinstance(written, SliceWritten)
    assert not written.counts_for_node
    # A kubelet that starts again may have the feature.
    world.refuses_mapping = False
    world.register()
    world.run(5.0)
    assert world.stored is not None
    world.writer.offer(document(2))
    world.run(5.0)
    assert is_counted_for_node(world.stored)


def test_another_refusal_keeps_the_mapping() -> None:
    world = World(is_registered=False, counts_for_node=True)
    world.failing["PATCH"] = (403, {"kind": "Status", "message": "policy denied the request"})
    world.register()
    world.run(5.0)
    del world.failing["PATCH"]
    world.run(100.0)
    assert world.stored is not None
    assert is_counted_for_node(world.stored)
