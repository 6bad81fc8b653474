"""The plugin under its unit: a real systemd applies each restriction to a real process.

systemd runs as the first process of namespaces of its own (boot-systemd). There a call outside of
the filter of system calls ends the plugin.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.laboratory.fake_sysfs import overlay_of

ROOT = Path(__file__).resolve().parents[2]
BOOT = Path(__file__).with_name("boot-systemd")
GI = 1 << 30
LIMIT_S = 1000
NAMESPACES = ("unshare", "-mnpiuC", "--fork", "--mount-proc", "true")

# The first test includes the whole life, on a machine under load.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


def _obstacle() -> str:
    """Return why systemd cannot be booted here; "" if it can."""
    if os.geteuid():
        return "only root can boot systemd"
    for program in ("unshare", "systemctl", "journalctl", "/lib/systemd/systemd"):
        if not shutil.which(program):
            return f"{program} is missing"
    if subprocess.run(NAMESPACES, capture_output=True, check=False, timeout=60).returncode:
        return "this process may not create namespaces"
    return ""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Let the service live once; return what service_life saw."""
    if obstacle := _obstacle():
        pytest.skip(obstacle)
    directory = tmp_path_factory.mktemp("service")
    node_directory = "sys/devices/system/node/"
    nodes = tuple(
        NumaNode(number, 4 * GI, {}, CpuSet([number]), {number: 10, 1 - number: 21})
        for number in range(2)
    )
    for name, text in overlay_of(Machine(nodes)).items():
        if name.startswith(node_directory):
            file = directory / "node" / name.removeprefix(node_directory)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = sysconfig.get_path("purelib")
    arguments = map(str, (directory, ROOT, sys.base_prefix, python, packages))
    done = subprocess.run(
        ["unshare", "-m", str(BOOT), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    written = {
        name: (directory / name).read_text() if (directory / name).exists() else ""
        for name in ("output", "journal", "seen")
    }
    assert written["seen"], (done.returncode, done.stdout, done.stderr, written)
    found: dict[str, Any] = json.loads(written["seen"])
    return found


def test_the_service_lives_under_its_unit(seen: dict[str, Any]) -> None:
    """Placement, crash, restart of the runtime, and an orderly stop."""
    assert set(seen["nodes"]) <= {"0", "1"}
    assert len(seen["nodes"]) == 6
    # The crash of the test, and no end by the filter of system calls.
    assert seen["restarts"] == 1
    assert (seen["result"], seen["status"]) == ("success", 0)


def test_nothing_that_the_plugin_needs_is_refused(seen: dict[str, Any]) -> None:
    # The runtime is absent at first and restarts; records are dropped on a machine under load.
    assert set(seen["warnings"]) <= {"connect_failed", "disconnected", "log_records_dropped"}
    assert seen["children"] == ["numamem-superv"]


def test_the_restrictions_are_applied(seen: dict[str, Any]) -> None:
    capabilities = dict.fromkeys(("CapPrm", "CapEff", "CapBnd", "CapAmb"), "0" * 16)
    assert seen["restrictions"] == {**capabilities, "NoNewPrivs": "1", "Seccomp": "2"}
    assert seen["read_only"] == {
        "/sys": True,
        "/sys/fs/cgroup": True,
        "/proc/sys": True,
        "/usr": True,
        "/var/lib/nri-numamem": False,
    }
    assert seen["nice"] == -5


def test_only_loopback_reaches_the_metrics(seen: dict[str, Any]) -> None:
    assert seen["reached"] == {"loopback": True, "other": False, "other, unrestricted": True}


def test_the_exporter_lives_under_its_unit(seen: dict[str, Any]) -> None:
    exporter = seen["exporter"]
    assert exporter["zones"] == ["node-0", "node-1"]
    # No end by the filter of system calls.
    assert (exporter["restarts"], exporter["result"]) == (0, "success")
    assert exporter["restrictions"] == seen["restrictions"]
    assert set(exporter["read_only"].values()) == {True}
    assert not exporter["sees_the_runtime"]


def test_only_the_helper_of_network_hints_has_the_capability(seen: dict[str, Any]) -> None:
    namespaces = seen["namespaces"]
    none, sys_admin = "0" * 16, f"{1 << 21:016x}"
    assert namespaces["plugin"] == [f"{none} {none}"]  # of all threads
    assert namespaces["processes"] == {
        "numamem-superv": f"{none} {none}",
        "numamem-network": f"{sys_admin} {sys_admin}",
    }


def test_the_helper_reads_namespaces_under_the_unit(seen: dict[str, Any]) -> None:
    namespaces = seen["namespaces"]
    assert namespaces["missing"].endswith("No such file or directory")
    assert namespaces["present"] == ""
    # Neither the filter of system calls nor the end of the helper ended the plugin.
    assert (namespaces["restarts"], namespaces["result"]) == (0, "success")
