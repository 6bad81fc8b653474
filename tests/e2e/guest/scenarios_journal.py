"""Checks of the service's log in the journal; scenarios_package runs them.

The commands are those of docs/troubleshooting.md, in a shell, as an operator types them.
"""

import json
import re
import subprocess
from functools import partial
from pathlib import Path

from tests.machines.guest import artefacts
from tests.machines.guest.checks import expect
from tests.machines.guest.cri import CriError
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, PodSpec
from tests.machines.guest.waiting import TIMEOUT_S, wait_until

_PAGE = Path("/e2e/troubleshooting.md")
_TOO_LARGE = PodSpec("too-large", (ContainerSpec("main", 64 << 30),))

# Command of the page -> words in its output, and words that are not there. {pod} is rejected.
_EXPECTED = {
    "journalctl -t nri-numamem": ((" machine: version=", "/{pod}/"), ()),
    "journalctl -t nri-numamem -p warning": (("/{pod}/",), (" machine: version=",)),
    "journalctl NRI_NUMAMEM_EVENT=rejected -o verbose": (
        ("NRI_NUMAMEM_POD={pod}", "NRI_NUMAMEM_REASON=", "PRIORITY=4"),
        ("NRI_NUMAMEM_EVENT=machine",),
    ),
    "journalctl -t nri-numamem -o export | nri-numamem state export -": (
        ('"machineState"', '"checksum"'),
        (),
    ),
}

# A dump of more pods than a datagram or a line of the journal can hold, as the plugin sends it. The
# process lives on as a plugin does: one that ends gives its log 0.2 s, which is too short here.
_LARGE_PODS = 3000
_LARGE_DUMP = f"""
from nri_numamem.observe.log import loggers
block = {{"numaAffinity": [0], "type": "memory", "size": 1 << 20}}
table = {{"total": 1 << 40, "systemReserved": 0, "allocatable": 1 << 40}}
used = {_LARGE_PODS} << 20
memory = table | {{"reserved": used, "free": (1 << 40) - used}}
node = {{"numberOfAssignments": {_LARGE_PODS}, "memoryMap": {{"memory": memory}}, "cells": [0]}}
entries = {{f"pod-{{n:036}}": {{"main": [block]}} for n in range({_LARGE_PODS})}}
loggers.configure("journal")
loggers.get_logger().info("state_dump", machineState={{"0": node}}, entries=entries)
input()
"""


def documented_commands_find_the_records(host: Host) -> str:
    """Run them; also with a record that is larger than a datagram."""
    pod = host.kubelet.run_sandbox(_TOO_LARGE)
    try:
        host.kubelet.create_container(pod, "main")
    except CriError:
        pass
    else:
        raise AssertionError("a container of 64 GiB was created")
    finally:
        host.kubelet.remove(pod)
    return f"{run_commands(_TOO_LARGE.name)} commands; a dump of {_large_dump()} bytes"


def run_commands(rejected: str) -> int:
    """Run the page's commands on the journal, which has a rejected pod of this name.

    The signals are those for a service. Returns the number of commands; raises AssertionError if
    one fails or finds something else.
    """
    others = _commands("journalctl -t nri-numamem ")
    service, _, _launched = "\n".join(_commands("systemctl kill ")).partition("# a plugin that")
    signals = [command for command in service.splitlines() if command.startswith("systemctl")]
    expect(len(signals) == 3, f"signals for the service: {signals}")
    for command in signals:
        _shell(command)
    for event in ("state_dump", "log_level_changed", "configuration_reloaded"):
        wait_until(partial(_messages, event), f"the record {event}")
    expect(set(others) == set(_EXPECTED), f"commands of the page: {others}")
    for command in others:
        output = _shell(command)
        there, absent = _EXPECTED[command]
        expected = [words.replace("{pod}", rejected) for words in there]
        missing = [words for words in expected if words not in output]
        expect(not missing, f"{command}: {missing} not in {output[:2000]}")
        wrong = [words for words in absent if words in output]
        expect(not wrong, f"{command}: {wrong} in {output[:2000]}")
    return len(others) + len(signals)


def _large_dump() -> int:
    """Send a large dump to the journal, and export it; return its size."""
    command = "journalctl -t nri-numamem -o export | nri-numamem state export -"

    def exported() -> str | None:
        text = _shell(command)
        return text if len(json.loads(text).get("entries", {})) == _LARGE_PODS else None

    artefacts.install_wheel()
    command_line = [str(artefacts.BIN / "python"), "-c", _LARGE_DUMP]
    sender = subprocess.Popen(command_line, stdin=subprocess.PIPE)
    try:
        size = len(wait_until(exported, "the large dump in the journal"))
    finally:
        sender.communicate(b"\n", timeout=TIMEOUT_S)
    expect(sender.returncode == 0, f"the sender ended with status {sender.returncode}")
    return size


def _commands(word: str) -> list[str]:
    """Return the lines of the page's block that has a word, without comments behind them."""
    blocks = re.findall(r"```sh\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if word in block)
    return [line.partition(" #")[0].strip() for line in block.splitlines()]


def _messages(event: str) -> str:
    return _shell(f"journalctl NRI_NUMAMEM_EVENT={event} -o cat").strip()


def _shell(command: str) -> str:
    result = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    expect(result.returncode == 0, f"{command}: {result.returncode}, {result.stderr}")
    return result.stdout
