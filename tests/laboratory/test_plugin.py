import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import pytest

from nri_numamem.ttrpc import CallFailed, Code, StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.connection import PluginConnection, go_framer
from tests.laboratory.plugin import ConnectedPlugin, PluginUnavailable, Timeouts
from tests.laboratory.table_plugin import ReplyFunction, TablePlugin
from tests.laboratory.version import RuntimeVersion

V12 = RuntimeVersion("containerd", "v2.3.4", (0, 12, 0))
V08 = RuntimeVersion("containerd", "v2.1.9", (0, 8, 0))
V06 = RuntimeVersion("containerd", "v1.7.24", (0, 6, 1))

Connect = Callable[..., tuple[ConnectedPlugin, TablePlugin]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def connected(
            version: RuntimeVersion,
            replies: Mapping[str, ReplyFunction] | None = None,
            *,
            request_s: float = 5.0,
            registration_s: float = 5.0,
            name: str = "table",
            idx: str | None = "10",
            events: int = 0x7FF,
        ) -> tuple[ConnectedPlugin, TablePlugin]:
            ours, theirs = socket.socketpair()
            connection = PluginConnection(ours, go_framer(version.max_frame_payload_bytes))
            stack.callback(connection.close)
            table_plugin = TablePlugin(theirs, replies, name=name, idx=idx, events=events)
            stack.enter_context(table_plugin)
            return ConnectedPlugin(
                connection, version, Timeouts(registration_s, request_s)
            ), table_plugin

        yield connected


def _raise(code: Code, text: str = "no") -> ReplyFunction:
    def reply(_payload: bytes) -> bytes:
        raise StatusError(code, text)

    return reply


def _no_reply(_payload: bytes) -> None:
    return None


@pytest.mark.parametrize("configure_first", [True, False])
def test_configure_of_0_12(connect: Connect, *, configure_first: bool) -> None:
    plugin, table_plugin = connect(V12)
    plugin.register("some: text", configure_first=configure_first)
    assert (plugin.idx, plugin.name, plugin.events) == ("10", "table", 0x7FF)
    request = api.ConfigureRequest.FromString(table_plugin.requests[0][1])
    assert request == api.ConfigureRequest(
        config="some: text",
        runtime_name="containerd",
        runtime_version="v2.3.4",
        registration_timeout=5000,
        request_timeout=5000,
        NRI_version="v0.12.0",
    )
    assert not plugin.launched


def test_old_runtimes_send_fewer_fields_in_configure(connect: Connect) -> None:
    plugin, table_plugin = connect(V08)
    plugin.register("", configure_first=False)
    request = api.ConfigureRequest.FromString(table_plugin.requests[0][1])
    assert (request.NRI_version, request.request_timeout) == ("", 5000)
    plugin, table_plugin = connect(V06)
    plugin.register("", configure_first=False)
    request = api.ConfigureRequest.FromString(table_plugin.requests[0][1])
    assert (request.NRI_version, request.request_timeout) == ("", 0)


@pytest.mark.parametrize(
    ("version", "events", "accepted"),
    [
        (V06, 0x7FF, 0x7FF),
        (V06, 0, 0x7FF),
        (V12, 0, 0x3FFF),
        (V12, 0x3FFF, 0x3FFF),
    ],
)
def test_events_that_are_accepted(
    connect: Connect, version: RuntimeVersion, events: int, accepted: int
) -> None:
    plugin, _ = connect(version, events=events)
    plugin.register("", configure_first=False)
    assert plugin.events == accepted


def test_unknown_events_are_refused(connect: Connect) -> None:
    plugin, _ = connect(V08, events=0x3FFF)
    with pytest.raises(PluginUnavailable, match=r"^invalid plugin events: 0x3800$"):
        plugin.register("", configure_first=False)
    assert plugin.connection.closed


@pytest.mark.parametrize(
    ("version", "name", "idx", "text"),
    [
        (V12, "my plugin", "10", "invalid plugin name"),
        (V08, "", "10", "invalid plugin name"),
        (V08, "fine", "1", "invalid plugin index"),
        (V08, "fine", "1x", "invalid plugin index"),
    ],
)
def test_a_refused_registration_leaves_the_connection_open(
    connect: Connect, version: RuntimeVersion, name: str, idx: str, text: str
) -> None:
    plugin, table_plugin = connect(version, name=name, idx=idx)
    with pytest.raises(PluginUnavailable, match=text):
        plugin.register("", configure_first=False)
    assert not plugin.connection.closed
    plugin.call("Shutdown", api.Empty(), api.Empty)
    (outcome,) = table_plugin.outcomes
    assert isinstance(outcome, CallFailed)
    assert text in str(outcome.error)


def test_old_runtimes_accept_any_name(connect: Connect) -> None:
    plugin, _ = connect(V08, name="my plugin")
    plugin.register("", configure_first=False)
    assert plugin.name == "my plugin"


def test_a_plugin_without_registration_is_closed(connect: Connect) -> None:
    plugin, _ = connect(V12, idx=None, registration_s=0.02)
    with pytest.raises(PluginUnavailable, match="did not register in time"):
        plugin.register("", configure_first=False)
    assert plugin.connection.closed


def test_configure_errors_and_timeouts_close_the_plugin(connect: Connect) -> None:
    plugin, _ = connect(V12, {"Configure": _raise(Code.UNKNOWN, "bad config")})
    with pytest.raises(PluginUnavailable, match="bad config"):
        plugin.register("", configure_first=False)
    assert plugin.connection.closed
    plugin, _ = connect(V12, {"Configure": _no_reply}, request_s=0.02)
    with pytest.raises(PluginUnavailable, match="no reply to Configure"):
        plugin.register("", configure_first=False)
    assert plugin.connection.closed


def _objects(pods: int, containers: int) -> tuple[list[api.PodSandbox], list[api.Container]]:
    sandboxes = [objects.pod(f"p{n}") for n in range(pods)]
    return sandboxes, [objects.container(sandboxes[0], f"c{n}") for n in range(containers)]


def _echo_more(payload: bytes) -> bytes:
    more = api.SynchronizeRequest.FromString(payload).more
    response = api.SynchronizeResponse(more=more)
    if not more:
        response.update.add(container_id="some")
    return response.SerializeToString()


def _parts(table_plugin: TablePlugin) -> list[api.SynchronizeRequest]:
    return [
        api.SynchronizeRequest.FromString(payload)
        for method, payload in table_plugin.requests
        if method == "Synchronize"
    ]


def test_synchronize_in_one_message(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"Synchronize": _echo_more})
    pods, containers = _objects(3, 5)
    (update,) = plugin.synchronize(pods, containers)
    assert update.container_id == "some"
    (whole,) = _parts(table_plugin)
    assert list(whole.pods) == pods
    assert list(whole.containers) == containers
    assert not whole.more


