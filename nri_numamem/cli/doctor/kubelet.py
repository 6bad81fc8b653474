"""Checks of the kubelet: its own resource managers, and the sum of reserved memory."""

from collections.abc import Iterator, Mapping

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_files import Host, UnreadableError
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.config.strict_yaml import line_of, parse
from nri_numamem.engine.core.policy import STATIC

_FILE = "/var/lib/kubelet/config.yaml"
_STRICT = ("restricted", "single-numa-node")


def check_kubelet(host: Host, settings: Settings | None) -> Iterator[Finding]:
    """Check the kubelet's configuration beside the plugin's settings, if these are valid."""
    try:
        text = host.read(_FILE)
        if text is None:
            remedy = "name the kubelet's file in kubeletConfigFile if it is elsewhere"
            yield Finding("kubelet", Verdict.UNKNOWN, f"{_FILE} does not exist", remedy)
            return
        root, document = parse(text, _FILE)
    except (UnreadableError, UsageError) as error:
        yield Finding("kubelet", Verdict.UNKNOWN, str(error), "run as root, and correct the file")
        return
    document = document if isinstance(document, Mapping) else {}
    manager = str(document.get("memoryManagerPolicy", "None"))
    if manager == STATIC and (settings is None or settings.memory_manager_policy == STATIC):
        line = line_of(root, ("memoryManagerPolicy",))
        text = f"{_FILE}:{line}: memoryManagerPolicy is Static, as the plugin's is"
        remedy = "set None, drain the node, delete the kubelet's memory_manager_state, restart it"
        yield Finding("kubelet_memory_manager", Verdict.FAIL, text, remedy)
    else:
        text = f"{_FILE}: memoryManagerPolicy is {manager}"
        yield Finding("kubelet_memory_manager", Verdict.OK, text)
    policy = "best-effort" if settings is None else settings.topology_manager_policy
    if document.get("cpuManagerPolicy") == "static" and policy in _STRICT:
        line = line_of(root, ("cpuManagerPolicy",))
        text = f"{_FILE}:{line}: cpuManagerPolicy is static, and the plugin's policy is {policy}"
        remedy = "CPUs are chosen first, so more pods are refused; see docs/limits.md"
        yield Finding("kubelet_cpu_manager", Verdict.WARN, text, remedy)
