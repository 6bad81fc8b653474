"""The session against a scripted runtime made of the multiplexer and ttrpc's own ends."""

from collections.abc import Callable, Mapping

import pytest
from google.protobuf.message import Message

from nri_numamem.engine import events
from nri_numamem.engine.plan import Adjustment, Plan, Record, flattened
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import parts
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.methods import (
    METHODS,
    STATE_CHANGES,
    SUBSCRIPTION,
    Configuration,
    Limiter,
    Overrun,
    PluginMethods,
    Refused,
    unlimited,
)
from nri_numamem.nri.mux import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    Demultiplexer,
    MuxError,
    frame_message,
)
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.ttrpc import (
    CallFailed,
    ClientConnection,
    Code,
    ReplyReceived,
    Request,
    RequestReceived,
    ServerConnection,
    StatusError,
)


class FakeHandler:
    def __init__(self) -> None:
        self.configurations: list[Configuration] = []
        self.events: list[events.Event] = []
        self.plan: Callable[[events.Event], Plan] = lambda _event: Plan()
        self.refuse_configuration: str | None = None

    def configure(self, configuration: Configuration) -> None:
        self.configurations.append(configuration)
        if self.refuse_configuration:
            raise Refused(self.refuse_configuration)

    def handle(self, event: events.Event) -> Plan:
        self.events.append(event)
        return self.plan(event)


class ScriptedRuntime:
    """The other end, in memory; `cut` says how its bytes are cut before the plugin gets them."""

    def __init__(self, handler: FakeHandler, cut: int | None = None) -> None:
        def no_limits(_cgroup_parent: str) -> Mapping[int, int]:
            return {}

        self.session = PluginSession(
            handler, Decoder(no_limits), plugin_name="nri-numamem", plugin_idx="10"
        )
        self.client = ClientConnection()
        self.server = ServerConnection()
        self.cut = cut
        self._mux = Demultiplexer((PLUGIN_SERVICE_CONN, RUNTIME_SERVICE_CONN))

    def take(self, data: bytes) -> tuple[list[RequestReceived], list[ReplyReceived | CallFailed]]:
        requests: list[RequestReceived] = []
        replies: list[ReplyReceived | CallFailed] = []
        for conn_id, piece in self._mux.receive_data(data):
            if conn_id == RUNTIME_SERVICE_CONN:
                found = self.server.receive_data(piece)
                requests.extend(r for r in found if isinstance(r, RequestReceived))
            else:
                replies.extend(self.client.receive_data(piece))
        return requests, replies

    def give(self, data: bytes) -> bytes:
        size = self.cut or len(data)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        return b"".join(self.session.receive_data(piece) for piece in pieces)

    def call(self, method: str, request: Message | bytes, service: str = PLUGIN_SERVICE) -> bytes:
        payload = request if isinstance(request, bytes) else request.SerializeToString()
        _, message = self.client.call(service, method, payload)
        _, (reply,) = self.take(self.give(frame_message(PLUGIN_SERVICE_CONN, message)))
        if isinstance(reply, CallFailed):
            raise reply.error
        return reply.payload


@pytest.fixture
def handler() -> FakeHandler:
    return FakeHandler()


@pytest.fixture(params=[None, 1, 7], ids=["whole", "byte by byte", "sevens"])
def runtime(handler: FakeHandler, request: pytest.FixtureRequest) -> ScriptedRuntime:
    return ScriptedRuntime(handler, request.param)


def creation() -> api.CreateContainerRequest:
    request = api.CreateContainerRequest()
    request.pod.id = "sandbox"
    request.container.id = "c"
    request.container.env.extend(f"NAME_{number}=value" for number in range(300))
    return request


def test_registration_names_the_plugin_on_the_runtimes_connection(runtime: ScriptedRuntime) -> None:
    (request,), _ = runtime.take(runtime.session.start())
    assert request.stream_id == 1
    assert request.request.service == "nri.pkg.api.v1alpha1.Runtime"
    assert request.request.method == "RegisterPlugin"
    register = api.RegisterPluginRequest.FromString(request.request.payload)
    assert (register.plugin_name, register.plugin_idx) == ("nri-numamem", "10")

    # Configure comes before the answer to the registration, as NRI >= 0.6.1 does it.
    reply = api.ConfigureResponse.FromString(runtime.call("Configure", api.ConfigureRequest()))
    assert reply.events == SUBSCRIPTION
    before = runtime.session.registered
    answer = frame_message(RUNTIME_SERVICE_CONN, runtime.server.reply(1, b""))
    assert runtime.give(answer) == b""
    assert (before, runtime.session.registered) == (False, True)
    assert not runtime.session.finished