def test_synchronize_in_parts(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"Synchronize": _echo_more})
    pods, containers = _objects(9, 40)
    (update,) = plugin.synchronize(pods, containers, 60_000)
    assert update.container_id == "some"
    parts = _parts(table_plugin)
    assert len(parts) > 2
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert [pod for part in parts for pod in part.pods] == pods
    assert [container for part in parts for container in part.containers] == containers
    assert all(part.ByteSize() <= 60_000 for part in parts)


def test_pods_and_containers_are_split_independently(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"Synchronize": _echo_more})
    pods, containers = _objects(1, 60)
    plugin.synchronize(pods, containers, 30_000)
    assert [len(part.pods) for part in _parts(table_plugin)][:2] == [1, 0]


def test_eight_objects_are_sent_together_at_any_size(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"Synchronize": _echo_more})
    plugin.synchronize(*_objects(9, 40), 1000)
    assert {len(part.pods) + len(part.containers) for part in _parts(table_plugin)[:2]} == {8}


def test_old_runtimes_never_split(connect: Connect) -> None:
    plugin, table_plugin = connect(V06)
    pods, containers = _objects(9, 40)
    plugin.synchronize(pods, containers, 1000)
    assert len(_parts(table_plugin)) == 1


def test_a_plugin_without_support_for_parts_is_closed(connect: Connect) -> None:
    plugin, _ = connect(V12)
    with pytest.raises(PluginUnavailable, match="does not handle split sync"):
        plugin.synchronize(*_objects(9, 40), 1000)
    assert plugin.connection.closed

    def with_updates(_payload: bytes) -> bytes:
        response = api.SynchronizeResponse(more=True)
        response.update.add(container_id="some")
        return response.SerializeToString()

    plugin, _ = connect(V12, {"Synchronize": with_updates})
    with pytest.raises(PluginUnavailable, match="does not handle split sync"):
        plugin.synchronize(*_objects(9, 40), 1000)


