"""Events of memory policies."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, CONTAINER, REPEATED, WARNED_BEFORE

_POLICY = {
    **CONTAINER,
    "policy": "the mode, as written in the annotation or in memoryPolicy.defaults",
    "source": "`annotation` of the pod, or `default` of its namespace",
    "runtime_handler": "the pod's runtime handler; empty without a RuntimeClass",
}
_REMEDY = "correct the annotation or the setting memoryPolicy, see `cause`"

EVENTS = {
    EventName.MEMORY_POLICY_SET: EventType(
        "A container is created with a memory policy.",
        fields={
            **_POLICY,
            "nodes": "NUMA nodes of the policy in the kernel's list format; empty for `local`",
        },
    ),
    EventName.MEMORY_POLICY_IGNORED: EventType(
        "A container is created without the memory policy that was chosen for it.",
        level=Level.WARNING,
        alternate=AlternateLevel(Level.DEBUG, f"memoryPolicy is off, or {WARNED_BEFORE}"),
        remedy=_REMEDY,
        fields={**_POLICY, **CAUSE},
    ),
    EventName.MEMORY_POLICY_REJECTED: EventType(
        "A container's creation is refused because its memory policy cannot be set "
        "(memoryPolicy.onUnsupported: Reject).",
        level=Level.WARNING,
        alternate=AlternateLevel(Level.DEBUG, WARNED_BEFORE),
        remedy=_REMEDY,
        fields={**_POLICY, **CAUSE, **REPEATED},
    ),
}
