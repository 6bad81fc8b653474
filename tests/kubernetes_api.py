"""An API server in this process: keeps objects, and fails as a test demands.

It serves what `nri-numamem agent` uses: GET of a Node, server-side apply and DELETE of a
NodeResourceTopology, server-side apply of an Event, GET of a ResourceClaim, and GET, server-side
apply and DELETE of a ResourceSlice; for `nri-numamem rebalance` GET and eviction of a Pod. The real
one is in tests/cluster; this one can also hang, break off and lie.
"""

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlsplit

CERTIFICATES = Path(__file__).parent / "certificates"
GROUP = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
RESOURCES = "/apis/resource.k8s.io/v1"
APPLY = "application/apply-patch+yaml"

Fault = Callable[["Handler"], None]
"""Replies to one request in place of the server."""


@dataclass(frozen=True)
class Seen:
    """A request that the server received."""

    method: str
    path: str
    token: str
    manager: str
    body: Any


class KubernetesApi:
    """A context in which the server listens on 127.0.0.1. Its fields may change at any time."""

    def __init__(self, *, tls: bool = True, client_certificate: bool = False) -> None:
        self.nodes = {"worker-1": "uid-1"}
        """Name -> uid."""
        self.objects: dict[str, dict[str, Any]] = {}
        """Name -> object."""
        self.events: dict[str, dict[str, Any]] = {}
        """NAMESPACE/NAME -> Event."""
        self.managers: dict[str, str] = {}
        """Name -> field manager that owns the object's lists."""
        self.tokens = {"secret"}
        """Valid tokens; empty to accept everyone."""
        self.has_crd = True
        self.claims: dict[str, dict[str, Any]] = {}
        """NAMESPACE/NAME -> ResourceClaim."""
        self.pods: dict[str, dict[str, Any]] = {}
        """NAMESPACE/NAME -> Pod."""
        self.evict: Callable[[str], tuple[int, object]] = lambda _name: (201, {"status": "Success"})
        """Returns status and body of the answer to an eviction of NAMESPACE/NAME."""
        self.slices: dict[str, dict[str, Any]] = {}
        """Name -> ResourceSlice."""
        self.has_consumable_capacity = True
        """Whether it keeps all fields of slices."""
        self.version = 0
        """The newest resourceVersion of a slice."""
        self.forbidden: set[str] = set()
        """Methods for which the user has no permission."""
        self.faults: list[Fault] = []
        """The first one replies to the next request."""
        self.seen: list[Seen] = []
        self.released = threading.Event()
        """Ends the faults that hang."""
        self._tls, self._client_certificate = tls, client_certificate
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.released.set()
        self.stop()

    def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Server(("127.0.0.1", self.port), Handler)
        self._server.api = self
        self.port = self._server.server_address[1]
        if self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / "server.crt", CERTIFICATES / "server.key")
            if self._client_certificate:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(CERTIFICATES / "ca.crt")
            self._server.context = context
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()

    def stop(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def applied(self) -> list[Any]:
        """Return the bodies of all requests that applied an object."""
        return [seen.body for seen in list(self.seen) if seen.method == "PATCH"]

    def write_service_account(self, directory: Path, token: str = "secret") -> Path:  # noqa: S107
        """Write what the kubelet gives a pod."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ca.crt").write_text((CERTIFICATES / "ca.crt").read_text())
        (directory / "token").write_text(token)
        return directory

    def write_kubeconfig(self, path: Path, user: object = None, **cluster: object) -> Path:
        """Write a kubeconfig with this server."""
        server = {
            "server": self.url,
            "certificate-authority": str(CERTIFICATES / "ca.crt"),
            **cluster,
        }
        document = {
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        }
        path.write_text(json.dumps(document))
        return path


class _Server(ThreadingHTTPServer):
    api: KubernetesApi
    context: ssl.SSLContext | None = None
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients that do not trust the server, or end, are what is tested."""


class Handler(BaseHTTPRequestHandler):
    """Replies to the requests of one connection."""

    def setup(self) -> None:
        context = cast("_Server", self.server).context
        if context is not None:  # in the connection's own thread, because a client can stall it
            self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    @property
    def api(self) -> KubernetesApi:
        return cast("_Server", self.server).api

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
        """Print nothing."""

    def do_GET(self) -> None:
        self._take()

    def do_PATCH(self) -> None:
        self._take()

    def do_POST(self) -> None:
        self._take()

    def do_DELETE(self) -> None:
        self._take()

    def reply(self, status: int, document: object, headers: dict[str, str] | None = None) -> None:
        """Send a reply with JSON, or a text as it is."""
        body = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _take(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = parse_qs(url.query)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        manager = query.get("fieldManager", [""])[0]
        seen = Seen(self.command, self.path, token, manager, json.loads(body) if body else None)
        self.api.seen.append(seen)
        if self.api.faults:
            self.api.faults.pop(0)(self)
            return
        refusal = self._refusal(token)
        if refusal is not None:
            self.reply(*refusal)
        elif url.path.startswith("/api/v1/nodes/"):
            self._get_node(url.path.rpartition("/")[2])
        elif url.path.startswith("/api/v1/namespaces/") and "/pods/" in url.path:
            self._take_pod(url.path.removeprefix("/api/v1/namespaces/"), seen)
        elif url.path.startswith("/api/v1/namespaces/"):
            assert self.headers["Content-Type"] == APPLY
            self._apply_event(url.path.removeprefix("/api/v1/namespaces/"), seen)
        elif url.path.startswith(f"{RESOURCES}/namespaces/"):
            self._get_claim(url.path.removeprefix(f"{RESOURCES}/namespaces/"))
        elif url.path.startswith(f"{RESOURCES}/resourceslices/"):
            self._take_slice(url.path.rpartition("/")[2], seen, is_trial="dryRun" in query)
        elif not self.api.has_crd or not url.path.startswith(GROUP):
            self.reply(404, "404 page not found\n")
        elif self.command == "PATCH":
            assert self.headers["Content-Type"] == APPLY
            self._apply(url.path.rpartition("/")[2], seen)
        else:
            self._delete(url.path, query)

    def _take_pod(self, path: str, seen: Seen) -> None:
        name = path.removesuffix("/eviction").replace("/pods/", "/")
        if name not in self.api.pods:
            self.reply(404, status(404, "NotFound", f'pods "{name}" not found'))
        elif self.command == "GET":
            self.reply(200, self.api.pods[name])
        else:
            uid = seen.body["deleteOptions"]["preconditions"]["uid"]
            is_this = self.api.pods[name]["metadata"]["uid"] == uid
            conflict = 409, status(409, "Conflict", "the UID in the precondition does not match")
            self.reply(*(self.api.evict(name) if is_this else conflict))

    def _refusal(self, token: str) -> tuple[int, object] | None:
        if self.api.tokens and token not in self.api.tokens:
            return 401, status(401, "Unauthorized", "Unauthorized")
        if self.command in self.api.forbidden:
            text = f'User "x" cannot {self.command.lower()} resource in API group ""'
            return 403, status(403, "Forbidden", text)
        return None

    def _get_node(self, name: str) -> None:
        uid = self.api.nodes.get(name)
        if uid is None:
            self.reply(404, status(404, "NotFound", f'nodes "{name}" not found'))
            return
        self.reply(200, {"kind": "Node", "metadata": {"name": name, "uid": uid}})

    def _apply(self, name: str, seen: Seen) -> None:
        owner = self.api.managers.setdefault(name, seen.manager)
        if owner != seen.manager:
            text = (
                f'Apply failed with 2 conflicts: conflicts with "{owner}" using '
                f"topology.node.k8s.io/v1alpha2:\n- .attributes\n- .zones"
            )
            self.reply(409, status(409, "Conflict", text))
            return
        created = name not in self.api.objects
        self.api.objects[name] = seen.body
        self.reply(201 if created else 200, seen.body)

    def _get_claim(self, path: str) -> None:
        namespace, _, name = path.split("/")
        found = self.api.claims.get(f"{namespace}/{name}")
        if found is None:
            self.reply(404, status(404, "NotFound", f'resourceclaims "{name}" not found'))
        else:
            self.reply(200, found)

    def _take_slice(self, name: str, seen: Seen, *, is_trial: bool) -> None:
        found = self.api.slices.get(name)
        if seen.method == "PATCH":
            assert self.headers["Content-Type"] == APPLY
            self._apply_slice(name, seen.body, is_trial=is_trial)
        elif found is None:
            missing = status(404, "NotFound", f'resourceslices "{name}" not found')
            self.reply(404, {**missing, "details": {"name": name, "kind": "resourceslices"}})
        elif seen.method == "DELETE":
            self.reply(200, self.api.slices.pop(name))
        else:
            self.reply(200, found)

    def _apply_slice(self, name: str, body: dict[str, Any], *, is_trial: bool) -> None:
        for device in () if self.api.has_consumable_capacity else body["spec"]["devices"]:
            del device["allowMultipleAllocations"]
        created = name not in self.api.slices
        if not is_trial:
            self.api.version += 1
            body["metadata"]["resourceVersion"] = str(self.api.version)
            self.api.slices[name] = body
        self.reply(201 if created else 200, body)

    def _apply_event(self, path: str, seen: Seen) -> None:
        namespace, kind, name = path.split("/")
        assert kind == "events"
        event = seen.body
        assert event["metadata"] == {"name": name, "namespace": namespace}
        assert event["involvedObject"]["namespace"] == namespace
        key = f"{namespace}/{name}"
        created = key not in self.api.events
        self.api.events[key] = event
        self.reply(201 if created else 200, event)

    def _delete(self, path: str, query: dict[str, list[str]]) -> None:
        name = path.removeprefix(GROUP).strip("/")
        if name:
            found = [name] if name in self.api.objects else []
        else:
            label, _, value = query["labelSelector"][0].partition("=")
            found = [
                each
                for each, document in self.api.objects.items()
                if document["metadata"].get("labels", {}).get(label) == value
            ]
        for each in found:
            del self.api.objects[each]
        if name and not found:
            self.reply(404, status(404, "NotFound", f'"{name}" not found'))
        else:
            self.reply(200, {"kind": "Status", "status": "Success"})


def status(code: int, reason: str, message: str) -> dict[str, object]:
    """Return a Status, as the API server's errors are."""
    return {
        "kind": "Status",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def fails(code: int, document: object = "", **headers: str) -> Fault:
    """Reply with an error."""
    named = {re.sub("_", "-", name): value for name, value in headers.items()}
    return lambda handler: handler.reply(code, document, named)


def closes(handler: Handler) -> None:
    """Close the connection without a reply."""
    handler.request.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def half(handler: Handler) -> None:
    """Break off in the body."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"kind": "Node')
    handler.close_connection = True


def garbage(handler: Handler) -> None:
    """Reply with what is not HTTP."""
    handler.wfile.write(b"\x00\x01 I am no web server\r\n\r\n")
    handler.close_connection = True


def hangs(handler: Handler) -> None:
    """Reply nothing until the test ends."""
    handler.api.released.wait()
    handler.close_connection = True


def drips(handler: Handler) -> None:
    """Send a header without an end, byte by byte."""
    handler.send_response(200)
    handler.flush_headers()
    while not handler.api.released.wait(0.05):
        handler.wfile.write(b"x")
    handler.close_connection = True
