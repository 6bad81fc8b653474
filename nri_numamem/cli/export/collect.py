"""What the object shows: the plugin's state, the machine, cgroups, and the kubelet.

An input that cannot be read becomes one line with its effect and a remedy. Without the machine or
the plugin's state there is no object, because the zones would show memory that pods use.

The exporter compares a stamp each second to detect changes. The stamp consists of size, inode and
time of the files, the names of the pods' cgroups, and the counts of the hugepage pools; only the
files of the pools are read for it.
"""

import argparse
import os
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue

from nri_numamem.cli.export.kubelet import read_kubelet
from nri_numamem.cli.export.podevents import PodEvents
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.render.texts import format_time
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.context import Context
from nri_numamem.export.amounts import running_containers
from nri_numamem.export.conditions import Input, Problem
from nri_numamem.export.noderesourcetopology import (
    ZONE_LIMIT,
    Host,
    noderesourcetopology,
    nodes_without_zone,
    zone_nodes,
)
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.pods import counted_pods
from nri_numamem.export.resourceslice import resource_slice
from nri_numamem.exporter.loop import Reading
from nri_numamem.host.hugepages import PoolDirectories, read_pool_use
from nri_numamem.host.pod_cgroups import cpu_requests, guaranteed_pods, has_pod_cgroups, other_pods
from nri_numamem.host.pod_logs import pod_names
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.kubelet.cpu_state import FILE_NAME
from nri_numamem.numa import CpuSet, NodeSet
from nri_numamem.observe.files import reason_of
from nri_numamem.observe.plugin_file import plugin_file_of


@dataclass(frozen=True, slots=True)
class Collected:
    """What was read."""

    host: Host | None
    """None if there is no object."""
    problems: tuple[Problem, ...]
    files: tuple[Path, ...] = ()
    """The files that were read. They are replaced when their contents change."""
    state_file: Path | None = None
    """The plugin's."""


def collect(args: argparse.Namespace, node_name: str, reserved_cpus: CpuSet | None) -> Collected:
    """Return the host; `reserved_cpus` is None to take those of the kubelet's configuration.

    Raises UsageError if the settings, the state directory or the kubelet's configuration cannot be
    used.
    """
    facts = live.collect_accounting(args)
    state_file = Path(facts.state_file) if facts.state_file else None
    problems = list(_problems_of_plugin(facts))
    kubelet_config = Path(facts.settings.kubelet_config_file or args.kubelet_root / "config.yaml")
    cpu_file = args.kubelet_root / FILE_NAME
    files = (*_files_of_plugin(facts), kubelet_config, cpu_file, args.pod_logs)
    context, state = facts.context, facts.state
    missing = _reason_for_no_object(facts)
    if missing or context is None or state is None:
        return Collected(None, (*problems, Problem(Input.OBJECT, missing)), files, state_file)
    problems += _nodes_without_zone(context)
    cpus, resources = read_kubelet(args, kubelet_config, context, reserved_cpus, problems)
    host = Host(node_name, context, state, facts.pool_use, cpus, kubelet=resources)
    roots = roots_of(args)
    problem = f"{roots.cgroup} has no cgroup of pods (kubepods); mount the host's cgroups"
    try:
        if has_pod_cgroups(roots.cgroup):
            host, problem = _with_pods(host, roots, args.pod_logs, problems), ""
    except MachineError as error:
        problem = str(error)
    if problem:
        problems.append(Problem(Input.CGROUPS, f"no CPU requests and no fingerprint: {problem}"))
    return Collected(host, tuple(problems), files, state_file)


def _files_of_plugin(facts: Facts) -> tuple[Path, ...]:
    if not facts.state_file:
        return ()
    path = Path(facts.state_file)
    return path, plugin_file_of(path)


def _problems_of_plugin(facts: Facts) -> Iterator[Problem]:
    if facts.plugin_problem:
        text = "cannot read the running plugin's settings, using its configuration file: "
        yield Problem(Input.SETTINGS, text + facts.plugin_problem)
    if facts.holder is None and facts.changed_s is not None:
        when = format_time(facts.changed_s)
        text = f"no plugin runs: the object shows its state of {when}; start the plugin"
        yield Problem(Input.PLUGIN, text)
    if facts.context is not None and facts.machine_problem:
        text = (
            f"hugepages that are used outside of pods count as available: {facts.machine_problem}"
        )
        yield Problem(Input.HUGEPAGE_POOLS, text)


def _reason_for_no_object(facts: Facts) -> str:
    """Return why there is no object; "" if there is one."""
    if facts.context is None:
        return facts.machine_problem
    if not facts.context.is_static:
        return (
            "memoryManagerPolicy is None: the plugin places no container, so there is nothing to "
            "export; set it to Static, or use an exporter that reads the kubelet's PodResources"
        )
    if facts.state is None:
        remedy = "start the plugin, or name its state file with --state-file"
        return f"{facts.state_problem or f'{facts.state_file} does not exist'}; {remedy}"
    if not zone_nodes(facts.context):
        return (
            "no NUMA node that the plugin uses shows CPUs, and zones without `cpu` would make "
            "every Guaranteed pod unschedulable; mount the host's sysfs (--sysfs-root)"
        )
    return ""


