"""Checks of network hints, where they are switched on: kernel, and the unit's restrictions."""

import re
from collections.abc import Iterator

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.doctor.unit_file import UnitFile
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation.systemd import OVERRIDES, UNIT, is_enabled
from nri_numamem.config.placement import HINTS_OFF
from nri_numamem.config.settings import Settings

_CHECK = "network_hints"
# IFLA_PARENT_DEV_NAME came with this release.
_PARENTS_SINCE = (5, 14)
_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})", re.ASCII)
_CAPABILITY = "CAP_SYS_ADMIN"
_LINES = (
    f"[Service], CapabilityBoundingSet={_CAPABILITY}, RestrictNamespaces=net and "
    "SystemCallFilter=capset"
)
# capset and systemd's groups of calls that have it; see systemd-analyze syscall-filter.
_CAPSET = {"capset", "@privileged", "@system-service"}
_REMEDY = (
    f"write {_LINES} to {OVERRIDES}/network-hints.conf; then: systemctl daemon-reload && systemctl "
    f"restart {UNIT}"
)
_WITHOUT = "only net_devices of containers count as hints"


def check_network_hints(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check whether the interfaces in pods' network namespaces can be read."""
    if settings is None or settings.network_hints == HINTS_OFF:
        return
    try:
        yield _finding(host)
    except UnreadableError as error:
        yield Finding(_CHECK, Verdict.UNKNOWN, str(error), "run as root")


def _finding(host: Host) -> Finding:
    found = _RELEASE.match(_release(host))
    if found is not None and tuple(map(int, found.groups())) < _PARENTS_SINCE:
        text = f"the kernel {found[0]} does not report the hardware of a pod's network interfaces"
        return Finding(_CHECK, Verdict.WARN, f"{text}; {_WITHOUT}", "use Linux 5.14 or newer")
    if not is_enabled(host):
        text = f"without {UNIT} the plugin needs {_CAPABILITY} for networkHints, or {_WITHOUT}"
        return Finding(_CHECK, Verdict.OK, text)
    unit = UnitFile(host)
    if not (unit.allows_capability(_CAPABILITY) and _allows_network(unit)):
        text = f"{UNIT} does not permit the plugin to enter network namespaces; {_WITHOUT}"
        return Finding(_CHECK, Verdict.WARN, text, _REMEDY)
    if not _allows_capset(unit):
        text = (
            f"{UNIT} does not permit the plugin to drop {_CAPABILITY}, which only its helper needs"
        )
        return Finding(_CHECK, Verdict.WARN, text, _REMEDY)
    return Finding(_CHECK, Verdict.OK, f"{UNIT} permits the plugin to enter network namespaces")


def _release(host: Host) -> str:
    """Return the kernel's release; "" if it cannot be read, which counts as new enough."""
    try:
        # The kernel refuses large reads of this file with ENOMEM.
        return host.path("/proc/sys/kernel/osrelease").read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


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
