"""What the host shows of memory policies and network interfaces, as plain values.

The decoder of requests adds them to events, if a setting needs them.
"""

from dataclasses import dataclass, field

from nri_numamem.numa import NodeSet, PolicyMode


@dataclass(frozen=True, slots=True)
class PolicySupport:
    """Whether the policy of a container can be set."""

    obstacle: str = ""
    """Why the runtime cannot set policies; "" if it can."""
    missing_modes: frozenset[PolicyMode] = frozenset()
    """Modes that the kernel lacks."""


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """What the memory policy of a container depends on, besides the settings."""

    annotation: str = ""
    """The pod's annotation for the container, or for all of its containers; cut."""
    runtime_handler: str = ""
    """The pod's runtime handler; "" without a RuntimeClass."""
    support: PolicySupport = field(default_factory=PolicySupport)


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface of a container or its pod."""

    name: str
    """On the host, or inside the pod; at most 15 characters."""
    nodes: NodeSet
    """The NUMA node of its hardware; empty if it has none, or if the node is unknown."""


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """What the network hints of a container depend on."""

    interfaces: tuple[NetworkInterface, ...] = ()
    obstacle: str = ""
    """Why interfaces may be missing; "" if all are known."""
