"""Topology hints, as the memory manager and the topology manager use them.

A hint is a node set on which a request fits. It is `preferred` if no smaller set could hold the
request on an empty machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nri_numamem.numa.nodeset import NodeSet


@dataclass(frozen=True, slots=True)
class Hint:
    """One topology hint, as in the kubelet's Topology Manager."""

    affinity: NodeSet | None
    """The node set; None is "any nodes"."""
    preferred: bool


HintMap: TypeAlias = Mapping[str, tuple[Hint, ...]]
"""Resource name -> hints. An empty tuple means that the request fits nowhere."""