def test_a_failed_synchronize_closes_the_plugin_or_leaves_it_unused(connect: Connect) -> None:
    replies = {"Synchronize": _raise(Code.UNKNOWN)}
    plugin, _ = connect(V12, replies)
    plugin.register("", configure_first=False)
    with pytest.raises(PluginUnavailable, match="did not synchronize: no"):
        plugin.synchronize([], [])
    assert plugin.connection.closed
    plugin, table_plugin = connect(V06, replies)
    plugin.register("", configure_first=False)
    with pytest.raises(PluginUnavailable, match="did not synchronize: no"):
        plugin.synchronize([], [])
    assert not plugin.connection.closed
    plugin.notify(api.RUN_POD_SANDBOX, objects.pod("db"))
    assert table_plugin.methods()[-1] == "Synchronize"


def test_a_late_reply_to_synchronize_closes_the_plugin(connect: Connect) -> None:
    plugin, _ = connect(V12, {"Synchronize": _no_reply}, request_s=0.02)
    with pytest.raises(PluginUnavailable, match="no reply to Synchronize"):
        plugin.synchronize([], [])
    assert plugin.connection.closed


def test_dedicated_calls_of_0_12(connect: Connect) -> None:
    plugin, table_plugin = connect(V12)
    plugin.register("", configure_first=False)
    pod = objects.pod("db")
    container = objects.container(pod, "server")
    plugin.notify(api.RUN_POD_SANDBOX, pod)
    plugin.notify(api.REMOVE_CONTAINER, pod, container)
    assert table_plugin.methods()[1:] == ["RunPodSandbox", "RemoveContainer"]
    run = api.RunPodSandboxRequest.FromString(table_plugin.requests[1][1])
    remove = api.RemoveContainerRequest.FromString(table_plugin.requests[2][1])
    assert run.pod == pod
    assert (remove.pod, remove.container) == (pod, container)


def test_state_change_until_0_11(connect: Connect) -> None:
    plugin, table_plugin = connect(V08)
    plugin.register("", configure_first=False)
    pod = objects.pod("db")
    plugin.notify(api.RUN_POD_SANDBOX, pod)
    (method, payload) = table_plugin.requests[-1]
    change = api.StateChangeEvent.FromString(payload)
    assert (method, change.event, change.pod) == ("StateChange", api.RUN_POD_SANDBOX, pod)
    assert not change.HasField("container")


def test_one_unimplemented_reply_switches_to_state_change_permanently(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"RunPodSandbox": _raise(Code.UNIMPLEMENTED)})
    plugin.register("", configure_first=False)
    pod = objects.pod("db")
    plugin.notify(api.RUN_POD_SANDBOX, pod)
    plugin.notify(api.STOP_POD_SANDBOX, pod)
    assert table_plugin.methods()[1:] == ["RunPodSandbox", "StateChange", "StateChange"]
    assert plugin.uses_state_change
    assert plugin.calls == ["Configure", *table_plugin.methods()[1:]]


def test_other_errors_of_a_notification_are_raised(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, {"RunPodSandbox": _raise(Code.UNKNOWN, "veto")})
    plugin.register("", configure_first=False)
    with pytest.raises(StatusError, match="veto"):
        plugin.notify(api.RUN_POD_SANDBOX, objects.pod("db"))
    assert table_plugin.methods()[1:] == ["RunPodSandbox"]
    assert not plugin.connection.closed


def test_only_subscribed_events_are_sent(connect: Connect) -> None:
    plugin, table_plugin = connect(V12, events=0x1)
    plugin.register("", configure_first=False)
    assert plugin.subscribed(api.RUN_POD_SANDBOX)
    assert not plugin.subscribed(api.STOP_POD_SANDBOX)
    plugin.notify(api.STOP_POD_SANDBOX, objects.pod("db"))
    assert table_plugin.methods() == ["Configure"]


def test_a_late_reply_closes_the_plugin_and_is_ignored(connect: Connect) -> None:
    plugin, _ = connect(V12, {"StopContainer": _no_reply}, request_s=0.02)
    plugin.events = 0x7FF
    assert plugin.call("StopContainer", api.Empty(), api.StopContainerResponse) is None
    assert plugin.connection.closed
    assert plugin.why_closed == "no reply to StopContainer within 0.02 s"
    assert not plugin.subscribed(api.STOP_CONTAINER)


def test_an_invalid_payload_is_an_error_and_does_not_close_the_plugin(connect: Connect) -> None:
    plugin, _ = connect(V12, {"CreateContainer": lambda _payload: b"\xff\xff"})
    with pytest.raises(StatusError, match="cannot be decoded"):
        plugin.call("CreateContainer", api.Empty(), api.CreateContainerResponse)
    assert not plugin.connection.closed