def test_a_refused_registration_ends_the_session(runtime: ScriptedRuntime) -> None:
    runtime.take(runtime.session.start())
    refusal = runtime.server.reply_error(1, Code.UNKNOWN, "invalid plugin index")
    runtime.give(frame_message(RUNTIME_SERVICE_CONN, refusal))
    assert runtime.session.finished
    assert "invalid plugin index" in (runtime.session.refused or "")


def test_the_subscription_holds_for_every_runtime() -> None:
    assert 0 < SUBSCRIPTION <= 0x7FF
    for event in (api.CREATE_CONTAINER, api.STOP_CONTAINER, api.UPDATE_CONTAINER, *STATE_CHANGES):
        assert SUBSCRIPTION >> (event - 1) & 1


def test_every_method_of_the_service_is_served() -> None:
    service = api.DESCRIPTOR.services_by_name["Plugin"]
    expected = {method.name: method.input_type.name for method in service.methods}
    served = {name: method.request.DESCRIPTOR.name for name, method in METHODS.items()}
    assert served == expected


def test_configuration_of_old_and_new_runtimes(
    runtime: ScriptedRuntime, handler: FakeHandler
) -> None:
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
    assert [record.event for record in runtime.session.take_records()] == [
        "configured by the runtime"
    ] * 2


def test_a_configuration_can_be_refused(runtime: ScriptedRuntime, handler: FakeHandler) -> None:
    handler.refuse_configuration = "line 3: no such key"
    with pytest.raises(StatusError, match="line 3: no such key"):
        runtime.call("Configure", api.ConfigureRequest())
    (record,) = runtime.session.take_records()
    assert (record.event, record.level) == ("configuration refused", "error")


def test_a_split_synchronize_is_gathered_and_answered_at_its_end(
    runtime: ScriptedRuntime, handler: FakeHandler
) -> None:
    """A container may come in an earlier part than its pod."""
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
    # The next one begins with nothing left over.
    runtime.call("Synchronize", api.SynchronizeRequest())
    assert handler.events[1] == events.Synchronize((), ())


def test_parts_are_decoded_after_the_replies_to_them(handler: FakeHandler) -> None:
    read: list[str] = []

    def pod_hugepages(cgroup_parent: str) -> Mapping[int, int]:
        read.append(cgroup_parent)
        return {}

    runtime = ScriptedRuntime(handler)
    runtime.session = PluginSession(
        handler, Decoder(pod_hugepages), plugin_name="x", plugin_idx="10"
    )
    parent = api.LinuxPodSandbox(cgroup_parent="/kubepods/pod1")
    sandbox = api.PodSandbox(id="p", linux=parent)
    runtime.call("Synchronize", api.SynchronizeRequest(pods=[sandbox], more=True))
    assert read == []
    runtime.session.after_replies()
    assert read == ["/kubepods/pod1"]
    runtime.call("Synchronize", api.SynchronizeRequest())
    assert read == ["/kubepods/pod1"]
    assert len(handler.events) == 1


def part(size_bytes: int, *, more: bool = True) -> api.SynchronizeRequest:
    """Return a part of about that size."""
    container = api.Container(id="c", env=["x" * size_bytes])
    return api.SynchronizeRequest(containers=[container], more=more)


@pytest.mark.parametrize("more", [True, False], ids=["there is more", "the last"])
def test_parts_of_a_synchronize_are_bounded_together(
    handler: FakeHandler, monkeypatch: pytest.MonkeyPatch, more: bool
) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", 1 << 20)
    runtime = ScriptedRuntime(handler)
    for _ in range(3):
        payload = runtime.call("Synchronize", part(300_000))
        assert api.SynchronizeResponse.FromString(payload).more
    before = runtime.session.finished
    assert runtime.call("Synchronize", part(300_000, more=more)) == b""
    assert (before, runtime.session.finished) == (False, True)
    assert runtime.session.refused == "Synchronize in parts of more than 1 MiB together"
    (record,) = runtime.session.take_records()
    assert (record.event, record.level) == ("Synchronize is too large", "error")
    # What was still under way does not become a Synchronize of its own.
    assert runtime.call("Synchronize", part(10, more=False)) == b""
    assert handler.events == []


