"""A watch of pods at an API server, so that a wait ends with the change and costs no requests."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from socket import SHUT_RDWR
from typing import Self

from tests.cluster.kubernetes.api import WAIT_S, Api, Document

_PAUSE_S = 0.5


class WatchedPods:
    """A context in which the newest version of each pod of a namespace is known."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods?watch=1"
        self._headers = {"Authorization": f"Bearer {api.token}"}
        context = ssl.create_default_context(cafile=str(api.authority))
        self._connection = http.client.HTTPSConnection("127.0.0.1", api.port, context=context)
        self._pods: dict[str, Document] = {}
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        if self._connection.sock is not None:
            self._connection.sock.shutdown(SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def wait(self, name: str, condition: Callable[[Document], object]) -> Document:
        """Return a pod when a condition holds for it; one that does not exist is empty."""
        deadline = time.monotonic() + WAIT_S
        with self._changed:
            while not condition(pod := self._pods.get(name, {})):
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"{name} is {pod.get('status')}"
                self._changed.wait(left_s)
            return pod

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._connection.request("GET", self._path, headers=self._headers)
            answer = self._connection.getresponse()
            while line := answer.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":  # of a server that has just started
                    break
                with self._changed:
                    self._pods[event["object"]["metadata"]["name"]] = event["object"]
                    self._changed.notify_all()
            self._connection.close()
            self._is_over.wait(_PAUSE_S)
