"""The driver of claims, with grpcio as the kubelet and the plugin's files."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.engine.records.export import (
    DeletedClaimReleased,
    PrepareFailed,
    PrepareSucceeded,
    UnprepareFailed,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.exporter.claim_store import ClaimStore
from nri_numamem.exporter.claims import (
    CALLS,
    PREPARE_S,
    REQUEST_BYTES,
    ClaimDriver,
    registration_methods,
)
from nri_numamem.grpc import Server
from nri_numamem.kubelet import dra
from nri_numamem.kubelet import dra_pb2 as pb
from nri_numamem.kubelet import pluginregistration_pb2 as registration
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import claim_files
from nri_numamem.observe.files import replace_file
from nri_numamem.observe.wake import wake
from tests.claim_plugin import ClaimPlugin
from tests.grpc.pair import no_bug

GENEROUS_S = 60.0
GI = 1 << 30


def result(request: str = "mem", device: str = "memory-1", **more: object) -> dict[str, Any]:
    return {
        "request": request,
        "driver": "numamem.io",
        "pool": "worker-1",
        "device": device,
        "consumedCapacity": {"size": "1Gi"},
        **more,
    }


def claim(name: str, *results: object, pods: tuple[str, ...] = ("p",)) -> dict[str, Any]:
    return {
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "status": {
            "allocation": {"devices": {"results": list(results or (result(),))}},
            "reservedFor": [{"resource": "pods", "uid": uid} for uid in pods],
        },
    }


def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    while not condition():
        time.sleep(0.002)


class Kubelet:
    """A client of a driver, and what surrounds the driver."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.answers: dict[str, Answer | Exception] = {}
        """Name of a claim -> the API server's answer; a claim with one device without it."""
        self.requests: list[Request] = []
        self.records: list[Record] = []
        self.clock: Callable[[], float] = lambda: 0.0
        self.store = ClaimStore(directory, self._now_s)
        self.driver = ClaimDriver(
            "worker-1", self.store, self._send, self.records.append, self._now_s
        )
        self.channel: grpc.Channel | None = None

    def _now_s(self) -> float:
        return self.clock()

    def _send(self, request: Request) -> Answer:
        self.requests.append(request)
        name = request.path.rpartition("/")[2]
        answer = self.answers.get(name, Answer(200, claim(name)))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin(self, *names: str) -> "grpc.Future[pb.NodePrepareResourcesResponse]":
        """Call NodePrepareResources."""
        assert self.channel is not None
        method = self.channel.unary_unary(
            dra.NODE_PREPARE_RESOURCES,
            request_serializer=pb.NodePrepareResourcesRequest.SerializeToString,
            response_deserializer=pb.NodePrepareResourcesResponse.FromString,
        )
        claims = [pb.Claim(namespace="ns", name=name, uid=f"uid-{name}") for name in names]
        return method.future(pb.NodePrepareResourcesRequest(claims=claims), timeout=GENEROUS_S)

    def prepare(self, name: str) -> pb.NodePrepareResourceResponse:
        """Prepare a claim."""
        reply: pb.NodePrepareResourcesResponse = self.begin(name).result()
        return reply.claims[f"uid-{name}"]

    def error(self, name: str) -> str:
        """Return why a claim is not prepared."""
        reply = self.prepare(name)
        assert not reply.devices
        return reply.error

    def unprepare(self, name: str, uid: str = "") -> str:
        assert self.channel is not None
        method = self.channel.unary_unary(
            dra.NODE_UNPREPARE_RESOURCES,
            request_serializer=pb.NodeUnprepareResourcesRequest.SerializeToString,
            response_deserializer=pb.NodeUnprepareResourcesResponse.FromString,
        )
        one = pb.Claim(namespace="ns", name=name, uid=uid or f"uid-{name}")
        reply = method(pb.NodeUnprepareResourcesRequest(claims=[one]), timeout=GENEROUS_S)
        assert list(reply.claims) == [one.uid]
        return str(reply.claims[one.uid].error)


class World(NamedTuple):
    kubelet: Kubelet
    plugin: ClaimPlugin


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    kubelet = Kubelet(tmp_path / "claims")
    driver, path = kubelet.driver, tmp_path / "dra.sock"
    with (
        ClaimPlugin(kubelet.directory) as plugin,
        kubelet.store,
        Server(path, driver.methods(), no_bug, calls=CALLS, request_bytes=REQUEST_BYTES),
        grpc.insecure_channel(f"unix://{path}") as kubelet.channel,
    ):
        yield World(kubelet, plugin)
        kubelet.store.stop()


def test_a_claim_is_prepared_when_the_plugin_has_charged_it(world: World) -> None:
    reply = world.kubelet.prepare("app")
    assert not reply.error
    (device,) = reply.devices
    assert (list(device.request_names), device.pool_name) == (["mem"], "worker-1")
    assert (device.device_name, device.share_id) == ("memory-1", "")
    assert list(device.cdi_device_ids) == ["numamem.io/claim=uid-app-mem"]
    (intent,) = world.plugin.answered
    requests = {"mem": {1: {"memory": GI}}}
    assert intent.claim == Claim("uid-app", "ns", "app", requests, frozenset({"p"}))
    (request,) = world.kubelet.requests
    assert request == Request("GET", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/app")
    (record,) = world.kubelet.records
    assert record == PrepareSucceeded(
        claim="app", namespace="ns", claim_uid="uid-app", duration_ms=0
    )


def test_each_request_has_its_cdi_device_once(world: World) -> None:
    results = (
        result("mem/near", "memory-1", shareID="s-1"),
        result("mem/near", "memory-0"),
        result("pages", "hugepages-1gi-1"),
        result("cpus", "cpudevnuma1", driver="dra.cpu"),
    )
    world.kubelet.answers["app"] = Answer(200, claim("app", *results))
    assert [
        (*device.request_names, device.device_name, *device.cdi_device_ids, device.share_id)
        for device in world.kubelet.prepare("app").devices
    ] == [
        ("mem", "memory-1", "numamem.io/claim=uid-app-mem", "s-1"),
        ("mem", "memory-0", ""),
        ("pages", "hugepages-1gi-1", "numamem.io/claim=uid-app-pages", ""),
    ]


def test_the_plugin_refuses_and_admits_the_next_attempt(world: World) -> None:
    text = "NUMA node 1 has memory 1Gi free of 2Gi requested, 1Gi short"
    world.plugin.refusals["app"] = text
    assert world.kubelet.error("app") == text
    assert world.kubelet.records == [
        PrepareFailed(claim="app", namespace="ns", claim_uid="uid-app", cause=text)
    ]
    world.plugin.refusals.clear()
    assert world.kubelet.prepare("app").devices
    first, second = world.plugin.answered
    assert first.attempt != second.attempt


def test_a_claim_that_is_charged_needs_no_plugin(world: World) -> None:
    assert world.kubelet.prepare("app").devices
    world.plugin.ignored.add("app")
    assert world.kubelet.prepare("app").devices  # after a restart of the kubelet
    assert len(world.plugin.answered) == 1
    record = world.kubelet.records[-1]
    assert isinstance(record, PrepareSucceeded)
    assert record.already_charged


@pytest.mark.parametrize(
    "changed", [claim("app", result(device="memory-0")), claim("app", pods=("p", "q"))]
)
def test_a_claim_that_has_changed_is_a_new_attempt(world: World, changed: dict[str, Any]) -> None:
    assert world.kubelet.prepare("app").devices
    world.kubelet.answers["app"] = Answer(200, changed)
    assert world.kubelet.prepare("app").devices
    assert len(world.plugin.answered) == 2


def test_a_plugin_that_does_not_answer(world: World) -> None:
    world.plugin.ignored.add("app")
    call = world.kubelet.begin("app")
    until(world.plugin.intents)
    world.kubelet.clock = lambda: PREPARE_S
    assert call.result().claims["uid-app"].error == (
        "the plugin nri-numamem does not answer: no answer within 40 s; check that it runs with "
        "resource claims enabled (nri-numamem doctor)"
    )


def test_an_answer_that_cannot_be_read(world: World) -> None:
    world.plugin.ignored.add("app")
    file = claim_files.answers_file(world.plugin.directory)
    replace_file(file, b"{")
    call = world.kubelet.begin("app")
    until(world.plugin.intents)
    wake(claim_files.intents_file(world.plugin.directory))
    until(lambda: world.kubelet.store.problem)
    world.kubelet.clock = lambda: PREPARE_S
    assert f"does not answer: {file}: not JSON" in call.result().claims["uid-app"].error


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            RequestError("https://10.0.0.1:443: Connection refused"),
            ("cannot read the claim: https://10.0.0.1:443: Connection refused; check that the API "
            "server runs, and that its address is correct"),
        ),
        (AccessError("/token: No such file"), "cannot read the claim: /token: No such file"),
        (
            Answer(403, {"message": 'User "x" cannot get resource "resourceclaims"'}),
            ('cannot read the claim: User "x" cannot get resource "resourceclaims"; grant this '
            "user get of resourceclaims"),
        ),
        (Answer(404, {}), ("cannot read the claim: HTTP status 404; delete the pod, or create the "
         "claim that it names")),
        (Answer(500, {}), "cannot read the claim: HTTP status 500; see the log of the API server"),
        (Answer(200, {}), ("cannot read the claim: HTTP status 200, but not the object: this is "
         "not a Kubernetes API server; correct the address of the API server")),
        (
            Answer(200, claim("app", result(device="memory-x"))),
            "'memory-x' is not a device such as memory-1 or hugepages-2mi-0",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_cannot_be_read(world: World, answer: Answer | Exception, text: str) -> None:
    world.kubelet.answers["app"] = answer
    assert world.kubelet.error("app") == text
    assert not world.plugin.intents()


def test_a_directory_that_cannot_be_written(world: World) -> None:
    assert world.kubelet.prepare("app").devices
    file = claim_files.intents_file(world.plugin.directory)
    file.unlink()
    file.mkdir()
    assert world.kubelet.error("next") == ("cannot write the claim for the plugin: Is a directory")
    cause = "cannot remove the claim for the plugin: Is a directory"
    assert world.kubelet.unprepare("app") == cause
    assert world.kubelet.records[-1] == UnprepareFailed(
        claim="app", namespace="ns", claim_uid="uid-app", cause=cause
    )
    file.rmdir()
    assert world.kubelet.unprepare("app") == ""


def test_a_uid_that_is_no_file_name(world: World) -> None:
    document = claim("app")
    document["metadata"]["uid"] = "uid-../app"
    world.kubelet.answers["../app"] = world.kubelet.answers["app"] = Answer(200, document)
    assert world.kubelet.error("../app") == "'uid-../app' is not the uid of a claim"
    assert world.kubelet.unprepare("../app") == ""


GONE = Answer(404, {"kind": "Status", "details": {"name": "app", "kind": "resourceclaims"}})


@pytest.mark.parametrize(
    ("answer", "is_released"),
    [
        (GONE, True),
        (Answer(200, {**claim("app"), "metadata": {"name": "app", "uid": "another"}}), True),
        (Answer(200, claim("app")), False),
        (Answer(404, {}), False),
        (Answer(200, {}), False),
        (Answer(500, {}), False),
        (RequestError("refused"), False),
        (AccessError("no token"), False),
    ],
)
def test_only_a_claim_that_is_deleted_is_released(
    world: World, answer: Answer | Exception, is_released: bool
) -> None:
    assert world.kubelet.prepare("app").devices
    world.kubelet.answers["app"] = answer
    world.kubelet.driver.release_deleted()
    assert bool(world.plugin.intents()) is not is_released
    released = DeletedClaimReleased(claim="app", namespace="ns", claim_uid="uid-app")
    assert (world.kubelet.records[-1] == released) is is_released


def test_a_deleted_claim_that_cannot_be_released_is_tried_again(world: World) -> None:
    assert world.kubelet.prepare("app").devices
    world.kubelet.answers["app"] = GONE
    file = claim_files.intents_file(world.plugin.directory)
    file.unlink()
    file.mkdir()
    world.kubelet.driver.release_deleted()
    assert not any(isinstance(each, DeletedClaimReleased) for each in world.kubelet.records)
    file.rmdir()


def test_unprepare_removes_the_intent_and_repeats(world: World) -> None:
    assert world.kubelet.unprepare("unknown") == ""
    assert world.kubelet.prepare("app").devices
    assert list(world.plugin.intents()) == ["app"]
    assert world.kubelet.unprepare("app") == ""
    assert not world.plugin.intents()
    assert world.kubelet.unprepare("app") == ""


def test_calls_that_wait_for_the_plugin_delay_no_others(world: World) -> None:
    waiting = [f"waiting-{n}" for n in range(25)]
    world.plugin.ignored.update(waiting)
    calls = {name: world.kubelet.begin(name) for name in waiting}
    until(lambda: len(world.plugin.intents()) == len(waiting))
    for n in range(25):
        assert world.kubelet.prepare(f"next-{n}").devices
    assert world.kubelet.unprepare("next-1") == ""
    assert world.kubelet.unprepare("waiting-1") == ""
    assert not any(call.done() for call in calls.values())
    world.plugin.ignored.clear()
    world.plugin.wake()
    del calls["waiting-1"]
    for name, call in calls.items():
        assert call.result().claims[f"uid-{name}"].devices
    world.kubelet.store.stop()


def test_two_calls_for_one_claim_are_one_attempt(world: World) -> None:
    world.plugin.ignored.add("app")
    calls = [world.kubelet.begin("app") for _ in range(2)]
    until(lambda: len(world.kubelet.requests) == 2)
    world.plugin.ignored.clear()
    world.plugin.wake()
    assert all(call.result().claims["uid-app"].devices for call in calls)
    assert len(world.plugin.answered) == 1


def test_claims_of_one_call_share_its_time(world: World) -> None:
    world.plugin.ignored |= {"first", "second"}
    call = world.kubelet.begin("first", "second")
    until(world.plugin.intents)
    world.kubelet.clock = lambda: PREPARE_S
    for name in ("first", "second"):
        assert "does not answer" in call.result().claims[f"uid-{name}"].error


def test_a_call_that_waits_for_another_one_ends_in_time(tmp_path: Path) -> None:
    kubelet = Kubelet(tmp_path / "claims")
    one = pb.Claim(namespace="ns", name="app", uid="uid-app")
    payload = pb.NodePrepareResourcesRequest(claims=[one]).SerializeToString()
    prepare = kubelet.driver.methods()[dra.NODE_PREPARE_RESOURCES]
    first = threading.Thread(target=prepare, args=(payload, None))
    first.start()
    until(lambda: claim_files.read_intents(kubelet.directory).found)
    times_s = iter([0.0, 0.0])  # of the begin; then the time is over for this thread
    kubelet.clock = lambda: 0.0 if threading.current_thread() is first else next(times_s, PREPARE_S)
    second = pb.NodePrepareResourcesResponse.FromString(prepare(payload, None))
    text = "another call that prepares this claim waits for the plugin"
    assert second.claims["uid-app"].error == text
    kubelet.store.stop()
    first.join()


def test_calls_that_wait_end_with_the_process(world: World) -> None:
    world.plugin.ignored.add("app")
    call = world.kubelet.begin("app")
    until(world.plugin.intents)
    world.kubelet.store.stop()
    text = "nri-numamem agent stops; the kubelet tries again"
    assert call.result().claims["uid-app"].error == text


def test_a_request_that_is_not_valid(world: World) -> None:
    assert world.kubelet.channel is not None
    for method, name in (
        (dra.NODE_PREPARE_RESOURCES, "NodePrepareResourcesRequest"),
        (dra.NODE_UNPREPARE_RESOURCES, "NodeUnprepareResourcesRequest"),
    ):
        with pytest.raises(grpc.RpcError) as found:
            world.kubelet.channel.unary_unary(method)(b"\xff", timeout=GENEROUS_S)
        assert found.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert found.value.details().startswith(f"{name} is not valid")


def test_the_registration(tmp_path: Path) -> None:
    found: list[str] = []
    methods = registration_methods(Path("/k/plugins/numamem.io/dra.sock"), found.append)
    with (
        Server(tmp_path / "reg.sock", methods, no_bug),
        grpc.insecure_channel(f"unix://{tmp_path / 'reg.sock'}") as channel,
    ):
        info = registration.PluginInfo.FromString(channel.unary_unary(dra.GET_INFO)(b""))
        assert (info.type, info.name) == ("DRAPlugin", "numamem.io")
        assert info.endpoint == "/k/plugins/numamem.io/dra.sock"
        assert list(info.supported_versions) == ["v1.DRAPlugin"]
        notify = channel.unary_unary(
            dra.NOTIFY_REGISTRATION_STATUS,
            request_serializer=registration.RegistrationStatus.SerializeToString,
        )
        assert notify(registration.RegistrationStatus(plugin_registered=True)) == b""
        assert notify(registration.RegistrationStatus(error="no version")) == b""
        with pytest.raises(grpc.RpcError, match="RegistrationStatus is not valid"):
            channel.unary_unary(dra.NOTIFY_REGISTRATION_STATUS)(b"\xff")
    assert found == ["", "no version"]
