"""Records of memory policies, and the text of a rejection."""

from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.fields import PREFIX, container_names, pod_name
from nri_numamem.engine.core.text import cut
from nri_numamem.engine.records.common import WARNED_BEFORE, Cause, ContainerNames, RepeatCount
from nri_numamem.engine.records.record import AlternateLevel, Flat, Level, Record, event
from nri_numamem.numa import MemoryPolicy, NodeSet

ANNOTATION, DEFAULT = "annotation", "default"
REASON = "MemoryPolicyError"
"""The reason in the text of a rejection."""

_NAME_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """Which policy a container should get, and who chose it."""

    text: str
    """The mode, as written."""
    source: str
    """ANNOTATION, or DEFAULT for that of the namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Flat):
    """A container, and the policy that was chosen for it."""

    names: ContainerNames
    policy: Annotated[str, "the mode, as written in the annotation or in memoryPolicy.defaults"]
    source: Annotated[str, "`annotation` of the pod, or `default` of its namespace"]
    runtime_handler: Annotated[str, "the pod's runtime handler; empty without a RuntimeClass"]


@event("memory_policy_set", kept=True)
class MemoryPolicySet(Record):
    """A container is created with a memory policy."""

    chosen: Chosen
    nodes: Annotated[
        NodeSet, "NUMA nodes of the policy in the kernel's list format; empty for `local`"
    ]


@event(
    "memory_policy_ignored",
    Level.WARNING,
    alternate=AlternateLevel(Level.DEBUG, f"memoryPolicy is off, or {WARNED_BEFORE}"),
    remedy="correct the annotation or the setting memoryPolicy, see `cause`",
    kept=True,
)
class MemoryPolicyIgnored(Record):
    """A container is created without the memory policy that was chosen for it."""

    chosen: Chosen
    cause: Cause


@event(
    "memory_policy_rejected",
    Level.WARNING,
    alternate=AlternateLevel(Level.DEBUG, WARNED_BEFORE),
    remedy="correct the annotation or the setting memoryPolicy, see `cause`",
    kept=True,
)
class MemoryPolicyRejected(Record):
    """A container's creation is refused because its memory policy cannot be set
    (memoryPolicy.onUnsupported: Reject).
    """

    chosen: Chosen
    cause: Cause
    repeat_count: RepeatCount | None = None


def policy_set(
    request: CreateContainer, choice: PolicyChoice, policy: MemoryPolicy
) -> MemoryPolicySet:
    """Record a container that gets a memory policy."""
    return MemoryPolicySet(chosen=_chosen(request, choice), nodes=policy.nodes)


def ignored(
    request: CreateContainer, choice: PolicyChoice, cause: str, *, is_off: bool
) -> MemoryPolicyIgnored:
    """Record a container that is created without the policy; `is_off` if no container gets one."""
    return MemoryPolicyIgnored(chosen=_chosen(request, choice), cause=cause, alternate=is_off)


def rejected(request: CreateContainer, choice: PolicyChoice, cause: str) -> MemoryPolicyRejected:
    """Record a container that is refused because it cannot get the policy."""
    return MemoryPolicyRejected(chosen=_chosen(request, choice), cause=cause)


def refusal_text(request: CreateContainer, choice: PolicyChoice, cause: str) -> str:
    """Return the text of the reply, which `kubectl describe pod` shows."""
    name = cut(request.container.name, _NAME_CHARACTERS)
    pod = pod_name(request.pod, _NAME_CHARACTERS)
    problem = problem_text(choice, cause)
    return f"{PREFIX}container {name} of pod {pod} refused, {REASON}: {problem}"


def problem_text(choice: PolicyChoice, cause: str) -> str:
    """Return which policy cannot be set, and why."""
    source = _SOURCES[choice.source]
    return f"the memory policy {choice.text!r} of {source} cannot be set: {cause}"


_SOURCES = {ANNOTATION: "the pod's annotation", DEFAULT: "memoryPolicy.defaults"}


def _chosen(request: CreateContainer, choice: PolicyChoice) -> Chosen:
    known = request.policy_request
    return Chosen(
        names=container_names(request.pod, request.container),
        policy=choice.text,
        source=choice.source,
        runtime_handler="" if known is None else known.runtime_handler,
    )
