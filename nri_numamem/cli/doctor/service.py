"""Checks of the systemd unit: whether it permits the address of the metrics.

Source: systemd.resource-control(5), systemd.exec(5).
"""

import ipaddress
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.unit_file import UnitFile
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation.systemd import OVERRIDES, UNIT, is_enabled
from nri_numamem.config.settings import Settings

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
        unit = UnitFile(host)
    except UnreadableError as error:
        yield Finding("metrics_address", Verdict.UNKNOWN, str(error), "run as root")
        return
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
