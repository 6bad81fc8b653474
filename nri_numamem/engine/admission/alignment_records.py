"""Records of containers whose memory is on no NUMA node of their CPUs or of a device."""

from collections.abc import Mapping

from nri_numamem.engine.core.candidates import Choice, reason_in
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import container_names, provider_hints
from nri_numamem.engine.core.providers import CPU, DEVICES, NETWORK, OtherProviders
from nri_numamem.engine.records.containers import Misaligned
from nri_numamem.numa import NodeSet

ADOPTED = "adopted"
"""The cause where the plugin did not choose the nodes."""


def misaligned(
    choice: Choice, pod: PodSandbox, container: Container, remote: OtherProviders
) -> Misaligned:
    """Record a container that was placed away from `remote`, a part of its CPUs and devices."""
    causes = {name: reason_in(choice, nodes).rule.value for name, nodes in _first(remote).items()}
    return _record(pod, container, choice.nodes or NodeSet(), remote, causes)


def found_misaligned(
    pod: PodSandbox, container: Container, nodes: NodeSet, remote: OtherProviders
) -> Misaligned:
    """Record a container that already has nodes away from `remote`."""
    return _record(pod, container, nodes, remote, dict.fromkeys(_first(remote), ADOPTED))


def _first(remote: OtherProviders) -> dict[str, NodeSet]:
    """Return the provider's name -> its nodes, those of its first device or interface."""
    found = {} if remote.cpu is None else {CPU: remote.cpu}
    if remote.devices:
        found[DEVICES] = remote.devices[0]
    if remote.interfaces:
        found[NETWORK] = remote.interfaces[0].nodes
    return found


def _record(
    pod: PodSandbox,
    container: Container,
    nodes: NodeSet,
    remote: OtherProviders,
    causes: Mapping[str, str],
) -> Misaligned:
    return Misaligned(
        names=container_names(pod, container),
        nodes=nodes,
        misaligned=provider_hints(remote),
        causes=causes,
    )