def _nodes_without_zone(context: Context) -> Iterator[Problem]:
    missing = nodes_without_zone(context)
    too_high = NodeSet(node_id for node_id in missing if node_id >= ZONE_LIMIT)
    if too_high:
        yield Problem(
            Input.NODE_IDS,
            f"NUMA nodes {too_high} have no zone: the scheduler plugin supports node ids below "
            f"{ZONE_LIMIT}; pods are not scheduled for their memory",
        )
    if missing - too_high:
        yield Problem(
            Input.NODES_WITHOUT_CPUS,
            f"NUMA nodes {missing - too_high} have no zone: they have no CPUs; pods are not "
            "scheduled for their memory",
        )


def _with_pods(host: Host, roots: HostRoots, pod_logs: Path, problems: list[Problem]) -> Host:
    """Return the host with CPU requests and the names of its pods; raise MachineError."""
    requests = cpu_requests(roots.cgroup)
    known = {name: request for name, request in requests.items() if request is not None}
    pods = counted_pods(
        guaranteed_pods(roots.cgroup), other_pods(roots.cgroup), pod_names(pod_logs), host.state
    )
    host = replace(host, cpus=replace(host.cpus, requests=known))
    if host.cpus.exclusive is None:
        problems += _unknown_requests(running_containers(host.state), requests)
    if pods.unnamed:
        text = (
            f"no fingerprint: {pod_logs} has no directory of {len(pods.unnamed)} pods, such as "
            f"{pods.unnamed[0]}; mount the kubelet's podLogsDir, and name it with --pod-logs"
        )
        problems.append(Problem(Input.POD_NAMES, text))
        return host
    return replace(host, pods=pods.names)


def _unknown_requests(
    running: Collection[str], requests: Mapping[str, int | None]
) -> Iterator[Problem]:
    unknown = [name for name, request in requests.items() if request is None and name in running]
    if unknown:
        yield Problem(
            Input.CPU_QUOTAS,
            f"{len(unknown)} running containers count for no CPU, such as {min(unknown)}: their "
            "cgroups have no CPU quota; set cpuCFSQuota: true in the kubelet's configuration",
        )


class HostInputs:
    """Reads the host that the options name; `posted` has Events of other threads."""

    def __init__(
        self,
        args: argparse.Namespace,
        node_name: str,
        reserved_cpus: CpuSet | None,
        posted: SimpleQueue[PodEvent],
    ) -> None:
        self._posted = posted
        self._args = args
        self._node_name = node_name
        self._reserved_cpus = reserved_cpus
        self._roots = roots_of(args)
        self._files: tuple[Path, ...] = ()
        self._pod_events = PodEvents() if args.pod_events else None

    def stamp(self) -> Hashable:
        """Return a value that differs when something has changed."""
        return tuple(self._stamps())

    def read(self) -> Reading:
        """Return the object, None if there is none, and what is missing."""
        try:
            collected = collect(self._args, self._node_name, self._reserved_cpus)
        except UsageError as error:
            return Reading(None, (Problem(Input.OBJECT, str(error)),))
        self._files = collected.files
        host, problems = collected.host, collected.problems
        document = None if host is None else noderesourcetopology(host)
        of_claims = None if host is None or not self._args.claims else resource_slice(host)
        reading = Reading(document, problems, resource_slice=of_claims)
        if self._pod_events is None:
            return reading
        try:
            found = self._pod_events.read(collected.state_file)
            return replace(reading, events=(*found, *self._taken()))
        except OSError as error:
            text = f"no Events of pods: cannot read the history: {reason_of(error)}"
            return replace(reading, problems=(*problems, Problem(Input.HISTORY, text)))

    def _taken(self) -> Iterator[PodEvent]:
        """Yield the Events that other threads have posted."""
        while not self._posted.empty():
            yield self._posted.get()

    def _stamps(self) -> Iterator[Hashable]:
        yield tuple(map(_file_stamp, self._files))
        if self._pod_events is not None:
            yield tuple(map(_file_stamp, self._pod_events.files))
            yield self._posted.qsize()
        try:
            yield frozenset(guaranteed_pods(self._roots.cgroup))
            yield frozenset(other_pods(self._roots.cgroup))
            use = read_pool_use(PoolDirectories.find(self._roots.sysfs))
            yield tuple((node, *pools.items()) for node, pools in use.pools.items())
            yield tuple(use.rsvd.items())
        except MachineError as error:
            yield str(error)


def _file_stamp(path: Path) -> Hashable:
    try:
        found = os.stat(path)  # noqa: PTH116 - of a string, which Path.stat makes each time
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns
