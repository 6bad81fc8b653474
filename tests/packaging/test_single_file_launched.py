"""The single executable file as a runtime launches it, on hosts where little is writable."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.packaging import bare_root
from tests.packaging.launched_life import WAIT_S
from tests.packaging.single_file_program import (
    PROGRAM,
    ROOT,
    needs_program,
    needs_root,
    run_with_mounts,
)
from tests.simulated_host import wait_for

pytestmark = [needs_program, needs_root, pytest.mark.slow, pytest.mark.timeout(900)]

# Arguments: the plugin, or a bare root with it, the signal, and this interpreter.
_LIFE = """
mount -t tmpfs tmpfs /run
mkdir /run/life
{prepare}
cd {root}
"$3" -m tests.packaging.launched_life /run/life/10-numamem-single /run/life "$2"
cat /run/life/log >&2
"""
_COPY = 'cp "$1" /run/life/10-numamem-single\n'

HOSTS = {
    "noexec /tmp": _COPY + "mount -t tmpfs -o noexec tmpfs /tmp",
    "full /tmp": _COPY + "mount -t tmpfs -o nr_blocks=1,nr_inodes=1 tmpfs /tmp; ! touch /tmp/file",
    "read-only root": _COPY + "mount -o remount,ro,bind /",
    "bare root": """
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /sys "$1/sys"
mount --rbind /run "$1/run"
mount -o remount,ro,bind "$1"
printf '#!/bin/sh\\nexec chroot "%s" /nri-numamem\\n' "$1" > /run/life/10-numamem-single
chmod +x /run/life/10-numamem-single
""",
}

# The first parts of the names of the files in /run, all of them the plugin's and the runtime's own.
WRITTEN = {"10-numamem-single", "log", "nri", "state"}


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended may still be in the process table."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(") ")[2][0] != "Z"


def life(prepare: str, plugin: Path, number: int) -> dict[str, Any]:
    """Return what happened; see launched_life."""
    script = _LIFE.format(prepare=prepare, root=ROOT)
    done = run_with_mounts(script, plugin, str(int(number)), sys.executable)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    found["records"] = [json.loads(line) for line in done.stderr.splitlines() if line[:1] == "{"]
    return found


@pytest.mark.parametrize("host", [*HOSTS])
def test_it_serves_and_comes_back_when_it_is_killed(host: str, tmp_path: Path) -> None:
    plugin = PROGRAM
    if host == "bare root":
        plugin = tmp_path / "root"
        bare_root.make(plugin, PROGRAM)
    found = life(HOSTS[host], plugin, signal.SIGKILL)
    assert found["exit_status"] == -signal.SIGKILL
    assert all(found["mems"])
    causes = [r["cause"] for r in found["records"] if r["event"].startswith("restarting")]
    assert causes == ["it was killed, or exited without a traceback"]
    # One process and its supervisor, which then starts one.
    (supervisor,) = found["supervisors"]
    assert (found["helpers"], len(found["workers"])) == ([], 1)
    # Nothing is unpacked: all code is that of the program and of the C library.
    names = {Path(path).name for path in found["maps"]}
    assert [name for name in names if ".so" not in name and "numamem" not in name] == []
    assert {name.partition(".")[0] for name in found["written"]} <= WRITTEN
    # It ends with the runtime that launched the plugin, which is the ended process of `life`.
    wait_for(lambda: not is_alive(supervisor), "the end of the supervisor", WAIT_S)


def test_a_crash_leaves_a_traceback_with_names_and_lines() -> None:
    found = life(_COPY, PROGRAM, signal.SIGABRT)
    (record,) = [r for r in found["records"] if r["event"] == "restarting_after_crash"]
    assert 'File "<frozen nri_numamem.daemon.' in record["exception"]
    assert ", line " in record["exception"]
