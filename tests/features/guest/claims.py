"""Resource claims as the agent exchanges them with the plugin, and their CDI devices.

The agent writes an intent for a claim, sends a datagram, and waits for the answer. This module
depends on these files, on CDI and on the plugin's status, and not on a scenario.
"""

import json
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.machines.guest.host import Host
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
    """Prepare a claim, and wait for the answer; return the refusal, "" for a claim in use."""
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
        users = [f"{each['pod']}/{each['container']}" for each in one["containers"]] if one else []
        return one if users == list(names) else None

    return wait_until(found, f"{', '.join(names) or 'no container'} as the users of {claim.name}")
