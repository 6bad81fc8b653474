"""Records of containers whose memory is on no NUMA node of their CPUs or of a device."""

from nri_numamem.engine.core.candidates import Choice, reason_in
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import Fields, container_fields, provider_hints
from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.core.providers import CPU, DEVICES, NETWORK, OtherProviders
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet

ADOPTED = "adopted"
"""The cause where the plugin did not choose the nodes."""


def misaligned(
    choice: Choice, pod: PodSandbox, container: Container, remote: OtherProviders
) -> Record:
    """Record a container that was placed away from `remote`, a part of its CPUs and devices."""
    causes: dict[str, RecordValue] = {}
    if remote.cpu is not None:
        causes[CPU] = reason_in(choice, remote.cpu).rule.value
    if remote.devices:
        causes[DEVICES] = reason_in(choice, remote.devices[0]).rule.value
    if remote.interfaces:
        causes[NETWORK] = reason_in(choice, remote.interfaces[0].nodes).rule.value
    nodes = choice.nodes or NodeSet()
    return _record(pod, container, nodes, remote, causes)


def found_misaligned(
    pod: PodSandbox, container: Container, nodes: NodeSet, remote: OtherProviders
) -> Record:
    """Record a container that already has nodes away from `remote`."""
    causes = dict.fromkeys(provider_hints(remote), ADOPTED)
    return _record(pod, container, nodes, remote, dict(causes))


def _record(
    pod: PodSandbox,
    container: Container,
    nodes: NodeSet,
    remote: OtherProviders,
    causes: dict[str, RecordValue],
) -> Record:
    fields: Fields = {
        **container_fields(pod, container),
        "nodes": str(nodes),
        "misaligned": provider_hints(remote),
        "causes": causes,
    }
    return Record(EventName.MISALIGNED, fields)
