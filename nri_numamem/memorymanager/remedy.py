"""Remedies: what makes a refused request fit, as values with a text.

The memory manager does not know whether a remedy suffices. The engine tries each one by the code
that places before it is printed (``engine.admission.remedies``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nri_numamem.memorymanager.node_reasons import prefixes_of
from nri_numamem.memorymanager.node_verdicts import format_node_ids
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import format_quantity, humanize_bytes

TEXT_LIMIT = 190
"""Characters of the remedies in the text of a refusal; the first one is always there."""


class Kind(StrEnum):
    """What a remedy changes."""

    FREE_HUGEPAGES = "free_hugepages"
    """Programs outside of pods free the hugepages `amounts` on `nodes`."""
    RESERVE_HUGEPAGES = "reserve_hugepages"
    """The host gets the hugepages `amounts` on `nodes`."""
    MAKE_ROOM = "make_room"
    """Pods on `nodes` end that hold `amounts`."""
    EMPTY_NODES = "empty_nodes"
    """All pods on `nodes` end."""
    REQUEST_LESS = "request_less"
    """The container, or in pod scope the pod, requests at most `amounts`."""
    CHANGE_SETTING = "change_setting"
    """`setting` gets one of `values`; each of them suffices."""
    END_PODS = "end_pods"
    """`pods` end. It names pods, so it is for commands on the host only."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What makes a refused request fit. Parameters that a kind does not have are empty."""

    kind: Kind
    nodes: NodeSet = field(default_factory=NodeSet)
    amounts: Mapping[str, int] = field(default_factory=dict)
    """Resource -> bytes, > 0."""
    setting: str = ""
    values: tuple[str, ...] = ()
    pods: Mapping[str, str] = field(default_factory=dict)
    """Pod uid -> "namespace/name", or the uid if the name is unknown."""

    @property
    def text(self) -> str:
        """The remedy as a clause such as "make room on NUMA node 1: 7Gi"."""
        nodes = format_node_ids(tuple(self.nodes))
        match self.kind:
            case Kind.FREE_HUGEPAGES:
                return f"free {self._amounts} on {nodes}, used outside of pods"
            case Kind.RESERVE_HUGEPAGES:
                return f"reserve {self._amounts} on {nodes}"
            case Kind.MAKE_ROOM:
                return f"make room on {nodes}: {self._amounts}"
            case Kind.EMPTY_NODES:
                return f"end the pods on {nodes}"
            case Kind.REQUEST_LESS:
                most = {name: format_quantity(size) for name, size in self.amounts.items()}
                prefixes = prefixes_of(most)
                return f"request at most {', '.join(prefixes[name] + most[name] for name in most)}"
            case Kind.CHANGE_SETTING:
                return f"set {self.setting} {' or '.join(self.values)}"
            case _:
                return f"end {' and '.join(self.pods.values())}"

    @property
    def _amounts(self) -> str:
        return ", ".join(
            f"{prefix}{humanize_bytes(self.amounts[name], round_up=True)}"
            for name, prefix in prefixes_of(self.amounts).items()
        )


def joined(remedies: Sequence[Remedy], limit: int = TEXT_LIMIT) -> str:
    """Return the remedies as alternatives in at most `limit` characters; at least the first."""
    text = ""
    for remedy in remedies:
        longer = f"{text}, or {remedy.text}" if text else remedy.text
        if text and len(longer) > limit:
            break
        text = longer
    return text
