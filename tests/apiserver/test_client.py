"""Requests to a real server in this process, which also fails in every way."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nri_numamem.apiserver.access import Access, AccessError, Server
from nri_numamem.apiserver.client import Answer, Client, Request, RequestError
from nri_numamem.version import VERSION
from tests.kubernetes_api import (
    APPLY,
    CERTIFICATES,
    GROUP,
    Fault,
    Handler,
    KubernetesApi,
    closes,
    drips,
    fails,
    garbage,
    half,
    hangs,
)

NODE = Request("GET", "/api/v1/nodes/worker-1")
AUTHORITY = (CERTIFICATES / "ca.crt").read_text()


@pytest.fixture(name="api")
def _api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


def access(api: KubernetesApi, **changes: object) -> Access:
    here = Access(Server("127.0.0.1", api.port), AUTHORITY, "secret")
    return replace(here, **changes)  # type: ignore[arg-type]


def send(api: KubernetesApi, request: Request = NODE, **changes: object) -> Answer:
    return Client(lambda: access(api, **changes)).send(request)


def test_requests(api: KubernetesApi) -> None:
    answer = send(api)
    assert answer.status == 200
    assert answer.document["metadata"]["uid"] == "uid-1"
    body = b'{"metadata": {"name": "worker-1"}}'
    path = f"{GROUP}/worker-1?fieldManager=x"
    assert send(api, Request("PATCH", path, body, APPLY)).status == 201
    assert send(api, Request("PATCH", path, body, APPLY)).status == 200
    assert send(api, Request("DELETE", f"{GROUP}/worker-1")).status == 200
    assert send(api, Request("DELETE", f"{GROUP}/worker-1")).status == 404
    assert [seen.token for seen in api.seen] == ["secret"] * 5
    assert api.seen[1].body == {"metadata": {"name": "worker-1"}}


def test_headers(api: KubernetesApi) -> None:
    headers: dict[str, str] = {}

    def note(handler: Handler) -> None:
        headers.update(handler.headers)
        handler.reply(200, {})

    api.faults = [note]
    send(api, token="")
    assert headers["User-Agent"] == f"nri-numamem/{VERSION}"
    assert headers["Host"] == f"127.0.0.1:{api.port}"
    assert headers["Accept"] == "application/json"
    assert headers["Connection"] == "close"
    assert "Authorization" not in headers


def test_a_path_before_all_paths(api: KubernetesApi) -> None:
    send(api, server=Server("127.0.0.1", api.port, "/k8s"))
    assert api.seen[0].path == "/k8s/api/v1/nodes/worker-1"


def test_the_credentials_are_read_for_each_request(api: KubernetesApi) -> None:
    tokens = iter(["old", "secret"])
    client = Client(lambda: access(api, token=next(tokens)))
    assert [client.send(NODE).status, client.send(NODE).status] == [401, 200]


def test_a_client_certificate() -> None:
    with KubernetesApi(client_certificate=True) as api:
        files = [(CERTIFICATES / name).read_bytes() for name in ("client.crt", "client.key")]
        assert send(api, certificate=files[0], key=files[1]).status == 200
        with pytest.raises(RequestError):
            send(api)


def test_the_server_is_verified(api: KubernetesApi) -> None:
    other = (CERTIFICATES / "other-ca.crt").read_text()
    for authorities in (other, ""):
        with pytest.raises(
            RequestError, match=r"https://127.0.0.1:\d+: its certificate is not trusted: "
        ):
            send(api, authorities=authorities)
    with pytest.raises(RequestError, match=r"its certificate is not trusted: .*mismatch"):
        send(api, server=Server("127.0.0.1", api.port, tls_name="other.example"))
    assert send(api, server=Server("127.0.0.1", api.port, tls_name="localhost")).status == 200
    assert len(api.seen) == 1


def test_plain_http() -> None:
    with KubernetesApi(tls=False) as api:
        here = Server("127.0.0.1", api.port, is_tls=False)
        assert send(api, server=here).status == 200


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (closes, "closed the connection|EOF"),
        (half, "closed the connection: IncompleteRead"),
        (garbage, "not HTTP: BadStatusLine"),
    ],
)
def test_answers_that_are_none(api: KubernetesApi, fault: Fault, problem: str) -> None:
    api.faults = [fault]
    with pytest.raises(RequestError, match=problem):
        send(api)
    assert send(api).status == 200


@pytest.mark.parametrize("body", ["", "x", "[1]", '"x"', "[" * 100_000])
def test_bodies_that_are_no_object(api: KubernetesApi, body: str) -> None:
    api.faults = [fails(500, body)]
    assert send(api) == Answer(500, {})


@pytest.mark.parametrize(
    "body",
    [
        '{"a": "' + "x" * (4 << 20) + '"}',
        '{"a": [' + "[[[[[[]]]]]]," * 150_000 + "0]}",
        '{"a": [' + "{}," * 100_000 + "0]}",
        '{"a": [' + "1," * 100_000 + "0]}",
    ],
)
def test_a_body_that_takes_much_memory_is_not_parsed(
    api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    monkeypatch.setattr("json.loads", pytest.fail)
    api.faults = [fails(200, body)]
    assert send(api) == Answer(200, {}, is_too_large=True)


def test_a_large_node_is_parsed(api: KubernetesApi) -> None:
    node = {"images": [{"names": ["x" * 200] * 2, "sizeBytes": 1}] * 4_000}
    api.faults = [fails(200, node)]
    assert send(api) == Answer(200, node)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("0", 0.0), ("-1", 0.0), ("999999", 0.0), ("Mon, 1 Jan 2035 00:00:00 GMT", 0.0)],
)
def test_when_the_server_wants_the_next_request(
    api: KubernetesApi, text: str, seconds: float
) -> None:
    api.faults = [fails(429, {"code": 429}, Retry_After=text)]
    assert send(api) == Answer(429, {"code": 429}, seconds)


def test_no_server(api: KubernetesApi) -> None:
    api.stop()
    with pytest.raises(RequestError, match=r"https://127.0.0.1:\d+: Connection refused"):
        send(api)
    with pytest.raises(RequestError, match=r"https://a\.\.b:1: "):
        send(api, server=Server("a..b", 1))


def test_a_server_without_tls() -> None:
    with KubernetesApi(tls=False) as api, pytest.raises(RequestError):
        send(api)


def test_time_limit(api: KubernetesApi) -> None:
    api.faults = [hangs]
    with pytest.raises(RequestError, match="no answer in time"):
        Client(lambda: access(api), timeout_s=0.05).send(NODE)


@pytest.mark.parametrize("fault", [hangs, drips])
def test_another_thread_ends_a_request(api: KubernetesApi, fault: Fault) -> None:
    api.faults = [fault]
    client = Client(lambda: access(api))
    outcomes: list[Answer | RequestError] = []

    def request() -> None:
        try:
            outcomes.append(client.send(NODE))
        except RequestError as error:
            outcomes.append(error)

    thread = threading.Thread(target=request)
    thread.start()
    while thread.is_alive():  # until the request is far enough to be ended
        client.abort()
        thread.join(0.05)
    assert len(outcomes) == 1


def test_nothing_to_end(api: KubernetesApi) -> None:
    client = Client(lambda: access(api))
    client.abort()
    assert client.send(NODE).status == 200
    client.abort()
    assert client.send(NODE).status == 200


def test_the_connection_ends_while_it_is_aborted(
    api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.faults = [hangs]
    client = Client(lambda: access(api), timeout_s=0.3)

    def broken(_sock: socket.socket, _how: int) -> None:
        raise OSError(107, "Transport endpoint is not connected")

    monkeypatch.setattr("ssl.SSLSocket.shutdown", broken)

    def request() -> None:
        with pytest.raises(RequestError, match="no answer in time"):
            client.send(NODE)

    thread = threading.Thread(target=request)
    thread.start()
    while thread.is_alive():
        client.abort()
        thread.join(0.05)


def test_credentials_that_cannot_be_read() -> None:
    def unreadable() -> Access:
        raise AccessError("/x: gone")

    with pytest.raises(AccessError, match="/x: gone"):
        Client(unreadable).send(NODE)
