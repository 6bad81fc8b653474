"""Checks of the container runtime: NRI, its time limits, its plugin directory; of the kubelet.

Nothing connects to the NRI socket: a connection that does not register makes the runtime wait.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from nri_numamem.cli.doctor.findings import Finding, Verdict, reads_files
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.cli.installation.systemd import is_enabled
from nri_numamem.cli.runtimes import (
    CONTAINERD,
    CRIO,
    Runtime,
    executables,
    is_listening,
    is_plugin_name,
    runtimes,
)
from nri_numamem.config.documents import line_of, parse
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.policy import STATIC
from nri_numamem.host.containers import process_start

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)", re.ASCII)
_BOOT = re.compile(r"^btime (\d+)$", re.ASCII | re.MULTILINE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
# NRI's defaults; on a busy host a reply may take longer than less.
_LEAST_S = {"plugin_registration_timeout": 5.0, "plugin_request_timeout": 2.0}


@reads_files("runtime", "run as root, and correct the file if the runtime refuses it too")
def check_runtimes(host: Host) -> Iterator[Finding]:
    """Check the configuration of each runtime, its socket and its plugin directory."""
    found = runtimes(host)
    if not found:
        text = f"neither {CONTAINERD} nor {CRIO} exists; the runtime's defaults are assumed"
        yield Finding("runtime", Verdict.OK, text)
        found = (Runtime("the runtime", "its configuration", {}),)
    for runtime in found:
        yield _check_socket(host, runtime)
        yield from _check_timeouts(runtime)
        if runtime.hides_hugepages:
            text = f"{runtime.name} hides the hugepage limits of containers, so the plugin uses "
            text += "the pod's sum; disable_hugetlb_controller = false shows each container's"
            yield Finding("hugepage_limits", Verdict.OK, text)
        yield from _check_plugin_directory(host, runtime)


def _check_socket(host: Host, runtime: Runtime) -> Finding:
    if runtime.enabled is False:
        remedy = "nri-numamem install --enable-nri, or enable it there and restart the runtime"
        return Finding("nri", Verdict.FAIL, f"{runtime.file} disables NRI", remedy)
    listening = is_listening(host, runtime)
    if listening is None:
        text = f"cannot tell whether {runtime.socket} exists: /proc/net/unix cannot be read"
        return Finding("nri", Verdict.UNKNOWN, text, "run as root on the host")
    if listening:
        return Finding("nri", Verdict.OK, f"{runtime.name} listens on {runtime.socket}")
    remedy = "start the runtime, and enable NRI in its configuration (off by default before "
    remedy += "containerd 2.0 and CRI-O 1.30)"
    return Finding("nri", Verdict.FAIL, f"nothing listens on {runtime.socket}", remedy)


def _check_timeouts(runtime: Runtime) -> Iterator[Finding]:
    for key, least_s in _LEAST_S.items():
        value = runtime.nri.get(key)
        match = _DURATION.fullmatch(str(value)) if value is not None else None
        if match and float(match[1]) * _SECONDS[match[2]] < least_s:
            text = f"{runtime.file}: {key} is {value}, below the default of {least_s:.0f}s"
            remedy = "a plugin that answers later is disconnected; use the default"
            yield Finding("nri_timeouts", Verdict.WARN, text, remedy)


@reads_files("plugin_directory")
def _check_plugin_directory(host: Host, runtime: Runtime) -> Iterator[Finding]:
    """Check the names of launched plugins: one bad name keeps the runtime from starting."""
    directory = runtime.plugin_path
    names = executables(host, directory)
    bad = [name for name in names if not is_plugin_name(name)]
    for name in bad:
        text = f"{directory}/{name} is executable and its name does not begin with two digits and -"
        remedy = "the runtime does not start with it: rename or move it before the next restart"
        yield Finding("plugin_directory", Verdict.FAIL, text, remedy)
    yield from _check_copies(host, runtime, names)
    if not bad:
        listed = ", ".join(names) or "no plugin"
        yield Finding("plugin_directory", Verdict.OK, f"{directory}: {listed}")


def _check_copies(host: Host, runtime: Runtime, names: Iterable[str]) -> Iterator[Finding]:
    directory = runtime.plugin_path
    launched = [f"{directory}/{name}" for name in names if "numamem" in name]
    starts = [*launched, *(["the service nri-numamem"] if is_enabled(host) else [])]
    if not starts:
        text = f"no link in {directory}, and the service nri-numamem is not enabled"
        yield Finding("instances", Verdict.WARN, text, "start it one way: nri-numamem install")
    elif len(starts) > 1:
        text = f"the plugin is started in {len(starts)} ways: {', '.join(starts)}"
        remedy = "keep one: remove the link, or systemctl disable --now nri-numamem"
        yield Finding("instances", Verdict.FAIL, text, remedy)
    elif launched and not _exists(host, launched[0]):
        text = f"{launched[0]} is a link to a file that does not exist"
        remedy = "install the program again, or remove the link"
        yield Finding("instances", Verdict.FAIL, text, remedy)
    elif launched and _is_newer(host, launched[0], runtime.service):
        text = (
            f"{launched[0]} is newer than the process of {runtime.service}, which starts plugins "
        )
        text += "only when it starts itself"
        yield Finding("instances", Verdict.WARN, text, f"systemctl restart {runtime.service}")
    else:
        yield Finding("instances", Verdict.OK, f"started as {starts[0]}")


def _is_newer(host: Host, name: str, program: str) -> bool:
    """Return whether a link or file was made after every process of a program started."""
    made_s = host.entry(name).lstat().st_mtime
    starts_s = _starts_s(host, program)
    return bool(starts_s) and made_s > max(starts_s)


def _starts_s(host: Host, program: str) -> list[float]:
    """Return the Unix times at which the processes of a program started; empty if unknown.

    Source: proc_stat(5), btime, which has full seconds.
    """
    boot = _BOOT.search(host.read("/proc/stat") or "")
    if boot is None:
        return []
    proc, ticks = host.path("/proc"), os.sysconf("SC_CLK_TCK")
    pids = [int(name) for name in host.names("/proc") if name.isascii() and name.isdecimal()]
    named = [pid for pid in pids if (host.read(f"/proc/{pid}/comm") or "").strip() == program]
    return [int(boot[1]) + 1 + process_start(proc, pid) / ticks for pid in named]


def _exists(host: Host, name: str) -> bool:
    """Return whether a file, or the target of a link below the host's root, exists."""
    path = host.path(name)
    if path.is_symlink() and path.readlink().is_absolute():
        path = host.path(str(path.readlink()))
    return path.exists()


