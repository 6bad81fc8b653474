"""Records of network interfaces as hints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.facts import NetworkRequest
from nri_numamem.engine.core.fields import container_names, interface_nodes
from nri_numamem.engine.records.common import WARNED_BEFORE, Cause, ContainerNames
from nri_numamem.engine.records.record import AlternateLevel, Flat, Level, Record, event
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Flat):
    """A container, and the network interfaces of it and of its pod."""

    names: ContainerNames
    interfaces: Annotated[
        Mapping[str, NodeSet],
        "NUMA node of each network interface, by name; empty if it has no hardware or its node is "
        "unknown",
    ]


@event("network_hints_found", kept=True)
class NetworkHintsFound(Record):
    """A container is created, and the NUMA nodes of network interfaces count as hints."""

    found: Found


@event("network_hints_disabled", Level.DEBUG, kept=True)
class NetworkHintsDisabled(Record):
    """A container is created without hints of its network interfaces, because the pod's
    annotation switches them off.
    """

    found: Found


@event(
    "network_namespaces_closed",
    Level.WARNING,
    remedy="see `cause`; nri-numamem doctor has the drop-in file of the systemd unit. A helper "
    "starts only with the plugin",
    kept=True,
)
class NetworkNamespacesClosed(Record):
    """The setting networkHints is on, but the plugin cannot read the network namespaces of pods:
    it lacks the capability CAP_SYS_ADMIN, or its helper process did not start or has ended.
    Only network devices that the OCI runtime moves into a container count as hints.
    """

    cause: Cause


@event(
    "network_hints_incomplete",
    Level.WARNING,
    alternate=AlternateLevel(Level.DEBUG, WARNED_BEFORE),
    remedy="see `cause`; `nri-numamem doctor` checks what the setting networkHints needs",
    kept=True,
)
class NetworkHintsIncomplete(Record):
    """A container is created without hints of some or all of its network interfaces."""

    found: Found
    cause: Cause


def found(request: CreateContainer, network: NetworkRequest) -> Found:
    """Return what records show of a container and its network interfaces."""
    names = container_names(request.pod, request.container)
    return Found(names=names, interfaces=interface_nodes(network.interfaces))
