"""Pods of an API server, which runs on the machine's host: bound to this kubelet, or scheduled.

This module depends on Kubernetes' API and on the kubeconfig that the host wrote to the drive.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.cluster.guest.kubelet import HOST_NAME
from tests.cluster.guest.manifests import NAMESPACE, Manifest
from tests.machines.guest.waiting import wait_until

KUBECONFIG = Path("/e2e/artefacts/kubeconfig")
_NAMESPACE = f"/api/v1/namespaces/{NAMESPACE}"
_PODS = f"{_NAMESPACE}/pods"
_RESOURCES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}"
CLAIMS, TEMPLATES = f"{_RESOURCES}/resourceclaims", f"{_RESOURCES}/resourceclaimtemplates"
EVENTS = f"{_NAMESPACE}/events"
_JSON, _PATCH = "application/json", "application/strategic-merge-patch+json"
_TIMEOUT_S = 30


class ApiPods:
    """The pods of a kubelet with an API server."""

    def __init__(self) -> None:
        """Read the kubeconfig; create the namespace's service account, which pods need.

        Deletes the pods that an earlier attempt left.
        """
        config = json.loads(KUBECONFIG.read_text(encoding="ascii"))
        cluster = config["clusters"][0]["cluster"]
        self._server = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode("ascii")
        self._context = ssl.create_default_context(cadata=authority)
        # The certificate does not have the address at which the guest reaches the server.
        self._context.check_hostname = False
        self._token = config["users"][0]["user"]["token"]
        account = {"metadata": {"name": "default"}}
        try:
            self.request("POST", f"{_NAMESPACE}/serviceaccounts", account)
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.CONFLICT:  # it exists
                raise
        self.request("DELETE", f"{_PODS}?gracePeriodSeconds=0")

    def put(self, manifest: Manifest) -> None:
        """Create a pod that is bound to this host."""
        spec = {**manifest["spec"], "nodeName": HOST_NAME}
        self.request("POST", _PODS, {**manifest, "spec": spec})

    def resize(self, name: str, container: str, resources: Manifest) -> None:
        """Change the resources of a running container."""
        change = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        self.request("PATCH", f"{_PODS}/{name}/resize", change, _PATCH)

    def withdraw(self, name: str) -> None:
        """Delete a pod; the kubelet ends it."""
        self.request("DELETE", f"{_PODS}/{name}")

    def withdraw_all(self) -> None:
        """Delete all pods, and wait until none is left."""
        self.request("DELETE", _PODS)
        wait_until(lambda: self.found() == {}, "end of all pods")

    def found(self) -> dict[str, Manifest] | None:
        """Return name -> pod with its status, or None if the API server does not answer."""
        try:
            pods = self.request("GET", _PODS)["items"]
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None
        return {pod["metadata"]["name"]: pod for pod in pods}

    def request(
        self, method: str, path: str, document: Manifest | None = None, kind: str = _JSON
    ) -> dict[str, Any]:
        """Return the reply to a request; raises HTTPError if it is refused."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        body = None if document is None else json.dumps(document).encode()
        url = f"{self._server}{path}"
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - https
        with urllib.request.urlopen(  # noqa: S310 - https
            request, timeout=_TIMEOUT_S, context=self._context
        ) as reply:
            found: dict[str, Any] = json.load(reply)
            return found


class ScheduledPods(ApiPods):
    """The pods of a kubelet with an API server, which a scheduler binds; they may have claims."""

    def put(self, manifest: Manifest) -> None:
        """Create a pod."""
        self.request("POST", _PODS, manifest)

    def withdraw_all(self) -> None:
        """Delete all pods, claims and templates, and wait until none is left."""
        super().withdraw_all()
        for path in (TEMPLATES, CLAIMS):
            self.request("DELETE", path)
        wait_until(lambda: not self.request("GET", CLAIMS)["items"], "end of all claims")
