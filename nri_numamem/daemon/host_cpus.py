"""Reads which CPUs are isolated, and the policy of the kubelet's CPU manager.

Only where the settings have CPUs follow memory: beside a static CPU manager, which sets the CPUs of
all containers, the setting has no effect. The kubelet may start with another policy at any time. A
state file that does not exist shows no policy: the kubelet did not start yet, has another
directory, or the plugin runs in a container without it. If the kubelet chose CPUs for a container,
the runtime reports them at its creation, and the plugin never changes them.
"""

from collections.abc import Callable, Iterable

from nri_numamem.engine.core.events import HostCpus
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.cpu_following.shared_cpus import may_follow
from nri_numamem.engine.records.cpus import KubeletCpuStateUnreadable
from nri_numamem.engine.records.record import Record
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_isolated_cpus
from nri_numamem.kubelet.cpu_state import FILE_NAME, CpuStateError, parse_cpu_state
from nri_numamem.observe.files import read_regular

# As the interval at which the kubelet's CPU manager compares its state with the containers.
READ_S = 10.0

# The state of a thousand containers with exclusive CPUs takes some 100 kB.
_STATE_LIMIT_BYTES = 16 << 20


class HostCpusMonitor:
    """A periodic job that passes what it reads to the engine."""

    name = "host CPUs"

    def __init__(self, roots: HostRoots, get_engine: Callable[[], Engine | None]) -> None:
        self._sysfs = roots.sysfs
        self._state_file = roots.kubelet / FILE_NAME
        self._get_engine = get_engine
        self._read_at_s: float | None = None
        self._stamp: tuple[int, ...] | None = None
        """Of the state file when it was read last."""
        self._policy = ""
        self._error = ""

    def due(self, now_s: float) -> bool:
        """Return whether READ_S seconds have passed, and the settings need it."""
        engine = self._get_engine()
        if engine is None or not may_follow(engine.context.policy):
            return False
        return self._read_at_s is None or now_s - self._read_at_s >= READ_S

    def run(self, now_s: float) -> Iterable[Record]:
        """Read the files; return the records."""
        self._read_at_s = now_s
        return self.read()

    def read(self) -> Iterable[Record]:
        """Read the files if the settings need it; return the records."""
        engine = self._get_engine()
        if engine is None or not may_follow(engine.context.policy):
            return ()
        try:
            cpus = HostCpus(read_isolated_cpus(self._sysfs), self._kubelet_policy())
        except (CpuStateError, MachineError, OSError) as error:
            return self._failed(error)
        self._error = ""
        if cpus == engine.context.host_cpus:
            return ()
        return engine.apply(cpus).records

    def _kubelet_policy(self) -> str:
        try:
            found = self._state_file.stat()
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._stamp:
                data = read_regular(self._state_file, _STATE_LIMIT_BYTES)
                self._policy, self._stamp = parse_cpu_state(data).policy, stamp
        except (FileNotFoundError, NotADirectoryError):
            self._policy, self._stamp = "", None
        return self._policy

    def _failed(self, error: Exception) -> Iterable[Record]:
        """Record an error once; what was read before stays in use."""
        text = str(error)
        if isinstance(error, CpuStateError):
            text = f"{self._state_file}: {text}"
        if text == self._error:
            return ()
        self._error = text
        return (KubeletCpuStateUnreadable(error=text),)
