"""One HTTP request that was read whole, and its reply: the metrics at /metrics, nothing else.

http.server does the parsing, the status lines and the complaints, on bytes in memory: which
connection they came from, and how long that took, is the business of ``observe.metrics_server``.
"""

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from nri_numamem.version import VERSION

PATH = "/metrics"


def reply_to(head: bytes, render: Callable[[str], tuple[str, bytes]]) -> bytes:
    """Return the reply to a request's head; raises only what `render` does.

    `render` gets the Accept header and returns content type and body.
    """
    return _Exchange(head, render).reply


class _Exchange(BaseHTTPRequestHandler):
    """http.server's handler without its sockets. The connection ends with the reply (HTTP/1.0)."""

    server_version = f"nri-numamem/{VERSION}"
    sys_version = ""

    def __init__(self, head: bytes, render: Callable[[str], tuple[str, bytes]]) -> None:
        out = BytesIO()
        self.rfile = BytesIO(head)
        self.wfile = out
        self._render = render
        self.handle_one_request()
        self.reply = out.getvalue()

    def do_GET(self) -> None:
        """Send the metrics."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND, f"There is only {PATH}")
            return
        content_type, body = self._render(", ".join(self.headers.get_all("Accept", [])))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - http.server looks for this name

    def log_message(self, *_words: object) -> None:
        """Log nothing: scrapes are many, and say nothing."""
