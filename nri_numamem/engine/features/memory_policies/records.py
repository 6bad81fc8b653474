"""Records of memory policies, and the text of a rejection."""

from dataclasses import dataclass

from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.fields import PREFIX, Fields, container_fields, pod_name
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.core.text import cut
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import MemoryPolicy

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


def policy_set(event: CreateContainer, choice: PolicyChoice, policy: MemoryPolicy) -> Record:
    """Record a container that gets a memory policy."""
    fields: Fields = {**_fields(event, choice), "nodes": str(policy.nodes)}
    return Record(EventName.MEMORY_POLICY_SET, fields)


def ignored(event: CreateContainer, choice: PolicyChoice, cause: str, *, is_off: bool) -> Record:
    """Record a container that is created without the policy; `is_off` if no container gets one."""
    fields: Fields = {**_fields(event, choice), "cause": cause}
    return Record(EventName.MEMORY_POLICY_IGNORED, fields, alternate=is_off)


def rejected(event: CreateContainer, choice: PolicyChoice, cause: str) -> Record:
    """Record a container that is refused because it cannot get the policy."""
    return Record(EventName.MEMORY_POLICY_REJECTED, {**_fields(event, choice), "cause": cause})


def refusal_text(event: CreateContainer, choice: PolicyChoice, cause: str) -> str:
    """Return the text of the reply, which `kubectl describe pod` shows."""
    name = cut(event.container.name, _NAME_CHARACTERS)
    pod = pod_name(event.pod, _NAME_CHARACTERS)
    problem = problem_text(choice, cause)
    return f"{PREFIX}container {name} of pod {pod} refused, {REASON}: {problem}"


def problem_text(choice: PolicyChoice, cause: str) -> str:
    """Return which policy cannot be set, and why."""
    source = _SOURCES[choice.source]
    return f"the memory policy {choice.text!r} of {source} cannot be set: {cause}"


_SOURCES = {ANNOTATION: "the pod's annotation", DEFAULT: "memoryPolicy.defaults"}


def _fields(event: CreateContainer, choice: PolicyChoice) -> Fields:
    request = event.policy_request
    return {
        **container_fields(event.pod, event.container),
        "policy": choice.text,
        "source": choice.source,
        "runtime_handler": "" if request is None else request.runtime_handler,
    }
