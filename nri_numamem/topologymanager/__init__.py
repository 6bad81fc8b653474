"""The kubelet's Topology Manager as pure functions: merge hints, apply the policy, choose nodes."""

from nri_numamem.topologymanager.admission import (
    Placement,
    Topology,
    admit,
    admit_beside_groups,
    admit_with_hint,
)
from nri_numamem.topologymanager.even import admit_evenly
from nri_numamem.topologymanager.merge import (
    ProviderHints,
    TopologyPolicy,
    merge_hints,
    merged_hints_of,
)

__all__ = [
    "Placement",
    "ProviderHints",
    "Topology",
    "TopologyPolicy",
    "admit",
    "admit_beside_groups",
    "admit_evenly",
    "admit_with_hint",
    "merge_hints",
    "merged_hints_of",
]
