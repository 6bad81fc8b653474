"""The exclusive CPUs in the state file of the kubelet's CPU manager.

`defaultCpuSet` has the CPUs that no container has for itself. It is in every version of the file;
the places of the assignments differ.
Source: kubelet pkg/kubelet/cm/cpumanager/state, CPUManagerCheckpoint.
"""

import json
from dataclasses import dataclass

from nri_numamem.numa.idset import CpuSet

FILE_NAME = "cpu_manager_state"
"""In the kubelet's root directory."""


class CpuStateError(ValueError):
    """The content is not a state of the CPU manager; the text is one line."""


@dataclass(frozen=True, slots=True)
class CpuState:
    """What the CPU manager wrote."""

    policy: str
    """"none" or "static"."""
    shared: CpuSet
    """With "static", the CPUs that are not exclusive to a container; empty with "none"."""

    @property
    def is_static(self) -> bool:
        """Return whether containers may have exclusive CPUs."""
        return self.policy == "static"


def parse_cpu_state(data: bytes) -> CpuState:
    """Return the state; raise CpuStateError for any other content."""
    try:
        document = json.loads(data)
        policy, shared = _text(document, "policyName"), _text(document, "defaultCpuSet")
        return CpuState(policy, CpuSet.parse(shared))
    except (ValueError, RecursionError) as error:
        raise CpuStateError(f"it is not a state file of the CPU manager ({error!s:.60})") from error


def _text(document: object, name: str) -> str:
    value = document.get(name) if isinstance(document, dict) else None
    if not isinstance(value, str):
        raise CpuStateError(f"{name} is missing or not a string")
    return value
