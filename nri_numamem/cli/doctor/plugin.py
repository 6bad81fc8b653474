"""Checks of the plugin: its instance, its version, and its state file."""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.render.texts import duration, listed, time_text
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.snapshot import restore
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.running import CpusetMemsConflict
from nri_numamem.numa import Machine, NodeSet, humanize_bytes
from nri_numamem.numa.quantity import MEMORY, hugepages_page_size
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import StartMode, plugin_file_of, read_plugin_file
from nri_numamem.observe.state_file import existing_state_file
from nri_numamem.version import VERSION

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
        remedy = "start the service, or the runtime that launches it, or run nri-numamem install; "
        remedy += "its log says why it ended: journalctl -t nri-numamem"
        text = f"no instance holds {lock}: the plugin does not run"
        yield Finding("instance", Verdict.FAIL, text, remedy)
    else:
        yield Finding("instance", Verdict.OK, f"one instance holds {lock}: {holder.text}")
    yield from _check_restarts(host, file, is_running=holder is not None)
    yield from _check_state(host, file, machine)


@reads_files("restarts")
def _check_restarts(host: Host, state_file: str, *, is_running: bool) -> Iterator[Finding]:
    """Check whether the supervisor had to start the plugin again, and whether an old one runs."""
    facts = read_plugin_file(host.path(str(plugin_file_of(Path(state_file)))))
    if facts is None:
        return
    if is_running and facts.version != VERSION:
        text = f"runs {facts.version}, installed {VERSION}"
        remedy = "restart the plugin, or the runtime that launches it"
        yield Finding("version", Verdict.WARN, text, remedy)
    if facts.mode is StartMode.RESTARTED:
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