def test_the_bound_is_for_one_synchronize_in_parts(
    handler: FakeHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_TOTAL_BYTES", 1 << 20)
    runtime = ScriptedRuntime(handler)
    for _ in range(2):
        runtime.call("Synchronize", part(600_000))
        runtime.call("Synchronize", part(300_000, more=False))
    # What comes in one piece has the bound of a message.
    runtime.call("Synchronize", part(2 << 20, more=False))
    assert not runtime.session.finished
    assert len(handler.events) == 3


def test_create_container_is_adjusted(runtime: ScriptedRuntime, handler: FakeHandler) -> None:
    handler.plan = lambda _event: Plan(Adjustment("1"), records=(Record("admitted"),))
    payload = runtime.call("CreateContainer", creation())
    reply = api.CreateContainerResponse.FromString(payload)
    assert reply.adjust.linux.resources.cpu.mems == "1"
    assert [record.event for record in runtime.session.take_records()] == ["admitted"]
    assert runtime.session.take_records() == []


def test_create_container_is_refused_with_the_engines_words(
    runtime: ScriptedRuntime, handler: FakeHandler
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
def test_dedicated_call_and_state_change_do_the_same(
    runtime: ScriptedRuntime,
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
def test_state_changes_of_every_kind_are_answered_with_success(
    runtime: ScriptedRuntime, number: int
) -> None:
    payload = b"\x08" + bytes([number]) + b"\x12\x00"
    assert runtime.call("StateChange", payload) == b""


@pytest.mark.parametrize("method", [name for name in METHODS if name != "Configure"])
def test_an_empty_request_is_answered_with_success(runtime: ScriptedRuntime, method: str) -> None:
    assert runtime.call(method, b"") == b""


def test_update_and_stop_can_carry_nothing(runtime: ScriptedRuntime, handler: FakeHandler) -> None:
    runtime.call("UpdateContainer", api.UpdateContainerRequest())
    runtime.call("StopContainer", api.StopContainerRequest())
    assert [type(event) for event in handler.events] == [
        events.UpdateContainer,
        events.StopContainer,
    ]


def test_a_bug_is_answered_neutrally_and_recorded_with_its_traceback(
    runtime: ScriptedRuntime, handler: FakeHandler
) -> None:
    def fail(_event: events.Event) -> Plan:
        raise ZeroDivisionError("a bug")

    handler.plan = fail
    assert runtime.call("CreateContainer", creation()) == b""
    (record,) = runtime.session.take_records()
    assert record.level == "error"
    assert record.fields["method"] == "CreateContainerRequest"
    assert "ZeroDivisionError: a bug" in str(record.fields["exception"])
    handler.plan = lambda _event: Plan(Adjustment("0"))
    assert runtime.call("CreateContainer", creation())


def test_unknown_service_method_and_garbage_leave_the_session_alive(
    runtime: ScriptedRuntime,
) -> None:
    for method, service, payload, code in (
        ("Configure", "some.Service", b"", Code.UNIMPLEMENTED),
        ("NoSuchMethod", PLUGIN_SERVICE, b"", Code.UNIMPLEMENTED),
        ("CreateContainer", PLUGIN_SERVICE, b"\xff\xff\xff", Code.INTERNAL),
    ):
        with pytest.raises(StatusError) as caught:
            runtime.call(method, payload, service)
        assert caught.value.code == code
    with pytest.raises(StatusError) as caught:
        runtime.call("CreateContainer", b"\x0a\x04\x0a\x02\xff\xfe")  # pod.id is not UTF-8
    assert caught.value.code == Code.INTERNAL
    assert runtime.call("Shutdown", b"") == b""


def test_a_message_with_a_bad_stream_id_is_answered_and_the_session_goes_on(
    runtime: ScriptedRuntime,
) -> None:
    even = b"\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00"
    reply = runtime.give(frame_message(PLUGIN_SERVICE_CONN, even))
    assert reply[8:][:10].endswith(b"\x02\x00")  # a response
    assert runtime.call("Shutdown", b"") == b""


def test_two_requests_in_one_read_get_two_replies(handler: FakeHandler) -> None:
    runtime = ScriptedRuntime(handler)
    messages = [runtime.client.call(PLUGIN_SERVICE, "Shutdown", b"") for _ in range(2)]
    data = b"".join(frame_message(PLUGIN_SERVICE_CONN, message) for _, message in messages)
    _, replies = runtime.take(runtime.give(data))
    assert [reply.stream_id for reply in replies] == [stream_id for stream_id, _ in messages]


def test_an_absurd_frame_ends_the_connection(handler: FakeHandler) -> None:
    runtime = ScriptedRuntime(handler)
    with pytest.raises(MuxError):
        runtime.give(b"\x00\x00\x00\x01\xff\xff\xff\xff")


def overrunning(_limit_s: float, call: Callable[[], bytes]) -> bytes:
    """Let every call do its work, and then say that it was too late."""
    call()
    raise Overrun


class Limits:
    """A limiter that notes the limits."""

    def __init__(self) -> None:
        self.limits_s: list[float] = []

    def __call__(self, limit_s: float, call: Callable[[], bytes]) -> bytes:
        self.limits_s.append(limit_s)
        return call()


def methods(handler: FakeHandler, limiter: Limiter) -> PluginMethods:
    return PluginMethods(handler, Decoder(lambda _parent: {}), limiter)


def test_a_call_that_is_too_late_gets_the_neutral_reply(handler: FakeHandler) -> None:
    told = Record("told")
    handler.plan = lambda _event: Plan(records=(told,))
    late = methods(handler, overrunning)
    for name, method in METHODS.items():
        if name == "Synchronize":
            continue
        expected = b""
        if name == "Configure":
            expected = api.ConfigureResponse(events=SUBSCRIPTION).SerializeToString()
        late.records = [told]
        assert late.serve(method, b"") == expected
        kept, record = flattened(late.records)
        assert kept is told  # what was there before; what the call itself told is gone
        assert record.level == "error"
        assert record.fields["limit_ms"] == 1200
    assert late.gave_up is None


def test_a_synchronize_that_is_too_late_ends_the_session(handler: FakeHandler) -> None:
    late = methods(handler, overrunning)
    assert late.serve(METHODS["Synchronize"], b"") == b""
    assert late.gave_up == "Synchronize took longer than 1800 ms"


def test_a_bug_in_configure_does_not_subscribe_to_everything(handler: FakeHandler) -> None:
    def broken(_configuration: Configuration) -> None:
        raise ValueError("a bug")

    handler.configure = broken  # type: ignore[method-assign, assignment]
    reply = methods(handler, unlimited).serve(METHODS["Configure"], b"")
    assert api.ConfigureResponse.FromString(reply).events == SUBSCRIPTION


def test_the_smaller_of_the_two_timeouts_counts(handler: FakeHandler) -> None:
    limits = Limits()
    served = methods(handler, limits)
    configure = api.ConfigureRequest(request_timeout=1000).SerializeToString()
    served.serve(METHODS["Configure"], configure)
    served.serve(METHODS["StopContainer"], b"")
    served.serve(METHODS["StopContainer"], b"", 0.5)
    served.serve(METHODS["StopContainer"], b"", 5.0)
    assert limits.limits_s == pytest.approx([1.2, 0.6, 0.3, 0.6])


def test_a_call_of_an_old_runtime_tells_how_long_it_waits(handler: FakeHandler) -> None:
    """Its configuration did not, and its administrator may have given it more or less."""
    limits = Limits()
    served = methods(handler, limits)
    served.serve(METHODS["Configure"], b"")
    for timeout_s in (None, 0.5, 5.0):
        served.serve(METHODS["StopContainer"], b"", timeout_s)
    assert limits.limits_s == pytest.approx([1.2, 1.2, 0.3, 3.0])


def test_the_timeout_of_the_envelope_reaches_the_limiter(handler: FakeHandler) -> None:
    limits = Limits()
    session = PluginSession(
        handler, Decoder(lambda _parent: {}), plugin_name="x", plugin_idx="10", limiter=limits
    )
    _, message = ClientConnection().call(
        PLUGIN_SERVICE, "StopContainer", b"", timeout_ns=300_000_000
    )
    assert session.receive_data(frame_message(PLUGIN_SERVICE_CONN, message))
    assert limits.limits_s == pytest.approx([0.18])


@pytest.mark.parametrize(("name", "keeps"), [("containerd", True), ("v2", True), ("cri-o", False)])
def test_the_runtimes_name_tells_whether_it_keeps_updates(
    handler: FakeHandler, name: str, *, keeps: bool
) -> None:
    runtime = ScriptedRuntime(handler)
    runtime.call("Configure", api.ConfigureRequest(runtime_name=name))
    runtime.call("Synchronize", api.SynchronizeRequest())
    assert handler.events == [events.Synchronize((), (), keeps)]


def test_calls_can_be_measured(handler: FakeHandler) -> None:
    measured: list[str] = []

    def timed(
        method: str, call: Callable[[Request, int | None], bytes]
    ) -> Callable[[Request, int | None], bytes]:
        def timed_call(request: Request, deadline_ns: int | None) -> bytes:
            measured.append(method)
            return call(request, deadline_ns)

        return timed_call

    session = PluginSession(
        handler, Decoder(lambda _parent: {}), plugin_name="x", plugin_idx="10", timed=timed
    )
    client = ClientConnection()
    for method in ("StopContainer", "CreateContainer", "NoSuchMethod"):
        _, message = client.call(PLUGIN_SERVICE, method, b"")
        assert session.receive_data(frame_message(PLUGIN_SERVICE_CONN, message))
    assert measured == ["StopContainer", "CreateContainer"]
