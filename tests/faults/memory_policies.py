"""Memory policies in the life of a node: random settings and annotations, and what must result.

The expected policy is computed here, from the settings and the pod's annotations. Pods run under
the handler "runc"; the simulated kernel lacks `weighted-interleave`.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nri_numamem.numa import Machine, NodeSet
from tests.faults.host import without_cpus
from tests.laboratory import api_pb2 as api
from tests.laboratory.results import check_memory_policy

if TYPE_CHECKING:
    from tests.faults.parameters import Parameters

ANNOTATION = "memory-policy.numamem.io"
_KINDS = {
    "interleave": api.MPOL_INTERLEAVE,
    "bind": api.MPOL_BIND,
    "preferred": api.MPOL_PREFERRED,
    "preferred-many": api.MPOL_PREFERRED_MANY,
    "local": api.MPOL_LOCAL,
}
_MISSING = "weighted-interleave"
_EVEN = "interleave:2"
"""Two nodes with an equal part of the memory of a container on each."""
_WORDS = (*_KINDS, _MISSING, *4 * (_EVEN,), "interlaced")
_NAMESPACE = "default"  # of all pods of a life
REJECTED = "MemoryPolicyError"


@dataclass(frozen=True, slots=True)
class Policies:
    """The setting `memoryPolicy` of a life; off in most lives."""

    modes: tuple[str, ...] = ()
    default: str = ""
    """The policy of pods without an annotation."""
    namespaces: tuple[str, ...] = ()
    rejects: bool = False
    runtimes: tuple[str, ...] = field(default=("runc",))
    max_nodes: int = 0
    """The most nodes that an annotation may request."""
    min_per_node: str = "256Mi"
    """The least amount of such a container on each node."""

    @property
    def is_active(self) -> bool:
        return bool(self.modes or self.default)

    @property
    def line(self) -> str:
        """The setting in the configuration."""
        values = [
            f"modes: [{', '.join(self.modes)}]",
            f"namespaces: [{', '.join(self.namespaces)}]",
            f"runtimes: [{', '.join(self.runtimes)}]",
            f"onUnsupported: {'Reject' if self.rejects else 'Ignore'}",
        ]
        if self.max_nodes:
            values.append(f"maxNodes: {self.max_nodes}")
            values.append(f"minPerNode: {self.min_per_node}")
        if self.default:
            values.append(f"defaults: {{{_NAMESPACE}: {self.default}}}")
        return f"memoryPolicy: {{{', '.join(values)}}}"

    def choices(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield the annotation, then the default: mode, and whether the settings allow it."""
        if text:
            is_here = not self.namespaces or _NAMESPACE in self.namespaces
            mode, _, number = text.partition(":")
            is_allowed = mode in self.modes and int(number or 0) <= self.max_nodes
            yield text, is_here and is_allowed
        if self.default:
            yield self.default, True

    def __str__(self) -> str:
        return self.line if self.is_active else "no memory policies"


def choose_policies(rng: random.Random) -> Policies:
    """Choose the setting of a life."""
    if rng.random() < 0.6:
        return Policies()
    modes = tuple(mode for mode in (*_KINDS, _MISSING) if rng.random() < 0.7)
    return Policies(
        modes,
        default=rng.choice(("", "", "", *modes)),
        namespaces=rng.choice(((), (), ("elsewhere",), (_NAMESPACE,))),
        rejects=rng.random() < 0.4,
        runtimes=rng.choice((("runc",), ("runc",), ("runc",), ("default",))),
        max_nodes=rng.choice((0, 2, 2, 4)),
        min_per_node=rng.choice(("0", "0", "256Mi")),
    )


def random_annotations(rng: random.Random, containers: tuple[str, ...]) -> dict[str, str]:
    """Return the annotations of a pod; none for most pods."""
    found: dict[str, str] = {}
    if rng.random() < 0.4:
        found[ANNOTATION] = rng.choice(_WORDS)
    if rng.random() < 0.2:
        found[f"{ANNOTATION}/container.{rng.choice(containers)}"] = rng.choice(_WORDS)
    return found


def expected(
    parameters: "Parameters", annotations: Mapping[str, str], container: str
) -> tuple[str, bool]:
    """Return the mode that a container must get, "" for none, and whether it must be refused.

    The mode is `interleave:2` for a container that may get that, or what follows if the plugin does
    not place it so.
    """
    policies = parameters.memory_policies
    text = _annotation(annotations, container)
    if not policies.is_active:
        return "", False
    for mode, is_allowed in policies.choices(text):
        if is_allowed and _is_supported(parameters) and mode != _MISSING:
            return mode, False
        if policies.rejects:
            return "", True
    return "", False


def _annotation(annotations: Mapping[str, str], container: str) -> str:
    of_container = annotations.get(f"{ANNOTATION}/container.{container}")
    return of_container or annotations.get(ANNOTATION, "")


def _is_supported(parameters: "Parameters") -> bool:
    return parameters.nri_version >= (0, 12, 0) and "runc" in parameters.memory_policies.runtimes


def may_be_refused(
    parameters: "Parameters", annotations: Mapping[str, str], container: str
) -> bool:
    """Return whether the plugin refuses the container if it cannot place it on two nodes."""
    mode, is_refused = expected(parameters, annotations, container)
    return is_refused or (mode == _EVEN and parameters.memory_policies.rejects)


def problem_of_reply(
    parameters: "Parameters",
    machine: Machine,
    pod: api.PodSandbox,
    container: api.Container,
    reply: api.CreateContainerResponse,
) -> str:
    """Return what is wrong with the policy in a reply; `container` has its nodes already."""
    mode, is_refused = expected(parameters, pod.annotations, container.name)
    if not reply.adjust.linux.HasField("memory_policy"):
        return ""  # perhaps a reply after the time limit, or none; see is_policy_missing
    policy = reply.adjust.linux.memory_policy
    default = "" if parameters.memory_policies.rejects else parameters.memory_policies.default
    is_even = mode == _EVEN
    if is_even and default and policy.mode == _KINDS.get(default):
        mode, is_even = default, False
    if is_refused or not mode or policy.mode != _KINDS[mode.partition(":")[0]]:
        return f"{container.name} has the policy {policy} instead of {mode or 'none'}"
    check_memory_policy(container, policy)
    mems = container.linux.resources.cpu.mems
    usable = NodeSet(node.node_id for node in machine.nodes if node.memory_bytes)
    if mems:
        usable &= NodeSet.parse(mems)
    elif parameters.without_cpus != "use":
        usable -= without_cpus(machine)
    nodes = NodeSet.parse(policy.nodes) if policy.nodes else NodeSet()
    if not nodes.issubset(usable):
        return f"{container.name} has the policy {policy}; it may use the nodes {usable}"
    if is_even and mems and len(nodes) != 2:
        return f"{container.name} has the policy {policy}, on other nodes than two"
    return ""


def is_policy_missing(
    parameters: "Parameters",
    pod: api.PodSandbox,
    container: api.Container,
    reply: api.CreateContainerResponse,
) -> bool:
    """Return whether the plugin should have set a policy, or refused the container."""
    mode, is_refused = expected(parameters, pod.annotations, container.name)
    if mode == _EVEN:
        return False  # only with a known placement
    return is_refused or (bool(mode) and not reply.adjust.linux.HasField("memory_policy"))


def is_kept(accounting: Mapping[str, Any], uid: str, container: str) -> bool:
    """Return whether the accounting has a container."""
    return container in accounting["entries"].get(uid, {})
