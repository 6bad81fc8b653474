"""The loop with resource claims: the slice beside the object."""

from dataclasses import replace
from typing import Any

from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.export.requests import APPLY
from nri_numamem.exporter.loop import LOOK_S, REQUEST_S
from nri_numamem.exporter.mailbox import Registered
from tests.exporter.test_loop import World

PATH = "/apis/resource.k8s.io/v1/resourceslices/w-numamem.io"


def resource_slice(size: int) -> dict[str, Any]:
    device = {"name": "memory-0", "allowMultipleAllocations": True, "size": size}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": "w-numamem.io"},
        "spec": {"pool": {"name": "w"}, "devices": [device]},
    }


class ClaimWorld(World):
    """A host with a slice, and an API server that accepts it."""

    def __init__(self, *, has_claims: bool = True) -> None:
        super().__init__(has_claims=has_claims)
        self.change_slice(1)

    def change_slice(self, size: int) -> None:
        self.reading = replace(self.reading, resource_slice=resource_slice(size))
        self.stamp_value += 1

    def send(self, request: Request) -> Answer:
        if not request.path.startswith(PATH) or self.answer is not None:
            return super().send(request)
        self.sent.append((self.now_s, request))
        if request.method == "GET":
            return Answer(404, {"kind": "Status", "details": {"name": "w-numamem.io"}})
        return Answer(201, resource_slice(1))

    def slices(self) -> list[tuple[float, str]]:
        found = [(at_s, one.method) for at_s, one in self.sent if one.path.startswith(PATH)]
        self.sent.clear()
        return found


def test_the_slice_is_written_when_the_kubelet_has_registered_the_driver() -> None:
    world = ClaimWorld()
    world.run(3.0)
    assert world.slices() == []
    assert world.reports == [
        "ready: wrote w; claims: the kubelet has not registered the driver yet"
    ]
    world.post(0.5, Registered(""))
    world.run(1.0)
    (_, write) = (one for _, one in world.sent if one.path.startswith(PATH))
    assert (write.method, write.content_type) == ("PATCH", APPLY)
    assert world.slices() == [(3.5, "GET"), (3.5, "PATCH")]
    assert world.reports[-1] == "wrote w; claims: wrote w-numamem.io"
    assert [record.event for record in world.records] == [
        "topology_written",
        "driver_registered",
        "slice_written",
    ]


def test_a_change_of_the_host_is_written_within_a_second() -> None:
    world = ClaimWorld()
    world.post(0.0, Registered(""))
    world.run(5.2)
    world.sent.clear()
    world.change_slice(2)
    world.run(1.0)
    ((at_s, _),) = world.slices()
    assert 5.2 < at_s <= 5.2 + LOOK_S


def test_a_registration_that_fails_is_in_the_status() -> None:
    world = ClaimWorld()
    world.post(0.5, Registered("no version"))
    world.run(1.0)
    assert world.slices() == []
    assert world.reports[-1] == "wrote w; claims: the kubelet does not use the driver: no version"


def test_a_failure_of_the_slice_does_not_stop_the_object() -> None:
    world = ClaimWorld()
    world.post(0.0, Registered(""))
    world.run(1.5)
    world.request_s = REQUEST_S + 1.0
    world.change_slice(2)
    world.run(REQUEST_S + 2.0)
    assert "slice_write_failed" in [record.event for record in world.records]
    world.request_s = 0.0
    world.change(3)
    world.run(30.0)
    assert world.reports[-1].startswith("wrote w; claims: ")


def test_without_claims_no_slice_is_written() -> None:
    world = ClaimWorld(has_claims=False)
    world.post(0.0, Registered(""))
    world.run(20.0)
    assert world.slices() == []
    assert world.reports == ["ready: wrote w"]


def test_an_api_server_that_is_away() -> None:
    world = ClaimWorld()
    world.answer = RequestError("refused")
    world.post(0.0, Registered(""))
    world.run(1.0)
    assert world.reports[-1] == "not written: refused; claims: not written: refused"
