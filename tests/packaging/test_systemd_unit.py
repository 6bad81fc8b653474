"""The systemd unit: what it names exists, and systemd-analyze judges it as documented."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from nri_numamem.cli import main
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.daemon import external
from nri_numamem.observe.log.loggers import LOG_FILE

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd" / "nri-numamem.service"
DOCUMENT = ROOT / "docs" / "systemd-unit.md"
PROGRAM = "/opt/nri-numamem/bin/nri-numamem"
EXPOSURE_MOST = 1.5

needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is missing"
)


def _settings(section: str) -> dict[str, list[str]]:
    """Return the values of each key of a section of the unit; "=" alone is an empty value."""
    (text,) = re.findall(
        rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", UNIT.read_text(), re.MULTILINE | re.DOTALL
    )
    values = defaultdict(list)
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            values[key].append(value)
    return values


def test_the_unit_names_what_exists() -> None:
    service = _settings("Service")
    assert service["Type"] == ["notify"]
    assert float(service["WatchdogSec"][0]) > 0
    program, command = service["ExecStart"][0].split()
    assert program == PROGRAM
    assert command in main.COMMANDS
    assert Path("/var/log") / service["LogsDirectory"][0] == LOG_FILE.parent
    assert Path("/var/lib") / service["StateDirectory"][0] == Path(STATE_FILE).parent
    # The socket's and the configuration's directories are neither hidden nor private.
    for path in (external.DEFAULT_SOCKET, DEFAULT_CONFIG):
        assert not path.is_relative_to("/home")
        assert not path.is_relative_to("/tmp")


def test_the_unit_permits_the_plugins_sockets() -> None:
    """Sockets of the runtime, of uevents, and of metrics on loopback are permitted."""
    service = _settings("Service")
    (families,) = service["RestrictAddressFamilies"]
    assert set(families.split()) == {"AF_UNIX", "AF_NETLINK", "AF_INET", "AF_INET6"}
    assert service["IPAddressDeny"] == ["any"]
    assert service["IPAddressAllow"] == ["localhost"]
    assert not service["PrivateNetwork"]


def test_no_runtime_waits_for_the_service() -> None:
    """A runtime starts without the service; a shutdown waits some seconds at most."""
    unit = _settings("Unit")
    assert set(unit) == {"Description", "Documentation", "After", "StartLimitIntervalSec"}
    assert unit["After"] == ["containerd.service crio.service"]
    assert set(_settings("Install")) == {"WantedBy"}
    assert int(_settings("Service")["TimeoutStopSec"][0]) <= 10


def test_the_service_is_always_started_again() -> None:
    assert _settings("Unit")["StartLimitIntervalSec"] == ["0"]
    assert _settings("Service")["Restart"] == ["always"]


def test_resources_are_limited_without_slowing_the_plugin_down() -> None:
    """MemoryHigh and CPUQuota would make the runtime wait."""
    service = _settings("Service")
    assert service["MemoryMax"] == ["512M"]
    assert int(service["TasksMax"][0]) >= 32
    assert not {"MemoryHigh", "CPUQuota"} & set(service)


@needs_analyze
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    text = UNIT.read_text()
    assert PROGRAM in text
    copy.write_text(text.replace(PROGRAM, sys.executable))
    done = _analyze("verify", "--man=no", str(copy))
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


@needs_analyze
def test_the_exposure_is_small_and_each_line_of_it_is_documented() -> None:
    assert _documented() == _exposed(UNIT)
    assert _within(UNIT, EXPOSURE_MOST)


@needs_analyze
def test_a_private_network_lowers_the_exposure_as_documented(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    (figure,) = re.findall(r"PrivateNetwork=yes`: the exposure is (\d\.\d) then", text)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("[Service]\n", "[Service]\nPrivateNetwork=yes\n"))
    assert _within(copy, float(figure))


def _documented() -> set[str]:
    """Return the lines of the table in the documentation."""
    rows = re.findall(r"^\| `([^`]+)` \| \d\.\d \| \S.* \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {name.replace("\\|", "|") for name in rows}


def _exposed(unit: Path) -> set[str]:
    """Return the lines that systemd-analyze counts."""
    done = _analyze("security", "--offline=true", "--json=short", str(unit))
    return {line["name"] for line in json.loads(done.stdout) if float(line["exposure"] or 0) > 0}


def _within(unit: Path, exposure: float) -> bool:
    threshold = f"--threshold={exposure * 10:.0f}"
    return not _analyze("security", "--offline=true", threshold, str(unit)).returncode


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
