"""Resource claims as the agent exchanges them with the plugin, and containers that use them.

The agent writes an intent for a claim, sends a datagram, and waits for the answer. A kubelet then
passes the names of CDI devices to the runtime. This module depends on these files, on CDI and on
the plugin's status, and not on a scenario.
"""

import json
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.features.guest import memory
from tests.machines.guest.checks import expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.plugin import STATE
from tests.machines.guest.waiting import wait_until

NAMESPACE = "e2e"
HOOK_PROGRAM = Path("/usr/libexec/nri-numamem/claim-hook")
INTENTS = STATE / "claims" / "intents" / "claims.json"
"""The agent's file."""
ANSWERS = STATE / "claims" / "answers" / "claims.json"
"""The plugin's file."""
_CDI = Path("/var/run/cdi")
_KIND = "numamem.io/claim"
_WRITTEN_MIB = 64


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim; `requests` has the amounts by name of the request: {"mem": "memory@1=4096"}."""

    name: str
    requests: Mapping[str, str]

    @property
    def uid(self) -> str:
        """The same for the same name."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.{NAMESPACE}"))

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the CDI devices of all requests."""
        return tuple(f"{_KIND}={self.uid}-{request}" for request in self.requests)

    @property
    def specification_file(self) -> Path:
        """The plugin's file for the runtime."""
        return _CDI / f"{_KIND.replace('/', '-')}_{self.uid}.json"


def prepare(claim: Claim) -> str:
    """Prepare a claim, and wait for the answer; return the refusal, "" without one."""
    attempt = str(uuid.uuid4())
    intent = {
        "namespace": NAMESPACE,
        "name": claim.name,
        "attempt": attempt,
        "pods": [],
        "requests": dict(claim.requests),
    }
    _write({**_claims(INTENTS), claim.uid: intent})

    def answer() -> dict[str, str] | None:
        found = answer_of(claim)
        return found if found and found["attempt"] == attempt else None

    return wait_until(answer, f"the answer for claim {claim.name}")["refusal"]


def unprepare(claim: Claim) -> None:
    """Unprepare a claim, and wait until the plugin has removed what it wrote."""
    _write({uid: intent for uid, intent in _claims(INTENTS).items() if uid != claim.uid})
    wait_until(
        lambda: not (answer_of(claim) or claim.specification_file.exists()),
        f"removal of what the plugin wrote for {claim.name}",
    )


def answer_of(claim: Claim) -> dict[str, str]:
    """Return the plugin's answer; empty without one."""
    found: dict[str, str] = _claims(ANSWERS).get(claim.uid, {})
    return found


def _claims(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = read(file).get("claims", {})
    return found


def _write(claims: Mapping[str, object]) -> None:
    """Replace the agent's file, and wake the plugin."""
    INTENTS.parent.mkdir(exist_ok=True)
    new = INTENTS.with_suffix(".new")
    new.write_text(json.dumps({"version": 1, "claims": claims}), encoding="ascii")
    new.rename(INTENTS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"\n", str(ANSWERS.with_name("wake.sock")))


def read(file: Path) -> dict[str, Any]:
    """Return a document; empty without a file."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        return {}
    return found


def status(host: Host) -> dict[str, dict[str, Any]]:
    """Return name -> claim, as `nri-numamem status` shows it."""
    done = host.plugin.command("status", "--output", "json")
    return {each["name"]: each for each in json.loads(done.stdout)["claims"]}


def wait_for_containers(host: Host, claim: Claim, *names: str) -> dict[str, Any]:
    """Wait until containers "POD/CONTAINER" use a claim, and no others; return its status."""

    def found() -> dict[str, Any] | None:
        one = status(host).get(claim.name)
        users = {f"{each['pod']}/{each['container']}" for each in one["containers"]} if one else ()
        return one if users == set(names) else None

    return wait_until(found, f"{', '.join(names) or 'no container'} as the users of {claim.name}")


def pod_of(
    name: str, devices: tuple[str, ...], *limits_bytes: int, pages_bytes: int = 0, handler: str = ""
) -> PodSpec:
    """Return a pod whose containers c0, c1 … have these limits; a BestEffort one without limits.

    They write memory. `pages_bytes` is the limit of each for hugepages of 2 MiB.
    """
    pages = {"2MB": pages_bytes} if pages_bytes else {}
    command = memory.writer(_WRITTEN_MIB)
    containers = tuple(
        ContainerSpec(f"c{number}", limit, 0, pages, command, devices)
        for number, limit in enumerate(limits_bytes or (0,))
    )
    qos = "burstable" if limits_bytes else "besteffort"
    return PodSpec(name, containers, qos, runtime_handler=handler)


def expect_on(host: Host, pod: Pod, name: str, mems: set[int], limit_bytes: int) -> str:
    """Expect the NUMA nodes and the limit of a container, and its memory on these nodes."""
    found, limit = host.nodes(pod, name), memory.read(pod, "memory.max", name)
    expect(found == mems, f"{name} has cpuset.mems {sorted(found)}, not {sorted(mems)}")
    expect(limit == str(limit_bytes), f"{name} has memory.max {limit}, not {limit_bytes}")
    written = memory.wait_for_written(pod, _WRITTEN_MIB, name)
    elsewhere = sum(size for node, size in written.items() if node not in mems)
    expect(elsewhere < 1, f"{name} has memory on other nodes: {written}")
    return f"{name}: cpuset.mems {sorted(found)}, memory.max {limit}, MiB by node {written}"


def refusal(host: Host, pod: Pod, name: str = "c0") -> str:
    """Return why a container cannot be created or started."""
    try:
        host.kubelet.run_container(pod, name)
    except CriError as error:
        return str(error)
    raise AssertionError(f"{pod.spec.name}/{name} runs on {sorted(host.nodes(pod, name))}")
