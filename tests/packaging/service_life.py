"""A life of the plugin as the service of the systemd that runs this program; see boot-systemd.

The runtime is the fake one, on the path of the real one. Ends with an AssertionError, or writes a
JSON document of what was seen. test_service_life judges it.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.docs.documented_commands import ROOT, documented_commands
from tests.kubernetes_api import CERTIFICATES, KubernetesApi
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime
from tests.laboratory.store import RuntimeStore

SOCKET = Path("/run/nri/nri.sock")
CONFIG = Path("/etc/nri-numamem/config.yaml")
OUT = Path("/opt/nri-numamem/out")
PROGRAM = "/opt/nri-numamem/bin/nri-numamem"
UNIT = "nri-numamem.service"
EXPORTER = "nri-numamem-export.service"
NODE = "worker-1"
PORT = 9551
# In a kubeconfig -> the end of the test's file.
CLIENT = {"client-certificate": "crt", "client-key": "key"}
METRICS = f"http://127.0.0.1:{PORT}/metrics"
OTHER_ADDRESS = "10.9.8.7"
"""An address of this machine that is not in 127.0.0.0/8."""
TEXTFILE = Path("/run/nri-numamem/nri_numamem.prom")
SIGNALS = {
    "USR1": "state_dump",
    "USR2": "log_level_changed",
    "reload": "configuration_reloaded",
}
"""A word in the documented command line -> the event that it causes."""
NETNS = Path("/run/netns/test")
GI = 1 << 30
# Generous, for machines under load; nothing is measured.
WAIT_S = 200


def call(*command: str) -> str:
    """Return the output of a command that succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in time"
        time.sleep(0.05)


def show(name: str, unit: str = UNIT) -> str:
    """Return a property of the service, or of another one."""
    return call("systemctl", "show", "--value", f"--property={name}", unit).strip()


def journal() -> list[dict[str, Any]]:
    """Return the service's entries of the journal."""
    lines = call("journalctl", "--output=json", f"--unit={UNIT}").splitlines()
    return [json.loads(line) for line in lines]


def events() -> list[str]:
    """Return the names of the events in the journal."""
    return [entry["NRI_NUMAMEM_EVENT"] for entry in journal() if "NRI_NUMAMEM_EVENT" in entry]


def repeat_until(act: Callable[[], object], event: str) -> None:
    """Act until the journal has an event; a plugin on a machine under load may drop records."""

    def is_logged() -> bool:
        act()
        time.sleep(0.5)
        return event in events()

    wait_for(is_logged, f"event {event}")


def connect(runtime: FakeRuntime) -> None:
    """Let the service connect, and show it what runs."""
    SOCKET.unlink(missing_ok=True)
    runtime.listen(SOCKET)
    runtime.accept(WAIT_S)
    runtime.synchronize()


def new_runtime(store: RuntimeStore) -> FakeRuntime:
    """Return a runtime that is patient on a machine under load."""
    return FakeRuntime(store=store, registration_timeout_s=WAIT_S, request_timeout_s=10.0)


def create(runtime: FakeRuntime, name: str) -> str:
    """Create a container of a Guaranteed pod; return its NUMA nodes."""
    pod = runtime.run_pod_sandbox(objects.pod(name, memory_limit_bytes=GI))
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


def scrape() -> bool:
    """Return whether the metrics are served on loopback."""
    try:
        with urllib.request.urlopen(METRICS, timeout=WAIT_S) as response:
            return b"nri_numamem_" in response.read()
    except OSError:
        return False


def add_other_address() -> None:
    """Give the loopback device another address, for which no route is needed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        address = struct.pack(
            "16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(OTHER_ADDRESS)
        )
        fcntl.ioctl(sock, 0x8916, address)  # SIOCSIFADDR


def is_reached(address: str, port: int, timeout_s: float) -> bool:
    """Return whether a connection is accepted."""
    try:
        with socket.create_connection((address, port), timeout_s):
            return True
    except OSError:
        return False


def addresses_reached() -> dict[str, bool]:
    """Return which addresses of the metrics are reached, and one of an unrestricted listener."""
    with socket.create_server((OTHER_ADDRESS, 0)) as listener:
        return {
            "loopback": is_reached("127.0.0.1", PORT, WAIT_S),
            "other": is_reached(OTHER_ADDRESS, PORT, 2),
            "other, unrestricted": is_reached(OTHER_ADDRESS, listener.getsockname()[1], WAIT_S),
        }


def restrictions(pid: int) -> dict[str, str]:
    """Return what the kernel shows of a process's restrictions."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    names = ("CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return {name: fields[name].strip() for name in names}


