"""The host's CPUs were read: isolated CPUs, and the policy of the kubelet's CPU manager."""

from dataclasses import replace

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import HostCpusRead
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.cpus import CpusFollowMemory, CpusLeftToKubelet
from nri_numamem.engine.records.record import Record


def host_cpus_read(context: Context, state: EngineState, event: HostCpusRead) -> Transition:
    """Return the context with these CPUs, and a record if the kubelet's policy makes a change."""
    if event.cpus == context.host_cpus:
        return Transition(state)
    after = replace(context, host_cpus=event.cpus)
    found: tuple[Record, ...] = ()
    if after.follows_cpus != context.follows_cpus:
        found = (CpusLeftToKubelet() if context.follows_cpus else CpusFollowMemory(),)
    return Transition(state, found, after)