_KUBELET = "/var/lib/kubelet/config.yaml"
_STRICT_POLICIES = ("restricted", "single-numa-node")


def check_kubelet(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check the kubelet's configuration beside the plugin's settings, if these are valid."""
    try:
        text = host.read(_KUBELET)
        if text is None:
            remedy = "name the kubelet's file in kubeletConfigFile if it is elsewhere"
            yield Finding("kubelet", Verdict.UNKNOWN, f"{_KUBELET} does not exist", remedy)
            return
        root, document = parse(text, _KUBELET)
    except (UnreadableError, UsageError) as error:
        yield Finding("kubelet", Verdict.UNKNOWN, str(error), "run as root, and correct the file")
        return
    document = document if isinstance(document, Mapping) else {}
    manager = str(document.get("memoryManagerPolicy", "None"))
    if manager == STATIC and (settings is None or settings.memory_manager_policy == STATIC):
        line = line_of(root, ("memoryManagerPolicy",))
        text = f"{_KUBELET}:{line}: memoryManagerPolicy is Static, as the plugin's is"
        remedy = (
            "kubectl cordon the node, set None, delete the kubelet's memory_manager_state, restart "
        )
        remedy += "the kubelet, uncordon; running containers keep their nodes"
        yield Finding("kubelet_memory_manager", Verdict.FAIL, text, remedy)
    else:
        text = f"{_KUBELET}: memoryManagerPolicy is {manager}"
        yield Finding("kubelet_memory_manager", Verdict.OK, text)
    policy = "best-effort" if settings is None else settings.topology_manager_policy
    if document.get("cpuManagerPolicy") == "static" and policy in _STRICT_POLICIES:
        line = line_of(root, ("cpuManagerPolicy",))
        text = f"{_KUBELET}:{line}: cpuManagerPolicy is static, and the plugin's policy is {policy}"
        remedy = "CPUs are chosen first, so more pods are refused; best-effort refuses fewer"
        yield Finding("kubelet_cpu_manager", Verdict.WARN, text, remedy)
