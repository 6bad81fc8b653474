"""The systemd units: what they name exists, and systemd-analyze judges them as documented."""

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
from nri_numamem.cli.export import EXAMPLES
from nri_numamem.cli.export.podresources import SCHEME, path_of
from nri_numamem.cli.export.server import DEFAULT_KUBECONFIG, OPTIONS_FILE
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.config.claims import CDI_DIRECTORY
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.daemon import external
from nri_numamem.export.resourceslice import DRIVER
from nri_numamem.exporter.claims import CALLS
from nri_numamem.exporter.loop import REQUEST_S
from nri_numamem.kubelet.dra import driver_socket, registration_socket
from nri_numamem.observe import earmark_files
from nri_numamem.observe.claim_files import directory_of, intents_file
from nri_numamem.observe.log.loggers import LOG_FILE

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "systemd" / "nri-numamem.service"
EXPORTER = ROOT / "systemd" / "nri-numamem-export.service"
DOCUMENT = ROOT / "docs" / "systemd-unit.md"
PROGRAM = "/opt/nri-numamem/bin/nri-numamem"
# Unit -> its heading in the document, and the exposure that the document names.
EXPOSURES = {UNIT: ("What stays exposed", 1.5), EXPORTER: ("The unit of the exporter", 1.6)}

needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is missing"
)