def read_only(pid: int) -> dict[str, bool]:
    """Return whether directories are read-only for a process."""
    found = {}
    for name in ("/sys", "/sys/fs/cgroup", "/proc/sys", "/usr", "/var/lib/nri-numamem"):
        root = f"/proc/{pid}/root{name}"
        found[name] = bool(os.statvfs(root).f_flag & os.ST_RDONLY)
    return found


def main() -> dict[str, Any]:
    """Live; return what was seen."""
    SOCKET.parent.mkdir(mode=0o700)
    CONFIG.write_text(f"metricsAddress: 0.0.0.0:{PORT}\nmetricsTextfile: {TEXTFILE}\n")
    add_other_address()
    # Without a runtime the service starts as well.
    call("systemctl", "start", UNIT)
    assert show("StatusText").startswith("waiting for the runtime"), show("StatusText")
    pid = int(show("MainPID"))
    seen = look_at(pid)
    store = RuntimeStore()
    nodes: list[str] = []
    with new_runtime(store) as runtime:
        connect(runtime)
        nodes += [create(runtime, f"pod-{number}") for number in range(4)]
        use(pid)
        seen["reached"] = addresses_reached()
        seen["exporter"] = export()
        # A crash: systemd starts the plugin again, which adopts the containers.
        os.kill(pid, signal.SIGKILL)
        runtime.accept(WAIT_S)
        runtime.synchronize()
        nodes.append(create(runtime, "pod-after-crash"))
    # The runtime restarts.
    with new_runtime(store) as runtime:
        connect(runtime)
        nodes.append(create(runtime, "pod-after-restart"))
        seen["restarts"] = int(show("NRestarts"))
        call("systemctl", "stop", UNIT)
        priorities = {entry.get("NRI_NUMAMEM_EVENT"): int(entry["PRIORITY"]) for entry in journal()}
        warning = 4
        seen |= {
            "nodes": nodes,
            "warnings": sorted(
                name for name, level in priorities.items() if name and level <= warning
            ),
            "result": show("Result"),
            "status": int(show("ExecMainStatus")),
        }
        seen["namespaces"] = read_namespaces(runtime)
    return seen


def export() -> dict[str, Any]:
    """Let the exporter live beside the plugin; return what was seen of it."""
    with KubernetesApi() as api:
        client = {name: str(CERTIFICATES / f"client.{end}") for name, end in CLIENT.items()}
        api.write_kubeconfig(CONFIG.with_name("kubeconfig"), {**client, "token": "secret"})
        CONFIG.with_name("export.env").write_text(f"EXPORT_OPTIONS=--node-name {NODE}\n")
        call("systemctl", "start", EXPORTER)  # returns after the first attempt to write
        wait_for(lambda: show("StatusText", EXPORTER) == f"wrote {NODE}", "a write")
        pid = int(show("MainPID", EXPORTER))
        found = {
            "zones": [zone["name"] for zone in api.objects.get(NODE, {}).get("zones", [])],
            "restrictions": restrictions(pid),
            "read_only": read_only(pid),
            "sees_the_runtime": Path(f"/proc/{pid}/root{SOCKET}").exists(),
        }
        for name in ("HUP", "USR1", "USR2"):
            call("systemctl", "kill", "-s", name, EXPORTER)
        call("systemctl", "stop", EXPORTER)
        return found | {
            "restarts": int(show("NRestarts", EXPORTER)),
            "result": show("Result", EXPORTER),
        }


