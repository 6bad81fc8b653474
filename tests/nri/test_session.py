"""A session with the runtime's end in memory: registration, messages, limits."""

from collections.abc import Callable, Mapping

import pytest

from nri_numamem.nri import synchronize_parts
from nri_numamem.nri.configuration import (
    SUBSCRIPTION,
)
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.multiplexer import (
    PLUGIN_SERVICE_CONN,
    RUNTIME_SERVICE_CONN,
    MuxError,
    frame_message,
)
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.ttrpc import (
    ClientConnection,
    Code,
    Request,
    StatusError,
)
from tests.laboratory import api_pb2 as api
from tests.nri.facts import Facts
from tests.nri.runtime_side import FakeHandler, Limits, RuntimeSide


def test_start_registers_the_plugin_on_the_runtimes_connection(runtime: RuntimeSide) -> None:
    (request,), _ = runtime.receive(runtime.session.start())
    assert request.stream_id == 1
    assert request.request.service == "nri.pkg.api.v1alpha1.Runtime"
    assert request.request.method == "RegisterPlugin"
    register = api.RegisterPluginRequest.FromString(request.request.payload)
    assert (register.plugin_name, register.plugin_idx) == ("nri-numamem", "10")

    # NRI >= 0.6.1 sends Configure before the reply to the registration.
    reply = api.ConfigureResponse.FromString(runtime.call("Configure", api.ConfigureRequest()))
    assert reply.events == SUBSCRIPTION
    before = runtime.session.registered
    reply_message = frame_message(RUNTIME_SERVICE_CONN, runtime.server.reply(1, b""))
    assert runtime.send(reply_message) == b""
    assert (before, runtime.session.registered) == (False, True)
    assert not runtime.session.finished


def test_a_refused_registration_ends_the_session(runtime: RuntimeSide) -> None:
    runtime.receive(runtime.session.start())
    refusal = runtime.server.reply_error(1, Code.UNKNOWN, "invalid plugin index")
    runtime.send(frame_message(RUNTIME_SERVICE_CONN, refusal))
    assert runtime.session.finished
    assert "invalid plugin index" in (runtime.session.refused or "")


def test_parts_are_decoded_after_the_replies_to_them(handler: FakeHandler) -> None:
    read: list[str] = []

    def pod_hugepages(cgroup_parent: str) -> Mapping[int, int]:
        read.append(cgroup_parent)
        return {}

    runtime = RuntimeSide(handler)
    runtime.session = PluginSession(
        handler, Decoder(Facts(pod_hugepages)), plugin_name="x", plugin_idx="10"
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
    """Return a part of about `size_bytes`."""
    container = api.Container(id="c", env=["x" * size_bytes])
    return api.SynchronizeRequest(containers=[container], more=more)


@pytest.mark.parametrize("more", [True, False], ids=["there is more", "the last"])
def test_too_large_a_total_of_parts_ends_the_session(
    handler: FakeHandler, monkeypatch: pytest.MonkeyPatch, more: bool
) -> None:
    monkeypatch.setattr(synchronize_parts, "MAX_TOTAL_BYTES", 1 << 20)
    runtime = RuntimeSide(handler)
    for _ in range(3):
        payload = runtime.call("Synchronize", part(300_000))
        assert api.SynchronizeResponse.FromString(payload).more
    before = runtime.session.finished
    assert runtime.call("Synchronize", part(300_000, more=more)) == b""
    assert (before, runtime.session.finished) == (False, True)
    assert runtime.session.refused == "the parts of Synchronize exceed 1 MiB"
    (record,) = runtime.session.take_records()
    assert (record.event, record.level) == ("synchronize_too_large", "error")
    # Later parts do not become an event.
    assert runtime.call("Synchronize", part(10, more=False)) == b""
    assert handler.events == []


def test_the_limit_of_parts_applies_to_one_synchronize(
    handler: FakeHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronize_parts, "MAX_TOTAL_BYTES", 1 << 20)
    runtime = RuntimeSide(handler)
    for _ in range(2):
        runtime.call("Synchronize", part(600_000))
        runtime.call("Synchronize", part(300_000, more=False))
    # The limit does not apply to a Synchronize in one message.
    runtime.call("Synchronize", part(2 << 20, more=False))
    assert not runtime.session.finished
    assert len(handler.events) == 3


def test_unknown_names_and_invalid_payloads_do_not_end_the_session(
    runtime: RuntimeSide,
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


def test_a_message_with_an_invalid_stream_id_does_not_end_the_session(
    runtime: RuntimeSide,
) -> None:
    even = b"\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00"
    reply = runtime.send(frame_message(PLUGIN_SERVICE_CONN, even))
    assert reply[8:][:10].endswith(b"\x02\x00")  # a response
    assert runtime.call("Shutdown", b"") == b""


def test_two_requests_in_one_read_get_two_replies(handler: FakeHandler) -> None:
    runtime = RuntimeSide(handler)
    messages = [runtime.client.call(PLUGIN_SERVICE, "Shutdown", b"") for _ in range(2)]
    data = b"".join(frame_message(PLUGIN_SERVICE_CONN, message) for _, message in messages)
    _, replies = runtime.receive(runtime.send(data))
    assert [reply.stream_id for reply in replies] == [stream_id for stream_id, _ in messages]


def test_a_frame_above_the_limit_is_an_error(handler: FakeHandler) -> None:
    runtime = RuntimeSide(handler)
    with pytest.raises(MuxError):
        runtime.send(b"\x00\x00\x00\x01\xff\xff\xff\xff")


def test_the_timeout_of_the_envelope_reaches_the_limiter(handler: FakeHandler) -> None:
    limits = Limits()
    session = PluginSession(handler, Decoder(), plugin_name="x", plugin_idx="10", limiter=limits)
    _, message = ClientConnection().call(
        PLUGIN_SERVICE, "StopContainer", b"", timeout_ns=300_000_000
    )
    assert session.receive_data(frame_message(PLUGIN_SERVICE_CONN, message))
    assert limits.limits_s == pytest.approx([0.18])


def test_timed_wraps_every_call(handler: FakeHandler) -> None:
    measured: list[str] = []

    def timed(
        method: str, call: Callable[[Request, int | None], bytes]
    ) -> Callable[[Request, int | None], bytes]:
        def timed_call(request: Request, deadline_ns: int | None) -> bytes:
            measured.append(method)
            return call(request, deadline_ns)

        return timed_call

    session = PluginSession(handler, Decoder(), plugin_name="x", plugin_idx="10", timed=timed)
    client = ClientConnection()
    for method in ("StopContainer", "CreateContainer", "NoSuchMethod"):
        _, message = client.call(PLUGIN_SERVICE, method, b"")
        assert session.receive_data(frame_message(PLUGIN_SERVICE_CONN, message))
    assert measured == ["StopContainer", "CreateContainer"]
