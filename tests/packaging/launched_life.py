"""A runtime that launches the single file, and a signal that ends the plugin's first process.

Usage: python -m tests.packaging.launched_life PLUGIN FOLDER SIGNAL. /run belongs to this process.
FOLDER gets the log. Prints what happened as JSON.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from nri_numamem.daemon.external import DEFAULT_SOCKET
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime

MI = 1 << 20
WAIT_S = 120
"""More than any test needs, also at a low priority on a loaded machine."""


def created_mems(runtime: FakeRuntime, name: str) -> str:
    """Create a pod with a container; return the container's memory nodes."""
    pod = runtime.run_pod_sandbox(objects.pod(name, memory_limit_bytes=MI))
    container = objects.container(pod, "server", memory_limit_bytes=MI)
    return runtime.create_container(pod, container).linux.resources.cpu.mems


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            if int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


def live(plugin: Path, folder: Path, number: int) -> dict[str, object]:
    """Return what happened."""
    config = f"logFile: {folder}/log\nlogFormat: json\nstateFile: {folder}/state\n"
    DEFAULT_SOCKET.parent.mkdir(exist_ok=True)
    supervisors: list[int] = []
    try:
        with FakeRuntime(registration_timeout_s=WAIT_S, request_timeout_s=WAIT_S) as runtime:
            runtime.listen(DEFAULT_SOCKET)
            first = runtime.launch(plugin, "10-nri-numamem", config)
            runtime.synchronize()
            mems = [created_mems(runtime, "before")]
            assert first.process is not None
            supervisors = children_of(first.process.pid)
            helpers = [child for pid in supervisors for child in children_of(pid)]
            maps = Path(f"/proc/{first.process.pid}/maps").read_text().splitlines()
            os.kill(first.process.pid, number)
            first.process.wait(WAIT_S)
            first.close("it was killed")
            runtime.accept(WAIT_S)
            runtime.synchronize()
            mems.append(created_mems(runtime, "after"))
            workers = [child for pid in supervisors for child in children_of(pid)]
    except BaseException:
        for pid in supervisors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise
    return {
        "exit_status": first.process.exit_status,
        "maps": sorted({line.split(maxsplit=5)[5] for line in maps if "/" in line}),
        "mems": mems,
        "supervisors": supervisors,
        "helpers": helpers,
        "workers": workers,
        "written": sorted(path.name for path in Path("/run").rglob("*") if not path.is_dir()),
    }


if __name__ == "__main__":
    print(json.dumps(live(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
