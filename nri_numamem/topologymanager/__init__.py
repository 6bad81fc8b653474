"""The Topology Manager of the kubelet as pure functions: merge hints, judge, allocate."""

from nri_numamem.topologymanager.merge import Policy, ProviderHints, merge, offers_of
from nri_numamem.topologymanager.scopes import (
    Admitted,
    Topology,
    admit_container,
    admit_containers,
    admit_pod,
    nodes_for_container,
)

__all__ = [
    "Admitted",
    "Policy",
    "ProviderHints",
    "Topology",
    "admit_container",
    "admit_containers",
    "admit_pod",
    "merge",
    "nodes_for_container",
    "offers_of",
]
