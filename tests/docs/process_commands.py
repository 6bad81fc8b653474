"""Runs documented command lines beside processes of the program, in a namespace of process ids.

``python -m tests.docs.process_commands DIRECTORY MODE COMMAND...``: the plugin, which is launched
or a service (`MODE`), is younger than the other processes. Prints a JSON document of what was seen.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.laboratory.runtime import FakeRuntime
from tests.launched_processes import launching_runtime
from tests.simulated_host import SimulatedHost, wait_for

EVENTS = {"USR1": "state_dump", "USR2": "log_level_changed", "HUP": "log_reopened"}
SCRIPT = "#!{python}\nimport sys\nfrom nri_numamem.cli.main import main\nsys.exit(main())\n"


def others(program: Path, directory: Path) -> dict[str, list[str]]:
    """Return commands that run until they are ended, by what they wait for."""
    socket = f"unix://{directory}/podresources.sock"
    return {
        "export": [str(program), "export", "--no-write", "--podresources", socket],
        "status": [str(program), "status", "--watch"],
        "simulate": [str(program), "simulate", "-"],
    }


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the end of the context."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=subprocess.DEVNULL, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def has_name(process: subprocess.Popen[bytes], name: str) -> bool:
    """Return whether the process has the name, which pgrep compares, and still runs."""
    assert process.poll() is None, process.communicate()[1]
    return Path(f"/proc/{process.pid}/comm").read_text() == f"{name}\n"


def serve(host: SimulatedHost, mode: str, program: Path, runtime: FakeRuntime) -> int:
    """Start the plugin as `mode` says; return its process id."""
    runtime.listen(host.socket)
    if mode == "service":
        process = host.start(command=[str(program)])
        runtime.accept(30)
        runtime.synchronize()
        return process.pid
    config = f"logFile: {host.log}\nlogFormat: json\nstateFile: {host.state_file}\n"
    launched = runtime.launch(program, "10-nri-numamem", config)
    runtime.synchronize()
    assert launched.process is not None
    return launched.process.pid


def main(directory: Path, mode: str, commands: list[str]) -> dict[str, Any]:
    """Run the commands; return the records that they caused, and which processes ended."""
    program = directory / "nri-numamem"  # the kernel takes a script's name for the process
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(started(command))
            for name, command in others(program, directory).items()
        }
        for name, process in processes.items():
            wait_for(partial(has_name, process, f"numamem-{name}"[:15]), f"the name of {name}")
        host = SimulatedHost(directory / "host")
        stack.callback(host.close)
        runtime = stack.enter_context(launching_runtime())
        plugin = serve(host, mode, program, runtime)
        name = Path(f"/proc/{plugin}/comm").read_text().strip()
        for command in commands:
            run(command, host)
        os.kill(plugin, signal.SIGTERM)
        wait_for(lambda: bool(host.records("stopped") or host.records("plugin_exited")), "its end")
        return {
            "records": {event: len(host.records(event)) for event in EVENTS.values()},
            "ended": [name for name, process in processes.items() if process.poll() is not None],
            "name": name,
        }


def run(command: str, host: SimulatedHost) -> None:
    """Run a command; wait for its record in the plugin's log."""
    found = re.search(r"\b(USR1|USR2|HUP)\b", command)
    assert found, command
    event = EVENTS[found[1]]
    before = len(host.records(event))
    subprocess.run(["sh", "-c", command], check=True)
    wait_for(lambda: len(host.records(event)) > before, f"{event} after {command}")


if __name__ == "__main__":
    # An earlier test of the same process may have left these signals ignored.
    for ignored in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(ignored, signal.SIG_DFL)
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
