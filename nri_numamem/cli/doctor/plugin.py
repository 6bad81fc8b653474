"""Checks of the plugin: its instance, its state file, and what its systemd unit permits.

They read the unit and its drop-in files as systemd does, without systemctl, because the host may be
mounted below another root directory.
Source: systemd.unit(5), systemd.exec(5), systemd.resource-control(5).
"""

import ipaddress
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.systemd import OVERRIDES, UNIT, is_enabled
from nri_numamem.cli.render.texts import duration, listed, time_text
from nri_numamem.config.features import HINTS_OFF
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.snapshot import SnapshotError, restore
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.running import CpusetMemsConflict
from nri_numamem.numa import Machine, NodeSet, humanize_bytes
from nri_numamem.numa.quantity import MEMORY, hugepages_page_size
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import StartMode, plugin_file_of, read_plugin_file
from nri_numamem.observe.state_file import existing_state_file

# Names in one finding; the number shows how many there are.
_LISTED = 5


def check_instance(
    host: Host, settings: Settings | None, machine: Machine | None
) -> Iterator[Finding]:
    """Check whether an instance holds the lock, and the state that it writes."""
    file = (settings or Settings()).state_file_or_default
    if not file:
        text = "stateFile is empty: no lock prevents a second instance"
        yield Finding("instance", Verdict.WARN, text, "set stateFile")
        return
    lock = str(lock_file_of(Path(file)))
    try:
        holder = find_holder(host.path(lock))
    except OSError as error:
        yield Finding("instance", Verdict.UNKNOWN, f"{lock}: {error.strerror}", "run as root")
        return
    if holder is None:
        remedy = "start it (see docs/install.md); its log says why it ended"
        text = f"no instance holds {lock}: the plugin does not run"
        yield Finding("instance", Verdict.FAIL, text, remedy)
    else:
        yield Finding("instance", Verdict.OK, f"one instance holds {lock}: {holder.text}")
    yield from _check_restarts(host, file)
    yield from _check_state(host, file, machine)


@reads_files("restarts")
def _check_restarts(host: Host, state_file: str) -> Iterator[Finding]:
    """Check whether the supervisor had to start the plugin again."""
    facts = read_plugin_file(host.path(str(plugin_file_of(Path(state_file)))))
    if facts is not None and facts.mode is StartMode.RESTARTED:
        when = time_text(facts.started_s)
        text = f"the supervisor started the plugin again at {when} (pid {facts.pid})"
        remedy = "its log says why: a crash, a loop that was stuck, or the runtime disconnected it"
        yield Finding("restarts", Verdict.WARN, text, remedy)


@reads_files("state_file")
def _check_state(host: Host, name: str, machine: Machine | None) -> Iterator[Finding]:
    name = str(Path(name).with_name(existing_state_file(host.path(name)).name))
    text = host.read(name)
    if text is None:
        yield Finding("state_file", Verdict.OK, f"{name} does not exist: nothing was placed yet")
        return
    try:
        state = restore(text.encode())
    except SnapshotError as error:
        remedy = "the next start of the plugin renames it and computes the state anew"
        yield Finding("state_file", Verdict.WARN, f"{name}: {error}", remedy)
        return
    age_s = max(0.0, time.time() - host.path(name).stat().st_mtime)
    yield Finding("state_file", Verdict.OK, f"{name} was last changed {duration(age_s)} ago")
    yield from _check_containers(state)
    if machine is not None:
        yield from _check_pools(state, machine)


def _check_containers(state: EngineState) -> Iterator[Finding]:
    """Check for containers that run unpinned, and for nodes that something else set."""
    unpinned = state.reasons.unpinned.values()
    if unpinned:
        names = _listed(unpinned)
        text = f"containers of Guaranteed pods that run unpinned: {len(unpinned)} ({names})"
        remedy = "nri-numamem explain POD says why, and what to do"
        yield Finding("unpinned_containers", Verdict.WARN, text, remedy)
    conflicts = [
        reason
        for reason in state.reasons.pinned.values()
        if reason.event == CpusetMemsConflict.event
    ]
    if conflicts:
        text = f"something else set cpuset.mems of {_listed(conflicts)}"
        remedy = "find it: the kubelet's Memory Manager, another NRI plugin, an operator"
        yield Finding("cpuset_mems", Verdict.WARN, text, remedy)


def _check_pools(state: EngineState, machine: Machine) -> Iterator[Finding]:
    """Check for pools that are smaller than what containers were given."""
    held = Counter[tuple[NodeSet, str]]()
    for containers in state.accounting.assignments.values():
        for block in (block for blocks in containers.values() for block in blocks):
            if block.type != MEMORY:
                held[block.numa_affinity, block.type] += block.size
    for (nodes, resource), size_bytes in held.items():
        page_bytes = hugepages_page_size(resource)
        pool_bytes = sum(
            node.hugepages.get(page_bytes, 0) * page_bytes
            for node in machine.nodes
            if node.node_id in nodes
        )
        if size_bytes > pool_bytes:
            text = (
                f"containers on {format_nodes(nodes)} hold {humanize_bytes(size_bytes)} of "
                f"{resource}, and the pools there have {humanize_bytes(pool_bytes)}: a pool became "
                "smaller"
            )
            remedy = "raise nr_hugepages of these nodes again, or end containers there"
            yield Finding("hugepage_pools", Verdict.WARN, text, remedy)


def _listed(reasons: Collection[Reason]) -> str:
    names = [f"{reason.namespace}/{reason.pod}/{reason.key[1]}" for reason in reasons]
    return listed(names, _LISTED)


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
    found = _RELEASE.match(_release(host))
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
