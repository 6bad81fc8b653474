"""A helper for network namespaces whose replies a test gives, one after the other."""

from collections.abc import Mapping
from queue import SimpleQueue

from nri_numamem.daemon.namespace_reader import HelperProcess, NamespaceError


class FakeHelper(HelperProcess):
    """Replies when a test lets it; the paths of the requests are in `requests`."""

    def __init__(self) -> None:
        self.requests: SimpleQueue[str] = SimpleQueue()
        self.replies: SimpleQueue[Mapping[str, object] | NamespaceError] = SimpleQueue()
        self.is_closed = False

    def wait(self) -> None:
        """Do nothing."""

    def request(self, path: str) -> Mapping[str, object]:
        self.requests.put(path)
        reply = self.replies.get()
        if isinstance(reply, NamespaceError):
            raise reply
        return reply

    def close(self) -> None:
        self.is_closed = True
