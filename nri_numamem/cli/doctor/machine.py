"""Checks of the machine: cgroups, NUMA nodes, the configuration, hugepages, memory policies.

Hugepages that are used outside of pods are not available to pods.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_arguments import LAUNCHED_CONFIGS, config_files, roots_of
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.live.collect import collect_accounting, with_hugepage_users
from nri_numamem.cli.live.outside import OutsideUse, outside_uses
from nri_numamem.cli.render.texts import left_out_text, partition_text
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG, load_file
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.features.partitions.layouts import partitions_on
from nri_numamem.host.memory_policies import (
    PROGRAMS,
    FeaturesError,
    find_program,
    missing_modes,
    read_policy_modes,
)
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError, node_directories
from nri_numamem.host.topology import read_machine
from nri_numamem.numa import Machine, MemoryNodesError, NodeSet, classify, humanize_bytes

# Before Linux 7.0 demotion may leave `cpuset.mems` (commit 1aceed565ff1).
_DEMOTION = "/sys/kernel/mm/numa/demotion_enabled"
_DEMOTION_FIXED = 7
_TRUE = ("true", "1")
_MAJOR = re.compile(r"\d{1,4}", re.ASCII)

_CONTROLLERS = ("cpuset", "memory", "hugetlb")
_MEMS_ALLOWED = re.compile(r"^Mems_allowed_list:\s*(\S+)$", re.ASCII | re.MULTILINE)


@reads_files("cgroups")
def check_cgroups(host: Host) -> Iterator[Finding]:
    """Check the version of the cgroup file system and its controllers."""
    name = "/sys/fs/cgroup/cgroup.controllers"
    text = host.read(name)
    missing = [controller for controller in _CONTROLLERS if controller not in (text or "").split()]
    if text is None:
        remedy = (
            "boot with systemd.unified_cgroup_hierarchy=1; without cgroup v2 the plugin learns "
        )
        remedy += "late about the end of a pod that the runtime does not report"
        yield Finding("cgroups", Verdict.WARN, f"{name} is missing: no cgroup v2", remedy)
    elif "cpuset" in missing:
        remedy = "the kernel needs CONFIG_CPUSETS; without it no memory can be pinned"
        yield Finding("cgroups", Verdict.FAIL, f"{name} lacks cpuset", remedy)
    elif missing:
        text = f"{name} lacks {', '.join(missing)}"
        remedy = "limits of these resources have no effect; check the kernel's configuration"
        yield Finding("cgroups", Verdict.WARN, text, remedy)
    else:
        yield Finding("cgroups", Verdict.OK, f"cgroup v2 with {', '.join(_CONTROLLERS)}")


def check_nodes(host: Host) -> tuple[Finding, Machine | None]:
    """Check that sysfs shows the NUMA nodes; return the machine too if it can be read."""
    sysfs = host.path("/sys")
    try:
        machine = read_machine(sysfs, host.path("/proc"))
        shown = NodeSet(node_directories(sysfs))
        status = host.read("/proc/self/status") or ""
    except (MachineError, UnreadableError) as error:
        finding = Finding("numa", Verdict.FAIL, str(error), "mount the host's sysfs and procfs")
        return finding, None
    allowed = _MEMS_ALLOWED.search(status)
    if not shown and allowed and allowed[1] != "0":
        text = f"sysfs shows no NUMA nodes, and the kernel allows memory of nodes {allowed[1]}"
        remedy = "mount the host's sysfs, with devices/system/node"
        return Finding("numa", Verdict.FAIL, text, remedy), machine
    total = humanize_bytes(sum(node.memory_bytes for node in machine.nodes))
    if len(machine.nodes) == 1:
        text = f"one NUMA node with {total}"
        remedy = "there is nothing to align; look for NPS, SNC or NUMA in the firmware's settings"
        return Finding("numa", Verdict.WARN, text, remedy), machine
    return Finding("numa", Verdict.OK, f"NUMA nodes {machine.node_set}, {total}"), machine


@reads_files("excluded_nodes")
def check_excluded_nodes(
    host: Host, settings: Settings | None, machine: Machine | None
) -> Iterator[Finding]:
    """Check for nodes on which nothing is placed, and whether the kernel moves memory there."""
    if settings is None or machine is None:
        return
    try:
        excluded = classify(machine, settings.memory_nodes).excluded
    except MemoryNodesError:
        return  # an error of the configuration
    if not excluded:
        return
    size = humanize_bytes(sum(n.memory_bytes for n in machine.nodes if n.node_id in excluded))
    yield Finding("excluded_nodes", Verdict.OK, f"{left_out_text(excluded)} ({size})")
    release = host.kernel_release()
    major = _MAJOR.match(release)
    is_fixed = major is not None and int(major[0]) >= _DEMOTION_FIXED
    if not is_fixed and (host.read(_DEMOTION) or "").strip() in _TRUE:
        where = f"pages of pinned containers to {format_nodes(excluded)}"
        text = f"the kernel {release or 'of this host'} may move {where}"
        remedy = f"echo false > {_DEMOTION}, or use Linux {_DEMOTION_FIXED}.0 or newer"
        yield Finding("demotion", Verdict.WARN, text, remedy)


def check_configuration(
    host: Host, machine: Machine | None, given: Path | None = None
) -> tuple[tuple[Finding, ...], Settings | None]:
    """Check the plugin's configuration for the machine; return the settings if they are valid.

    `given` is a path on the host, in place of the files that the plugin reads by default.
    """
    files = [given.absolute()] if given else config_files(host.root)
    if not files:
        text = f"neither {DEFAULT_CONFIG} nor a file in {LAUNCHED_CONFIGS} exists: all defaults"
        return (Finding("configuration", Verdict.OK, text),), Settings()
    findings: list[Finding] = []
    settings = None
    for name in map(str, files):
        try:
            settings = load_file(host.path(name), root=host.root)
            unusable = _unusable_partitions(name, settings, machine)
        except UsageError as error:
            remedy = "the plugin does not start with it; correct it, then: nri-numamem config check"
            findings.append(Finding("configuration", Verdict.FAIL, str(error), remedy))
            settings = None
            continue
        findings.append(Finding("configuration", Verdict.OK, f"{name} is valid for this machine"))
        findings += [
            Finding(
                "configuration",
                Verdict.WARN,
                f"{name}: {note}",
                "see nri-numamem config check",
            )
            for note in settings.notes
        ]
        findings += unusable
    return tuple(findings), settings


def _unusable_partitions(name: str, settings: Settings, machine: Machine | None) -> list[Finding]:
    """Return a finding for each partition that the machine lacks; UsageError as context_of()."""
    if machine is None:
        return []
    remedy = "its pods are refused, or run unpinned (whenUnsatisfiable); correct partitions"
    return [
        Finding("partitions", Verdict.FAIL, f"{name}: {partition_text(each)}", remedy)
        for each in partitions_on(context_of(settings, machine))
        if each.problem
    ]


def check_hugepages(host: Host, config: Path | None, state_file: str | None) -> Iterator[Finding]:
    """Check the kernel's pools against the accounting of the plugin that runs.

    Without a plugin, state or pools there is nothing to compare; other checks report that.
    """
    args = argparse.Namespace(root=host.root, config=config, state_file=state_file)
    try:
        facts = collect_accounting(args)
    except UsageError:
        return
    use = facts.pool_use
    if facts.holder is None or facts.state is None or use is None:
        return
    if any(outside_uses(facts)):
        facts = with_hugepage_users(facts, roots_of(args))
        for found in outside_uses(facts):
            yield Finding("hugepages", Verdict.WARN, found.text, _remedy(found))
    elif any(use.pools.values()):
        yield Finding("hugepages", Verdict.OK, "no hugepages are used outside of pods")


def _remedy(use: OutsideUse) -> str:
    if not use.nodes:
        return "end the programs that reserve them, or add as many to reservedMemory"
    size = humanize_bytes(use.size_bytes)
    more = f"{size} of {use.resource} on {use.where}"
    return f"pods cannot get them: end the programs that use them, or add {more} to reservedMemory"


_POLICIES = "memory_policies"
_POLICIES_REMEDY = "use runc 1.4 or crun 1.24, or newer"


def check_memory_policies(
    host: Host,
    settings: Settings | None,
    find: Callable[[str], Path | None] = find_program,
    read: Callable[[Path], frozenset[str]] = read_policy_modes,
) -> Iterator[Finding]:
    """Check that memory policies can be set; `find` and `read` are of ``host.memory_policies``."""
    if settings is None or not settings.memory_policies.is_active:
        return
    policies = settings.memory_policies
    roots = HostRoots(host.path("/sys"), host.path("/proc"), host.path("/sys/fs/cgroup"))
    missing = missing_modes(roots) & {*policies.modes, *policies.defaults.values()}
    if missing:
        text = f"the kernel lacks the modes {', '.join(sorted(missing))} of memoryPolicy"
        yield Finding(_POLICIES, Verdict.WARN, text, "remove them, or use a newer kernel")
    if policies.runtimes is not None:
        listed = ", ".join(policies.runtimes) or "none"
        text = f"memoryPolicy.runtimes lists the handlers {listed}, which are not checked"
        yield Finding(_POLICIES, Verdict.OK, text)
    elif not host.is_this_host:
        text = "OCI runtimes below another root are not executed"
        yield Finding(_POLICIES, Verdict.UNKNOWN, text, "run this on the host")
    else:
        yield from _check_programs(find, read)


def _check_programs(
    find: Callable[[str], Path | None], read: Callable[[Path], frozenset[str]]
) -> Iterator[Finding]:
    programs = [program for name in PROGRAMS if (program := find(name)) is not None]
    if not programs:
        remedy = "list in memoryPolicy.runtimes the handlers whose OCI runtime sets policies"
        text = f"the plugin finds neither {' nor '.join(PROGRAMS)}, so it sets no policies"
        yield Finding(_POLICIES, Verdict.WARN, text, remedy)
    for program in programs:
        try:
            sets_policies = bool(read(program))
        except FeaturesError as error:
            yield Finding(_POLICIES, Verdict.WARN, str(error), _POLICIES_REMEDY)
            continue
        if sets_policies:
            yield Finding(_POLICIES, Verdict.OK, f"{program} sets memory policies")
        else:
            text = f"{program} sets no memory policies"
            yield Finding(_POLICIES, Verdict.WARN, text, _POLICIES_REMEDY)
