"""The methods of the plugin's service: replies, refusals, time limits, bugs."""

from collections.abc import Callable

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Adjustment, Plan
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.nri.configuration import SUBSCRIPTION, Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.plugin_service import (
    METHODS,
    STATE_CHANGES,
    Limiter,
    Overrun,
    PluginService,
    unlimited,
)
from nri_numamem.ttrpc import (
    Code,
    Request,
    StatusError,
)
from tests.engine.records.examples import example
from tests.laboratory import api_pb2 as api
from tests.nri.runtime_side import FakeHandler, Limits, RuntimeSide, creation


def test_the_subscription_is_valid_for_every_runtime() -> None:
    assert 0 < SUBSCRIPTION <= 0x7FF
    for event in (api.CREATE_CONTAINER, api.STOP_CONTAINER, api.UPDATE_CONTAINER, *STATE_CHANGES):
        assert SUBSCRIPTION >> (event - 1) & 1


def test_a_runtime_that_sends_its_version_sends_updates_of_pods(
    runtime: RuntimeSide, handler: FakeHandler
) -> None:
    configure = api.ConfigureRequest(NRI_version="v0.12.0")
    reply = api.ConfigureResponse.FromString(runtime.call("Configure", configure))
    assert reply.events == SUBSCRIPTION | 0x800
    request = api.UpdatePodSandboxRequest()
    request.pod.id = "sandbox"
    request.linux_resources.memory.limit.value = 5 << 30
    assert runtime.call("UpdatePodSandbox", request) == b""
    (event,) = handler.events
    assert isinstance(event, events.UpdatePodSandbox)
    assert event.pod.memory_limit_bytes == 5 << 30


def test_every_method_of_the_service_is_served() -> None:
    service = api.DESCRIPTOR.services_by_name["Plugin"]
    expected = {method.name: method.input_type.name for method in service.methods}
    served = {name: method.request.DESCRIPTOR.name for name, method in METHODS.items()}
    assert served == expected


def test_configuration_of_old_and_new_runtimes(runtime: RuntimeSide, handler: FakeHandler) -> None:
    runtime.call(
        "Configure",
        api.ConfigureRequest(config="a: b", runtime_name="containerd", runtime_version="v1.7.6"),
    )
    runtime.call(
        "Configure",
        api.ConfigureRequest(
            runtime_name="cri-o", request_timeout=2000, registration_timeout=5000,
            NRI_version="v0.12.2",
        ),
    )  # fmt: skip
    old, new = handler.configurations
    assert old == Configuration("a: b", "containerd", "v1.7.6", None, None)
    assert not old.survives_refusal
    assert new == Configuration("", "cri-o", "", "v0.12.2", 2000)
    assert new.survives_refusal
    records = runtime.session.take_records()
    assert [(record.event, record.request_id) for record in records] == [
        ("configured", "1-1"),
        ("configured", "1-2"),
    ]


def test_a_configuration_can_be_refused(runtime: RuntimeSide, handler: FakeHandler) -> None:
    handler.refuse_configuration = "line 3: no such key"
    with pytest.raises(StatusError, match="line 3: no such key"):
        runtime.call("Configure", api.ConfigureRequest())
    assert runtime.session.take_records() == []  # the handler has logged it


def test_parts_of_a_synchronize_become_one_event(
    runtime: RuntimeSide, handler: FakeHandler
) -> None:
    """A container may be in an earlier part than its pod."""
    first = api.SynchronizeRequest(containers=[api.Container(id="c")], more=True)
    reply = api.SynchronizeResponse.FromString(runtime.call("Synchronize", first))
    assert reply.more
    assert not reply.update
    assert handler.events == []
    last = api.SynchronizeRequest(pods=[api.PodSandbox(id="p")])
    assert runtime.call("Synchronize", last) == b""
    (event,) = handler.events
    assert isinstance(event, events.Synchronize)
    assert [pod.sandbox_id for pod in event.pods] == ["p"]
    assert [found.container_id for found in event.containers] == ["c"]
    # The next Synchronize starts empty.
    runtime.call("Synchronize", api.SynchronizeRequest())
    assert handler.events[1] == events.Synchronize((), ())


def test_create_container_is_adjusted(runtime: RuntimeSide, handler: FakeHandler) -> None:
    handler.plan = lambda _event: Plan(Adjustment("1"))
    payload = runtime.call("CreateContainer", creation())
    reply = api.CreateContainerResponse.FromString(payload)
    assert reply.adjust.linux.resources.cpu.mems == "1"
    assert runtime.session.take_records() == []


def test_create_container_is_refused_with_the_engines_text(
    runtime: RuntimeSide, handler: FakeHandler
) -> None:
    handler.plan = lambda _event: Plan(refusal="numamem: nothing fits")
    with pytest.raises(StatusError, match="numamem: nothing fits") as caught:
        runtime.call("CreateContainer", creation())
    assert caught.value.code == Code.UNKNOWN


@pytest.mark.parametrize(
    ("method", "request_type", "number", "event_type"),
    [
        ("RunPodSandbox", api.RunPodSandboxRequest, api.RUN_POD_SANDBOX, events.RunPodSandbox),
        ("StopPodSandbox", api.StopPodSandboxRequest, api.STOP_POD_SANDBOX, events.StopPodSandbox),
        (
            "RemovePodSandbox",
            api.RemovePodSandboxRequest,
            api.REMOVE_POD_SANDBOX,
            events.RemovePodSandbox,
        ),
        (
            "RemoveContainer",
            api.RemoveContainerRequest,
            api.REMOVE_CONTAINER,
            events.RemoveContainer,
        ),
    ],
)
def test_a_dedicated_call_and_a_state_change_make_the_same_event(
    runtime: RuntimeSide,
    handler: FakeHandler,
    method: str,
    request_type: type[api.RemoveContainerRequest],
    number: int,
    event_type: type,
) -> None:
    request = request_type()
    request.pod.id = "sandbox"
    assert runtime.call(method, request) == b""
    change = api.StateChangeEvent()
    change.event = number  # type: ignore[assignment] # a plain number, as on the wire
    change.pod.id = "sandbox"
    assert runtime.call("StateChange", change) == b""
    dedicated, changed = handler.events
    assert isinstance(dedicated, event_type)
    assert dedicated == changed


@pytest.mark.parametrize("number", [0, *range(1, 15), 99])
def test_state_changes_of_every_event_succeed(runtime: RuntimeSide, number: int) -> None:
    payload = b"\x08" + bytes([number]) + b"\x12\x00"
    assert runtime.call("StateChange", payload) == b""


@pytest.mark.parametrize("method", [name for name in METHODS if name != "Configure"])
def test_an_empty_request_succeeds(runtime: RuntimeSide, method: str) -> None:
    assert runtime.call(method, b"") == b""


def test_empty_updates_and_stops_become_events(runtime: RuntimeSide, handler: FakeHandler) -> None:
    runtime.call("UpdateContainer", api.UpdateContainerRequest())
    runtime.call("StopContainer", api.StopContainerRequest())
    assert [type(event) for event in handler.events] == [
        events.UpdateContainer,
        events.StopContainer,
    ]


def test_a_bug_gets_an_empty_response_and_a_record_with_its_traceback(
    runtime: RuntimeSide, handler: FakeHandler
) -> None:
    def fail(_event: events.Event) -> Plan:
        raise ZeroDivisionError("a bug")

    handler.plan = fail
    assert runtime.call("CreateContainer", creation()) == b""
    (record,) = runtime.session.take_records()
    assert record.level == "error"
    assert fields_of(record)["method"] == "CreateContainerRequest"
    assert fields_of(record)["container_id"] == creation().container.id
    assert "ZeroDivisionError: a bug" in str(fields_of(record)["exception"])
    handler.plan = lambda _event: Plan(Adjustment("0"))
    assert runtime.call("CreateContainer", creation())


def overrunning(_limit_s: float, call: Callable[[], bytes]) -> bytes:
    """Run the call, then raise Overrun."""
    call()
    raise Overrun


def service(handler: FakeHandler, limiter: Limiter) -> PluginService:
    return PluginService(handler, Decoder(), limiter)


def request(payload: bytes = b"", timeout_s: float = 0.0) -> Request:
    return Request("service", "method", payload, round(timeout_s * 1e9))


