"""The kubelet as a service: its configuration, unit and log.

This module depends on the kubelet's command line and configuration, and not on NUMA nodes or the
plugin.
"""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.machines.guest import systemd
from tests.machines.guest.processes import output
from tests.machines.guest.waiting import wait_until

PROGRAM = Path("/e2e/artefacts/kubelet")
LOG = Path("/var/log/e2e/kubelet.log")
HOST_NAME = "numa"
"""The kubelet's name of the host; it is at the end of the names of static pods."""
UNIT = "kubelet.service"
MANIFESTS = Path("/etc/kubernetes/manifests")
_CONFIG = Path("/etc/kubernetes/kubelet.json")
_ROOT = Path("/var/lib/kubelet")
_UNIT_FILE = Path("/run/systemd/system", UNIT)
_READ_ONLY_PORT = 10255
_HEALTH = "http://127.0.0.1:10248/healthz"
PODS = f"http://127.0.0.1:{_READ_ONLY_PORT}/pods"
"""The kubelet's pods with their status, as JSON."""

# On emulated processors the threads of Go's runtime wait for each other most of the time.
ONE_THREAD = "Environment=GOMAXPROCS=1 GOGC=200\n"

_SETTINGS: Mapping[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "address": "127.0.0.1",
    "readOnlyPort": _READ_ONLY_PORT,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "failSwapOn": False,
    "fileCheckFrequency": "5s",
    # A quota holds for the start of a container too, which takes seconds here: with a limit of 50m
    # they would become minutes.
    "cpuCFSQuota": False,
    # The image and its disk are small.
    "evictionHard": dict.fromkeys(
        (
            "memory.available",
            "nodefs.available",
            "imagefs.available",
            "nodefs.inodesFree",
            "imagefs.inodesFree",
        ),
        "0%",
    ),
    "imageGCHighThresholdPercent": 99,
    "imageGCLowThresholdPercent": 98,
    "localStorageCapacityIsolation": False,
    "kubeReserved": {"memory": "128Mi", "cpu": "200m"},
    "systemReserved": {"memory": "28Mi", "cpu": "100m"},
    "registerNode": False,
    "resolvConf": "",
    "volumeStatsAggPeriod": "10m",
    # The plugin takes the place of these two.
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
}


class Kubelet:
    """One phase's kubelet; its log grows over restarts."""

    def __init__(self, settings: Mapping[str, Any], *arguments: str) -> None:
        """Write configuration and unit, without starting it; remove what an earlier phase left.

        `settings` are added to those that all phases have, or replace them; `arguments` to its
        command line.
        """
        for folder in (_ROOT, MANIFESTS):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        LOG.unlink(missing_ok=True)
        both = {**_SETTINGS, "staticPodPath": str(MANIFESTS), **settings}
        _CONFIG.write_text(json.dumps(both, indent=1), encoding="ascii")
        _UNIT_FILE.write_text(_unit(*arguments), encoding="ascii")
        systemd.systemctl("daemon-reload")

    def start(self) -> None:
        """Start it, and wait until it is healthy.

        Raises TimeoutError or RuntimeError with the last log lines.
        """
        try:
            systemd.systemctl("start", UNIT)
            wait_until(lambda: get(_HEALTH) == b"ok", "start of the kubelet")
        except (TimeoutError, RuntimeError) as error:
            raise type(error)(f"{error}; its log ends with\n{self.log()[-2000:]}") from error

    def stop(self) -> None:
        """Stop it; containers keep running."""
        systemd.systemctl("stop", UNIT)

    def kill(self) -> None:
        """Send SIGKILL; containers keep running."""
        systemd.systemctl("kill", "--kill-whom=main", "--signal=SIGKILL", UNIT)
        wait_until(lambda: not systemd.is_active(UNIT), "end of the kubelet")

    def log(self) -> str:
        """Return its log, since the phase began."""
        return LOG.read_text(encoding="utf-8", errors="replace") if LOG.exists() else ""


def version() -> str:
    """Return the kubelet's version."""
    return output(str(PROGRAM), "--version").split()[-1]


def get(url: str) -> bytes | None:
    """Return the reply to GET, or None if there is none."""
    try:
        with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - http, here
            content: bytes = reply.read()
            return content
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def _unit(*arguments: str) -> str:
    files = f"--config={_CONFIG} --root-dir={_ROOT}"
    command = " ".join(
        (str(PROGRAM), files, f"--hostname-override={HOST_NAME}", "--v=3", *arguments)
    )
    return (
        f"[Service]\n{ONE_THREAD}ExecStart={command}\nKillMode=process\n"
        f"StandardOutput=append:{LOG}\nStandardError=inherit\n"
    )
