"""Whether the memory policies of containers can be set on this host.

The kernel must have the mode. Two parts of the runtime must support policies: its NRI, which drops
an unknown field silently, and the OCI runtime of a pod's handler, which ignores an unknown key
silently. The first one sends its version in Configure. The second one is a program whose features
another thread reads, at the start and again at each Configure, since an upgrade of the program
usually restarts the runtime.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

from nri_numamem.engine.core.facts import PolicySupport
from nri_numamem.host.memory_policies import (
    PROGRAMS,
    FeaturesError,
    find_program,
    missing_modes,
    read_policy_modes,
)
from nri_numamem.host.roots import HostRoots
from nri_numamem.nri.configuration import Configuration
from nri_numamem.numa import MemoryPolicies, PolicyMode
from nri_numamem.observe.threads import start_thread

DEFAULT_HANDLER = "default"
"""The name in `memoryPolicy.runtimes` of pods without a RuntimeClass."""

# By the kernel's names, as in the output of `features`.
_MODES = frozenset(f"MPOL_{mode.name}" for mode in PolicyMode)
_LIST_IT = "list the handler in memoryPolicy.runtimes if its OCI runtime sets policies"


class MemoryPolicySupport:
    """What is known of kernel and runtime, where the settings allow a policy.

    `find` and `read` are of ``host.memory_policies``.
    """

    def __init__(
        self,
        roots: HostRoots,
        policies: MemoryPolicies,
        find: Callable[[str], Path | None] = find_program,
        read: Callable[[Path], frozenset[str]] = read_policy_modes,
    ) -> None:
        self._find = find
        self._read = read
        self._policies = policies
        self._configuration: Configuration | None = None
        self._obstacles = {name: f"the features of {name} are not known yet" for name in PROGRAMS}
        """OCI runtime -> why it cannot set policies, "" if it can."""
        self._missing_modes = missing_modes(roots)
        self._thread: Thread | None = None
        self._must_read_again = False
        """Whether no thread or no process could be started for the last read."""
        self._read_features()

    def configured(self, configuration: Configuration) -> None:
        """Take note of the runtime, and read the features again."""
        self._configuration = configuration
        self._read_features()

    def of_handler(self, handler: str) -> PolicySupport:
        """Return what is supported for a pod with this runtime handler."""
        if self._must_read_again:
            self._read_features()
        return PolicySupport(self._obstacle(handler), self._missing_modes)

    def _obstacle(self, handler: str) -> str:
        runtime = self._configuration
        if runtime is None or not runtime.supports_memory_policy:
            version = (runtime and runtime.nri_version) or "of an unknown version before 0.12"
            return f"the container runtime's NRI is {version}; policies need 0.12 or newer"
        if self._policies.runtimes is None:
            return self._obstacle_of_program(handler, runtime.runtime_name)
        if (handler or DEFAULT_HANDLER) in self._policies.runtimes:
            return ""
        return f"memoryPolicy.runtimes does not list the handler {handler or DEFAULT_HANDLER}"

    def wait(self) -> None:
        """Wait until the features are read; for tests."""
        if self._thread is not None:
            self._thread.join()

    def _obstacle_of_program(self, handler: str, runtime_name: str) -> str:
        program = handler or ("crun" if runtime_name == "cri-o" else "runc")
        if program not in PROGRAMS:
            return f"the OCI runtime of the handler {handler} is not known; {_LIST_IT}"
        return self._obstacles[program]

    def _read_features(self) -> None:
        is_reading = self._thread is not None and self._thread.is_alive()
        if is_reading or self._policies.runtimes is not None:
            return
        try:
            self._thread = start_thread(self._read_all, "OCI runtime features")
        except OSError:
            self._must_read_again = True

    def _read_all(self) -> None:
        self._must_read_again = False
        for name in PROGRAMS:
            self._obstacles[name] = self._obstacle_by_features(name)

    def _obstacle_by_features(self, name: str) -> str:
        program = self._find(name)
        if program is None:
            return f"the plugin does not find {name}; {_LIST_IT}"
        try:
            modes = self._read(program)
        except FeaturesError as error:
            self._must_read_again = self._must_read_again or error.is_shortage
            return f"{error}; {_LIST_IT}"
        if not modes:
            return f"{program} sets no memory policies; runc does since 1.4, crun since 1.24"
        missing = sorted(_MODES - modes)
        return f"{program} lacks {', '.join(missing)}" if missing else ""
