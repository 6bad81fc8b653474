"""Checks of memory policies, where they are switched on: kernel and OCI runtimes."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_files import Host
from nri_numamem.config.settings import Settings
from nri_numamem.host.memory_policies import (
    PROGRAMS,
    FeaturesError,
    find_program,
    missing_modes,
    read_policy_modes,
)
from nri_numamem.host.roots import HostRoots

_CHECK = "memory_policies"
_REMEDY = "use runc 1.4 or crun 1.24, or newer; see docs/memory-policies.md"


def check_memory_policies(
    host: Host,
    settings: Settings | None,
    find: Callable[[str], Path | None] = find_program,
    read: Callable[[Path], frozenset[str]] = read_policy_modes,
) -> Iterator[Finding]:
    """Check what the settings allow; `find` and `read` are those of ``host.memory_policies``."""
    if settings is None or not settings.memory_policies.is_active:
        return
    policies = settings.memory_policies
    roots = HostRoots(host.path("/sys"), host.path("/proc"), host.path("/sys/fs/cgroup"))
    missing = missing_modes(roots) & {*policies.modes, *policies.defaults.values()}
    if missing:
        text = f"the kernel lacks the modes {', '.join(sorted(missing))} of memoryPolicy"
        yield Finding(_CHECK, Verdict.WARN, text, "remove them, or use a newer kernel")
    if policies.runtimes is not None:
        listed = ", ".join(policies.runtimes) or "none"
        text = f"memoryPolicy.runtimes lists the handlers {listed}, which are not checked"
        yield Finding(_CHECK, Verdict.OK, text)
    elif not host.is_this_host:
        text = "OCI runtimes below another root are not executed"
        yield Finding(_CHECK, Verdict.UNKNOWN, text, "run this on the host")
    else:
        yield from _check_programs(find, read)


def _check_programs(
    find: Callable[[str], Path | None], read: Callable[[Path], frozenset[str]]
) -> Iterator[Finding]:
    programs = [program for name in PROGRAMS if (program := find(name)) is not None]
    if not programs:
        remedy = "list the handlers in memoryPolicy.runtimes whose OCI runtime sets policies"
        text = f"the plugin finds neither {' nor '.join(PROGRAMS)}, so it sets no policies"
        yield Finding(_CHECK, Verdict.WARN, text, remedy)
    for program in programs:
        try:
            sets_policies = bool(read(program))
        except FeaturesError as error:
            yield Finding(_CHECK, Verdict.WARN, str(error), _REMEDY)
            continue
        if sets_policies:
            yield Finding(_CHECK, Verdict.OK, f"{program} sets memory policies")
        else:
            text = f"{program} sets no memory policies"
            yield Finding(_CHECK, Verdict.WARN, text, _REMEDY)
