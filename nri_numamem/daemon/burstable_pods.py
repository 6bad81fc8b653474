"""What the decoder reads for containers of Burstable pods."""

from collections.abc import Callable, Mapping

from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.machine import MachineUnreadable
from nri_numamem.engine.records.record import Record
from nri_numamem.host.node_memory import read_available
from nri_numamem.host.roots import HostRoots
from nri_numamem.host.sysfs import MachineError
from nri_numamem.nri.burstable import BurstableReader
from nri_numamem.nri.configuration import Configuration


class BurstablePodsSupport:
    """Keeps the decoder's reader up to date. `emit` logs a record."""

    def __init__(
        self,
        roots: HostRoots,
        get_engine: Callable[[], Engine | None],
        emit: Callable[[Record], None],
    ) -> None:
        self._roots = roots
        self._get_engine = get_engine
        self._emit = emit
        self.reader = BurstableReader(available_memory=self.available_memory)

    def started(self, settings: Settings) -> None:
        """Begin with these settings."""
        self.reader.is_active = settings.burstable_pods.is_active

    def configured(self, configuration: Configuration) -> None:
        """Take note of the runtime."""
        self.reader.sets_oom_score_adj = configuration.supports_oom_score_adj

    def available_memory(self, pod: PodSandbox, container: Container) -> Mapping[int, int] | None:
        """Return NUMA node id -> free or reclaimable bytes, if the container may be pinned there.

        None if the setting does not require it, or if it cannot be read.
        """
        engine = self._get_engine()
        if engine is None or container.cpuset_mems:
            return None
        context = engine.context
        is_required = context.policy.burstable_pods.require_free_memory
        if not is_required or context.unmanaged_reason(pod, container) is not None:
            return None
        try:
            return read_available(self._roots.sysfs)
        except MachineError as error:
            self._emit(MachineUnreadable(error=str(error)))
            return None
