"""Memory policies in the life of a node: what must result from settings and annotations.

The expected policy is computed here, from the settings and the pod's annotations. Pods run under
the handler "runc"; the simulated kernel lacks `weighted-interleave`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nri_numamem.numa import Machine, NodeSet
from tests.laboratory import api_pb2 as api
from tests.laboratory.results import check_memory_policy
from tests.sequences.machine import without_cpus
from tests.sequences.settings import ANNOTATION, EVEN, MISSING_MODE

if TYPE_CHECKING:
    from tests.faults.parameters import Parameters

_KINDS = {
    "interleave": api.MPOL_INTERLEAVE,
    "bind": api.MPOL_BIND,
    "preferred": api.MPOL_PREFERRED,
    "preferred-many": api.MPOL_PREFERRED_MANY,
    "local": api.MPOL_LOCAL,
}
REJECTED = "MemoryPolicyError"


def expected(
    parameters: "Parameters", annotations: Mapping[str, str], container: str
) -> tuple[str, bool]:
    """Return the mode that a container must get, "" for none, and whether it must be refused.

    The mode is `interleave:2` for a container that may get that, or what follows if the plugin does
    not place it so.
    """
    policies = parameters.settings.memory_policies
    text = _annotation(annotations, container)
    if not policies.is_active:
        return "", False
    for mode, is_allowed in policies.choices(text):
        if is_allowed and _is_supported(parameters) and mode != MISSING_MODE:
            return mode, False
        if policies.rejects:
            return "", True
    return "", False


def _annotation(annotations: Mapping[str, str], container: str) -> str:
    of_container = annotations.get(f"{ANNOTATION}/container.{container}")
    return of_container or annotations.get(ANNOTATION, "")


def _is_supported(parameters: "Parameters") -> bool:
    return (
        parameters.nri_version >= (0, 12, 0)
        and "runc" in parameters.settings.memory_policies.runtimes
    )


def may_be_refused(
    parameters: "Parameters", annotations: Mapping[str, str], container: str
) -> bool:
    """Return whether the plugin refuses the container if it cannot place it on two nodes."""
    mode, is_refused = expected(parameters, annotations, container)
    return is_refused or (mode == EVEN and parameters.settings.memory_policies.rejects)


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
    default = (
        ""
        if parameters.settings.memory_policies.rejects
        else parameters.settings.memory_policies.default
    )
    is_even = mode == EVEN
    if is_even and default and policy.mode == _KINDS.get(default):
        mode, is_even = default, False
    if is_refused or not mode or policy.mode != _KINDS[mode.partition(":")[0]]:
        return f"{container.name} has the policy {policy} instead of {mode or 'none'}"
    check_memory_policy(container, policy)
    mems = container.linux.resources.cpu.mems
    usable = NodeSet(node.node_id for node in machine.nodes if node.memory_bytes)
    if mems:
        usable &= NodeSet.parse(mems)
    elif parameters.settings.without_cpus != "use":
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
    if mode == EVEN:
        return False  # only with a known placement
    return is_refused or (bool(mode) and not reply.adjust.linux.HasField("memory_policy"))


def is_kept(accounting: Mapping[str, Any], uid: str, container: str) -> bool:
    """Return whether the accounting has a container."""
    return container in accounting["entries"].get(uid, {})
