"""Checks of the machine: cgroups, NUMA nodes, the configuration for it."""

import re
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_arguments import LAUNCHED_CONFIGS, config_files
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import DEFAULT_CONFIG, load_file
from nri_numamem.config.policy import context_of
from nri_numamem.config.settings import Settings
from nri_numamem.host.sysfs import MachineError, node_directories
from nri_numamem.host.topology import read_machine
from nri_numamem.numa import Machine, NodeSet, humanize_bytes

_CONTROLLERS = ("cpuset", "memory", "hugetlb")
_MEMS_ALLOWED = re.compile(r"^Mems_allowed_list:\s*(\S+)$", re.ASCII | re.MULTILINE)


def check_cgroups(host: Host) -> Finding:
    """Check the version of the cgroup file system and its controllers."""
    name = "/sys/fs/cgroup/cgroup.controllers"
    try:
        text = host.read(name)
    except UnreadableError as error:
        return Finding("cgroups", Verdict.UNKNOWN, str(error), "run as root")
    if text is None:
        remedy = "boot with systemd.unified_cgroup_hierarchy=1; without it pods whose end is not "
        remedy += "reported are found late"
        return Finding("cgroups", Verdict.WARN, f"{name} is missing: no cgroup v2", remedy)
    missing = [controller for controller in _CONTROLLERS if controller not in text.split()]
    if "cpuset" in missing:
        remedy = "the kernel needs CONFIG_CPUSETS; without it no memory can be pinned"
        return Finding("cgroups", Verdict.FAIL, f"{name} lacks cpuset", remedy)
    if missing:
        text = f"{name} lacks {', '.join(missing)}"
        remedy = "limits of these resources have no effect; check the kernel's configuration"
        return Finding("cgroups", Verdict.WARN, text, remedy)
    return Finding("cgroups", Verdict.OK, f"cgroup v2 with {', '.join(_CONTROLLERS)}")


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
            if machine is not None:
                context_of(settings, machine)
        except UsageError as error:
            remedy = "the plugin does not start with it; correct it, then: nri-numamem config check"
            findings.append(Finding("configuration", Verdict.FAIL, str(error), remedy))
            settings = None
            continue
        findings.append(Finding("configuration", Verdict.OK, f"{name} is valid for this machine"))
        findings += [
            Finding("configuration", Verdict.WARN, f"{name}: {note}", "see docs/configuration.md")
            for note in settings.notes
        ]
    return tuple(findings), settings