def test_an_overrun_gets_an_empty_response_and_a_record(handler: FakeHandler) -> None:
    earlier = example("admitted")
    late = service(handler, overrunning)
    for name, method in METHODS.items():
        if name == "Synchronize":
            continue
        expected = b""
        if name == "Configure":
            expected = api.ConfigureResponse(events=SUBSCRIPTION).SerializeToString()
        late.records = [earlier]
        assert late.serve(method, request()) == expected
        first, record = late.records
        assert first is earlier
        assert record.level == "error"
        assert fields_of(record)["limit_ms"] == 1200
    assert late.close_reason is None


def test_the_record_of_an_overrun_names_the_container(handler: FakeHandler) -> None:
    late = service(handler, overrunning)
    pod = api.PodSandbox(id="s", name="db", namespace="ns", uid="u")
    pod.linux.cgroup_parent = "/kubepods/podu"
    container = api.Container(id="c", pod_sandbox_id="s", name="app")
    payload = api.CreateContainerRequest(pod=pod, container=container).SerializeToString()
    late.serve(METHODS["CreateContainer"], request(payload))
    fields = fields_of(late.records[0])
    assert {name: fields[name] for name in ("pod", "namespace", "container", "pod_uid")} == {
        "pod": "db",
        "namespace": "ns",
        "container": "app",
        "pod_uid": "u",
    }
    assert (fields["container_id"], fields["sandbox_id"]) == ("c", "s")
    assert fields["qos_class"] == "Guaranteed"


def test_an_overrun_with_an_invalid_payload_has_no_names(handler: FakeHandler) -> None:
    def at_once(_limit_s: float, _call: Callable[[], bytes]) -> bytes:
        raise Overrun

    late = service(handler, at_once)
    assert late.serve(METHODS["CreateContainer"], request(b"\xff\xff")) == b""
    assert "container_id" not in fields_of(late.records[0])


def test_an_overrun_of_synchronize_closes_the_connection(handler: FakeHandler) -> None:
    late = service(handler, overrunning)
    assert late.serve(METHODS["Synchronize"], request()) == b""
    assert late.close_reason == "Synchronize took longer than 1800 ms"


def test_a_bug_in_configure_does_not_subscribe_to_everything(handler: FakeHandler) -> None:
    def broken(_configuration: Configuration) -> None:
        raise ValueError("a bug")

    handler.configure = broken  # type: ignore[method-assign, assignment]
    reply = service(handler, unlimited).serve(METHODS["Configure"], request())
    assert api.ConfigureResponse.FromString(reply).events == SUBSCRIPTION


def test_the_limit_is_a_fraction_of_the_smaller_timeout(handler: FakeHandler) -> None:
    limits = Limits()
    served = service(handler, limits)
    configure = api.ConfigureRequest(request_timeout=1000).SerializeToString()
    served.serve(METHODS["Configure"], request(configure))
    served.serve(METHODS["StopContainer"], request())
    served.serve(METHODS["StopContainer"], request(timeout_s=0.5))
    served.serve(METHODS["StopContainer"], request(timeout_s=5.0))
    assert limits.limits_s == pytest.approx([1.2, 0.6, 0.3, 0.6])


def test_calls_of_old_runtimes_carry_the_timeout(handler: FakeHandler) -> None:
    """Their Configure has no timeout, and administrators may configure any."""
    limits = Limits()
    served = service(handler, limits)
    served.serve(METHODS["Configure"], request())
    for timeout_s in (0.0, 0.5, 5.0):
        served.serve(METHODS["StopContainer"], request(timeout_s=timeout_s))
    assert limits.limits_s == pytest.approx([1.2, 1.2, 0.3, 3.0])


@pytest.mark.parametrize(("name", "keeps"), [("containerd", True), ("v2", True), ("cri-o", False)])
def test_only_cri_o_does_not_keep_updates(handler: FakeHandler, name: str, *, keeps: bool) -> None:
    runtime = RuntimeSide(handler)
    runtime.call("Configure", api.ConfigureRequest(runtime_name=name))
    runtime.call("Synchronize", api.SynchronizeRequest())
    assert handler.events == [events.Synchronize((), (), keeps)]