def read_namespaces(runtime: FakeRuntime) -> dict[str, Any]:
    """Let the service run with networkHints and the documented drop-in file."""
    page = (ROOT / "docs/network-hints.md").read_text()
    drop_in = page.partition("```ini\n")[2].partition("```")[0]
    folder = Path(f"/etc/systemd/system/{UNIT}.d")
    folder.mkdir(parents=True)
    (folder / "network-hints.conf").write_text(drop_in)
    CONFIG.write_text("networkHints: all\n")
    NETNS.parent.mkdir()
    NETNS.touch()
    call("unshare", f"--net={NETNS}", "true")
    call("systemctl", "daemon-reload")
    call("systemctl", "start", "--no-block", UNIT)  # it has started when it is registered
    runtime.accept(WAIT_S)
    runtime.synchronize()
    wait_for(lambda: show("ActiveState") == "active", "the start")
    pid = int(show("MainPID"))
    processes = {name: child for child in children(pid) for name in [name_of(child)]}
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    found = {
        "processes": {name: capabilities_of(child) for name, child in processes.items()},
        "plugin": sorted({capabilities_of(thread) for thread in threads}),
        "missing": cause_of_hints(runtime, "/run/netns/none"),
        "present": cause_of_hints(runtime, str(NETNS)),
    }
    os.kill(processes["numamem-network"], signal.SIGKILL)
    repeat_until(lambda: cause_of_hints(runtime, str(NETNS)), "network_namespaces_closed")
    call("systemctl", "stop", UNIT)
    return found | {"restarts": int(show("NRestarts")), "result": show("Result")}


def children(pid: int) -> list[int]:
    """Return the pids of the children of a process's main thread."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name_of(pid: int) -> str:
    """Return the name of a process."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def capabilities_of(pid: int) -> str:
    """Return the permitted and the effective capabilities of a thread."""
    found = restrictions(pid)
    return f"{found['CapPrm']} {found['CapEff']}"


def cause_of_hints(runtime: FakeRuntime, path: str) -> str:
    """Create containers in a network namespace until it is read; return why it cannot be.

    Empty if it can.
    """
    for number in itertools.count():
        pod = objects.pod(f"net-{time.monotonic_ns()}", memory_limit_bytes=GI // 64)
        for namespace in pod.linux.namespaces:
            if namespace.type == "network":
                namespace.path = path
        pod = runtime.run_pod_sandbox(pod)
        time.sleep(min(number, 10) / 2)
        container = objects.container(pod, "server", memory_limit_bytes=GI // 64)
        runtime.create_container(pod, container)
        wait_for(partial(is_admitted, pod.name), "a record of the container")
        causes = [
            str(record["NRI_NUMAMEM_CAUSE"])
            for record in records_of(pod.name)
            if record["NRI_NUMAMEM_EVENT"] == "network_hints_incomplete"
        ]
        if not causes or "not read yet" not in causes[0]:
            return causes[0] if causes else ""
    raise AssertionError


def records_of(pod: str) -> list[dict[str, Any]]:
    """Return the entries of the journal about a pod."""
    return [entry for entry in journal() if entry.get("NRI_NUMAMEM_POD") == pod]


def is_admitted(pod: str) -> bool:
    """Return whether the journal has the container of a pod."""
    return any(entry["NRI_NUMAMEM_EVENT"] == "admitted" for entry in records_of(pod))


def look_at(pid: int) -> dict[str, Any]:
    """Return what the kernel shows of the plugin's process."""
    return {
        "restrictions": restrictions(pid),
        "read_only": read_only(pid),
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
        "children": [name_of(child) for child in children(pid)],
    }


def use(pid: int) -> None:
    """Use what the plugin offers besides the placement."""
    wait_for(scrape, "a scrape")
    wait_for(TEXTFILE.exists, "the text file")
    for word, event in SIGNALS.items():
        (command,) = documented_commands(rf"^systemctl .*\b{word}\b.* nri-numamem$")
        repeat_until(partial(call, *shlex.split(command)), event)
    wait_for(lambda: plugin_of_status().get("pid") == pid, "a status of the plugin")


def plugin_of_status() -> dict[str, Any]:
    """Return what `nri-numamem status` shows of the plugin; it also finds no cgroups of pods."""
    command = (PROGRAM, "status", "--output", "json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    plugin: dict[str, Any] = json.loads(done.stdout)["plugin"]
    return plugin


if __name__ == "__main__":
    try:
        (OUT / "seen").write_text(json.dumps(main()))
    finally:
        (OUT / "journal").write_text(call("journalctl", "--no-pager"))
