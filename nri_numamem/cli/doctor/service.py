"""Checks of the systemd unit: whether it permits the address of the metrics.

Reads unit and drop-in files as systemd does, without systemctl: the host may be mounted
below another root. Source: systemd.unit(5), systemd.resource-control(5), systemd.exec(5).
"""

import ipaddress
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation.unit import NAME as UNIT
from nri_numamem.cli.installation.unit import OVERRIDES, is_enabled
from nri_numamem.config.settings import Settings

# A file hides those of the same name in later directories.
_DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_DROP_IN = f"{OVERRIDES}/metrics.conf"
_APPLY = f"systemctl daemon-reload && systemctl restart {UNIT}"
_FIRST_UNPRIVILEGED_PORT = 1024
_BIND = "CAP_NET_BIND_SERVICE"


def check_service(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check whether the unit permits the valid settings' `metricsAddress`, if it is enabled."""
    address = settings.metrics_address if settings is not None else ""
    if not address or address.startswith("unix:") or not is_enabled(host):
        return
    try:
        unit = _Unit(host)
    except UnreadableError as error:
        yield Finding("metrics_address", Verdict.UNKNOWN, str(error), "run as root")
        return
    name, _, port = address.rpartition(":")
    findings = []
    if not _is_loopback(name.strip("[]")) and unit.denies_other_hosts():
        text = f"metricsAddress is {address}, and {UNIT} permits loopback addresses only"
        remedy = f"write [Service] and IPAddressAllow=NETWORK, the scraper's, to {_DROP_IN}; then: "
        findings.append(Finding("metrics_address", Verdict.WARN, text, remedy + _APPLY))
    if int(port) < _FIRST_UNPRIVILEGED_PORT and unit.denies_low_ports():
        text = f"metricsAddress is {address}, and {UNIT} has no {_BIND} for ports below 1024"
        remedy = f"use another port, or write [Service] and CapabilityBoundingSet={_BIND} to "
        remedy += f"{_DROP_IN}; then: {_APPLY}"
        findings.append(Finding("metrics_address", Verdict.WARN, text, remedy))
    text = f"{UNIT} permits metricsAddress {address}"
    yield from findings or [Finding("metrics_address", Verdict.OK, text)]


class _Unit:
    """The settings of the unit and its drop-in files; raises UnreadableError."""

    def __init__(self, host: Host) -> None:
        files = [f"{directory}/{UNIT}" for directory in _DIRECTORIES]
        texts = (text for file in files if (text := host.read(file)) is not None)
        self._texts = [next(texts, "")]
        drop_ins: dict[str, str] = {}
        for folder in (f"{file}.d" for file in files):
            for name in host.names(folder):
                if name.endswith(".conf"):
                    drop_ins.setdefault(name, f"{folder}/{name}")
        self._texts += [host.read(drop_ins[name]) or "" for name in sorted(drop_ins)]

    def denies_other_hosts(self) -> bool:
        """Return whether no address beyond loopback is permitted."""
        allowed = self._words("IPAddressAllow")
        return "any" in self._words("IPAddressDeny") and all(map(_is_loopback, allowed))

    def denies_low_ports(self) -> bool:
        """Return whether the process may not listen on ports below 1024."""
        values = self._values("CapabilityBoundingSet")
        if not values or any(_BIND in value and value[0] != "~" for value in values):
            return False
        return not any(value.startswith("~") and _BIND not in value for value in values)

    def _words(self, key: str) -> list[str]:
        """Return the words of a list, to which each line adds and which an empty line clears."""
        words: list[str] = []
        for value in self._values(key):
            words = [*words, *value.split()] if value else []
        return words

    def _values(self, key: str) -> list[str]:
        lines = (line for text in self._texts for line in text.splitlines())
        pairs = (line.partition("=") for line in lines)
        return [value.strip() for name, equals, value in pairs if equals and name.strip() == key]


def _is_loopback(text: str) -> bool:
    """Return whether an address, a network or a name of systemd is on the loopback device."""
    if text == "localhost":
        return True
    try:
        return ipaddress.ip_network(text, strict=False).is_loopback
    except ValueError:
        return False