def _settings(section: str, unit: Path = UNIT) -> dict[str, list[str]]:
    """Return the values of each key of a section of a unit; "=" alone is an empty value."""
    (text,) = re.findall(
        rf"^\[{section}\]\n(.*?)(?=^\[|\Z)", unit.read_text(), re.MULTILINE | re.DOTALL
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


def test_the_unit_permits_cdi_specifications() -> None:
    """Their directory is made before the file system of the service becomes read-only."""
    service = _settings("Service")
    directory = CDI_DIRECTORY.removeprefix("/var")
    assert f"-{directory}" in service["ReadWritePaths"][0].split()
    assert service["ExecStartPre"] == [f"+-/bin/mkdir -p -m 755 {directory}"]
    assert service["ProtectSystem"] == ["strict"]


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


def test_the_exporter_reads_its_options_and_does_not_reach_the_runtime() -> None:
    service = _settings("Service", EXPORTER)
    assert service["EnvironmentFile"] == [f"-{OPTIONS_FILE}"]
    assert OPTIONS_FILE.parent == DEFAULT_KUBECONFIG.parent == DEFAULT_CONFIG.parent
    program, command, options = service["ExecStart"][0].split()
    assert (program, command, options) == (PROGRAM, "agent", "$EXPORT_OPTIONS")
    assert command in main.COMMANDS
    hidden = [Path(name.lstrip("-")) for name in service["InaccessiblePaths"][0].split()]
    assert Path("/run", *external.DEFAULT_SOCKET.parts[3:]).parent in hidden
    assert set(service["RestrictAddressFamilies"][0].split()) == {"AF_UNIX", "AF_INET", "AF_INET6"}
    # It writes nothing but the socket of --podresources; the directory is not the plugin's, which
    # removes it when it stops.
    assert not {"StateDirectory", "LogsDirectory", "ReadWritePaths"} & set(service)
    assert service["RuntimeDirectory"] != _settings("Service")["RuntimeDirectory"]
    address = next(text for text in EXAMPLES[-1].split() if text.startswith(SCHEME))
    assert path_of(address).parent == Path("/run", service["RuntimeDirectory"][0])
    assert service["RuntimeDirectoryPreserve"] == ["restart"]
    assert service["Type"] == ["notify"]
    assert float(service["WatchdogSec"][0]) > 2 * REQUEST_S
    assert float(service["TimeoutStartSec"][0]) > 2 * REQUEST_S
    # A wrong command line is exit status 2.
    assert service["RestartPreventExitStatus"] == ["2"]
    assert "WatchdogSec" in service


def _drop_in(directory: str, file: Path) -> dict[str, list[str]]:
    """Write the drop-in file of the page with this state directory; return its settings."""
    pattern = rf"```ini\n(\[Service\]\nStateDirectory={directory}.*?)```"
    (block,) = re.findall(pattern, DOCUMENT.read_text(), re.DOTALL)
    file.write_text(block)
    return _settings("Service", file)


def test_the_drop_in_file_for_rebalancing_permits_what_the_agent_writes(tmp_path: Path) -> None:
    service = _drop_in("nri-numamem/earmarks", tmp_path / "rebalance.conf")
    state_file = Path(STATE_FILE)
    assert {Path("/var/lib") / name for name in service["StateDirectory"][0].split()} == {
        earmark_files.file_of(earmark_files.directory_of(state_file), "x").parent,
        EvictionHistoryFile(state_file).path.parent,
    }
    assert service["StateDirectoryMode"] == ["0700"]


def test_the_drop_in_file_for_claims_permits_what_the_agent_writes(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    service = _drop_in("nri-numamem/claims", tmp_path / "claims.conf")
    (options,) = re.findall(r"^EXPORT_OPTIONS=(.*--claims.*)$", text, re.MULTILINE)
    assert main.new_parser(["agent"]).parse(["agent", *options.split()]).claims
    kubelet = Path("/var/lib/kubelet")
    written = {Path("/var/lib") / name for name in service["StateDirectory"][0].split()}
    written |= set(map(Path, service["ReadWritePaths"]))
    assert written == {
        intents_file(directory_of(Path(STATE_FILE))).parent,
        driver_socket(kubelet, DRIVER).parent,
        registration_socket(kubelet, DRIVER).parent,
    }
    assert int(service["TasksMax"][0]) > CALLS + 32


def test_the_exporter_depends_on_no_other_service() -> None:
    assert set(_settings("Unit", EXPORTER)) == {
        "Description",
        "Documentation",
        "After",
        "Wants",
        "StartLimitIntervalSec",
    }
    assert _settings("Unit", EXPORTER)["Wants"] == ["network-online.target"]


def test_the_exporter_has_the_restrictions_of_the_plugin() -> None:
    plugin, exporter = _settings("Service"), _settings("Service", EXPORTER)
    own = {"IPAddressDeny", "IPAddressAllow", "RestrictAddressFamilies", "ReadWritePaths"}
    own |= {"StateDirectory", "StateDirectoryMode", "LogsDirectory", "LogsDirectoryMode"}
    own |= {
        "RuntimeDirectory",
        "ExecStartPre",
        "ExecStart",
        "ExecReload",
        "TimeoutStartSec",
        "WatchdogSec",
    }
    own |= {"RestartSec", "OOMScoreAdjust", "Nice", "MemoryMax", "TasksMax"}
    for key in set(plugin) - own:
        assert exporter[key] == plugin[key], key


@needs_analyze
@pytest.mark.parametrize("unit", EXPOSURES)
def test_systemd_accepts_the_unit(tmp_path: Path, unit: Path) -> None:
    copy = tmp_path / unit.name
    text = unit.read_text()
    assert PROGRAM in text
    copy.write_text(text.replace(PROGRAM, sys.executable))
    done = _analyze("verify", "--man=no", str(copy))
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


@needs_analyze
@pytest.mark.parametrize("unit", EXPOSURES)
def test_the_exposure_is_small_and_each_line_of_it_is_documented(unit: Path) -> None:
    heading, most = EXPOSURES[unit]
    section = _section(heading)
    assert _documented(section) == _exposed(unit)
    assert _within(unit, most)
    assert f"an exposure of {most} " in section or unit == UNIT


@needs_analyze
def test_a_private_network_lowers_the_exposure_as_documented(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    (figure,) = re.findall(r"PrivateNetwork=yes`: the exposure is (\d\.\d) then", text)
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("[Service]\n", "[Service]\nPrivateNetwork=yes\n"))
    assert _within(copy, float(figure))


def _section(heading: str) -> str:
    """Return a section of the documentation."""
    _, _, after = DOCUMENT.read_text().partition(f"\n## {heading}\n")
    return after.partition("\n## ")[0]


def _documented(section: str) -> set[str]:
    """Return the lines of the table in a section."""
    rows = re.findall(r"^\| `([^`]+)` \| \d\.\d \| \S.* \|$", section, re.MULTILINE)
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
