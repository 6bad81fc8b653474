"""The agent as a service: the unit of the package with the drop-in file of docs/systemd-unit.md.

Its account and permissions are those of the Helm chart. Its token names the Node, as that of a pod
does. This module depends on the unit and its files, and not on claims.
"""

import contextlib
import json
import shutil
import signal
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from tests.cluster.guest.api_pods import KUBECONFIG, ApiPods
from tests.cluster.guest.kubelet import HOST_NAME
from tests.machines.guest import systemd
from tests.machines.guest.waiting import wait_until

UNIT = "nri-numamem-export.service"
LOG = Path("/var/log/e2e/agent.log")
SLICE = f"/apis/resource.k8s.io/v1/resourceslices/{HOST_NAME}-numamem.io"
_ACCOUNT = "/api/v1/namespaces/kube-system/serviceaccounts/nri-numamem-export"
_NODE = f"/api/v1/nodes/{HOST_NAME}"
_SETTINGS = Path("/etc/nri-numamem")
_DROP_IN = Path("/etc/systemd/system", f"{UNIT}.d", "claims.conf")
_DOCUMENTED = Path("/e2e/artefacts/claims.conf")
_TOKEN_S = 24 * 3600
# As for the plugin: a system call outside of the filter ends it, instead of failing. A check pauses
# it for longer than the watchdog permits.
_CHECKED = f"[Service]\nSystemCallErrorNumber=kill\nWatchdogSec=0\nStandardError=append:{LOG}\n"


class Agent:
    """The one process of the host with credentials; systemd starts it again 10 s after its end."""

    def __init__(self, pods: ApiPods) -> None:
        self._pods = pods

    def start(self) -> None:
        """Give it credentials and options, start it, and wait for its slice."""
        wait_until(lambda: self._get(_NODE), "the Node")
        LOG.unlink(missing_ok=True)
        _SETTINGS.mkdir(exist_ok=True)
        (_SETTINGS / "kubeconfig").write_text(json.dumps(self._kubeconfig()), encoding="ascii")
        options = f"EXPORT_OPTIONS=--node-name {HOST_NAME} --claims\n"
        (_SETTINGS / "export.env").write_text(options, encoding="ascii")
        _DROP_IN.parent.mkdir(exist_ok=True)
        shutil.copyfile(_DOCUMENTED, _DROP_IN)
        systemd.write_drop_in(UNIT, _CHECKED)
        systemd.systemctl("daemon-reload")
        self.restart()

    def restart(self) -> None:
        """Start the unit, and wait for the slice."""
        systemd.systemctl("start", UNIT)
        wait_until(self.slice, "the slice")

    def stop(self) -> None:
        """Stop the unit."""
        systemd.systemctl("stop", UNIT)

    def kill(self) -> None:
        """Send SIGKILL; systemd starts it again."""
        self._send(signal.SIGKILL)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let it do nothing; its slice stays, because the kubelet keeps the connection."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def slice(self) -> dict[str, Any]:
        """Return the host's slice at the API server; empty without one."""
        return self._get(SLICE)

    def devices(self) -> dict[str, dict[str, Any]]:
        """Return name -> device of the slice."""
        devices = self.slice().get("spec", {}).get("devices", ())
        return {device["name"]: device for device in devices}

    def _send(self, number: signal.Signals) -> None:
        systemd.systemctl("kill", "--kill-whom=main", f"--signal={number.name}", UNIT)

    def _get(self, path: str) -> dict[str, Any]:
        try:
            return self._pods.request("GET", path)
        except HTTPError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
        return {}

    def _kubeconfig(self) -> dict[str, Any]:
        """Return the administrator's file with a token of the agent's account for this Node."""
        uid = self._get(_NODE)["metadata"]["uid"]
        bound = {"apiVersion": "v1", "kind": "Node", "name": HOST_NAME, "uid": uid}
        request = {"spec": {"expirationSeconds": _TOKEN_S, "boundObjectRef": bound}}
        token = self._pods.request("POST", f"{_ACCOUNT}/token", request)["status"]["token"]
        found: dict[str, Any] = json.loads(KUBECONFIG.read_text(encoding="ascii"))
        return {**found, "users": [{"name": "user", "user": {"token": token}}]}
