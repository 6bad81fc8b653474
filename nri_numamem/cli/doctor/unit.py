"""Checks of what the systemd unit permits the plugin.

They read the unit and its drop-in files as systemd does, without systemctl, because the host may be
mounted below another root directory.
Source: systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

import ipaddress
import re
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.systemd import OVERRIDES, UNIT, is_enabled
from nri_numamem.config.features import HINTS_OFF
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


class UnitFile:
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

    def allows_capability(self, name: str) -> bool:
        """Return whether the service may have a capability, such as "CAP_SYS_ADMIN"."""
        values = self.values("CapabilityBoundingSet")
        if not values or any(name in value and value[0] != "~" for value in values):
            return True
        return any(value.startswith("~") and name not in value for value in values)

    def words(self, key: str) -> list[str]:
        """Return the words of a list, to which each line adds and which an empty line clears."""
        words: list[str] = []
        for value in self.values(key):
            words = [*words, *value.split()] if value else []
        return words

    def values(self, key: str) -> list[str]:
        """Return the value of each line of a key, in order."""
        lines = (line for text in self._texts for line in text.splitlines())
        pairs = (line.partition("=") for line in lines)
        return [value.strip() for name, equals, value in pairs if equals and name.strip() == key]


_DROP_IN = f"{OVERRIDES}/metrics.conf"
_APPLY = f"systemctl daemon-reload && systemctl restart {UNIT}"
_FIRST_UNPRIVILEGED_PORT = 1024
_BIND = "CAP_NET_BIND_SERVICE"


@reads_files("metrics_address")
def check_service(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check whether the unit permits `metricsAddress`, if unit and metrics are enabled."""
    address = settings.metrics_address if settings is not None else ""
    if not address or address.startswith("unix:") or not is_enabled(host):
        return
    unit = UnitFile(host)
    name, _, port = address.rpartition(":")
    findings = []
    if not _is_loopback(name.strip("[]")) and _denies_other_hosts(unit):
        text = f"metricsAddress is {address}, and {UNIT} permits loopback addresses only"
        remedy = f"write [Service] and IPAddressAllow=NETWORK, the scraper's, to {_DROP_IN}; then: "
        findings.append(Finding("metrics_address", Verdict.WARN, text, remedy + _APPLY))
    if int(port) < _FIRST_UNPRIVILEGED_PORT and not unit.allows_capability(_BIND):
        text = f"metricsAddress is {address}, and {UNIT} has no {_BIND} for ports below 1024"
        remedy = f"use another port, or write [Service] and CapabilityBoundingSet={_BIND} to "
        remedy += f"{_DROP_IN}; then: {_APPLY}"
        findings.append(Finding("metrics_address", Verdict.WARN, text, remedy))
    text = f"{UNIT} permits metricsAddress {address}"
    yield from findings or [Finding("metrics_address", Verdict.OK, text)]


def _denies_other_hosts(unit: UnitFile) -> bool:
    """Return whether no address beyond loopback is permitted."""
    return "any" in unit.words("IPAddressDeny") and all(
        map(_is_loopback, unit.words("IPAddressAllow"))
    )


def _is_loopback(text: str) -> bool:
    """Return whether an address, a network or a name of systemd is on the loopback device."""
    if text == "localhost":
        return True
    try:
        return ipaddress.ip_network(text, strict=False).is_loopback
    except ValueError:
        return False


_HINTS = "network_hints"
# IFLA_PARENT_DEV_NAME came with this release.
_PARENTS_SINCE = (5, 14)
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
_CAPABILITY = "CAP_SYS_ADMIN"
# capset and systemd's groups of calls that have it; see systemd-analyze syscall-filter.
_CAPSET = {"capset", "@privileged", "@system-service"}
_HINTS_REMEDY = (
    f"write [Service], CapabilityBoundingSet={_CAPABILITY}, RestrictNamespaces=net and "
    f"SystemCallFilter=capset to {OVERRIDES}/network-hints.conf; then: {_APPLY}"
)
_WITHOUT = "only net_devices of containers count as hints"


@reads_files(_HINTS)
def check_network_hints(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check whether the interfaces in pods' network namespaces can be read."""
    if settings is not None and settings.network_hints != HINTS_OFF:
        yield _network_hints(host)


def _network_hints(host: Host) -> Finding:
    found = _RELEASE.match(host.kernel_release())
    if found is not None and tuple(map(int, found.groups())) < _PARENTS_SINCE:
        text = f"the kernel {found[0]} does not report the hardware of a pod's network interfaces"
        return Finding(_HINTS, Verdict.WARN, f"{text}; {_WITHOUT}", "use Linux 5.14 or newer")
    if not is_enabled(host):
        text = f"without {UNIT} the plugin needs {_CAPABILITY} for networkHints, or {_WITHOUT}"
        return Finding(_HINTS, Verdict.OK, text)
    unit = UnitFile(host)
    if not (unit.allows_capability(_CAPABILITY) and _allows_network(unit)):
        text = f"{UNIT} does not permit the plugin to enter network namespaces; {_WITHOUT}"
        return Finding(_HINTS, Verdict.WARN, text, _HINTS_REMEDY)
    if not _allows_capset(unit):
        text = (
            f"{UNIT} does not permit the plugin to drop {_CAPABILITY}, which only its helper needs"
        )
        return Finding(_HINTS, Verdict.WARN, text, _HINTS_REMEDY)
    return Finding(_HINTS, Verdict.OK, f"{UNIT} permits the plugin to enter network namespaces")


def _allows_network(unit: UnitFile) -> bool:
    """Return whether a process of the unit may enter network namespaces."""
    values = unit.values("RestrictNamespaces")
    if not values or values[-1] in ("", "no", "false", "0"):
        return True
    return any("net" in value.lstrip("~").split() for value in values if not value.startswith("~"))


def _allows_capset(unit: UnitFile) -> bool:
    """Return whether the unit's filter of system calls permits capset(2)."""
    is_allowed = True
    for value in unit.values("SystemCallFilter"):
        named = not _CAPSET.isdisjoint(value.removeprefix("~").split())
        if not value or named:
            is_allowed = not value.startswith("~")
    return is_allowed
