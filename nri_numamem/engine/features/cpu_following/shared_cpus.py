"""Which CPUs containers share beside their memory, and whether they get any.

All CPUs of the memory's nodes but those that the kubelet reserves and those without load balancing.
"""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import unusable_cpus
from nri_numamem.engine.core.events import Container, HostCpus
from nri_numamem.engine.core.policy import Policy
from nri_numamem.numa import CpuFollowing, CpuSet, NodeSet, cpus_of

STATIC = "static"
"""The policy of the kubelet's CPU manager that sets the CPUs of all containers."""


def may_follow(policy: Policy) -> bool:
    """Return whether the settings have CPUs follow memory."""
    return policy.cpu_following is not CpuFollowing.OFF and policy.is_static


def has_static_manager(policy: Policy, host: HostCpus) -> bool:
    """Return whether the kubelet's CPU manager sets the CPUs of containers."""
    return policy.has_static_cpus or host.kubelet_policy == STATIC


def cpus_beside(context: Context, nodes: NodeSet) -> CpuSet:
    """Return the CPUs beside the memory of some nodes that containers may share."""
    return cpus_of(context.machine, nodes, unusable_cpus(context))


def has_cpus_of_nodes(context: Context, container: Container) -> bool:
    """Return whether a container has exactly the CPUs of its nodes, which this plugin set.

    They follow its memory, so they are no hint for it.
    """
    mems, cpus = container.cpuset_mems, container.cpuset_cpus
    if not (mems and cpus):
        return False
    try:
        nodes, found = NodeSet.parse(mems), CpuSet.parse(cpus)
    except ValueError:
        return False
    return cpus_beside(context, nodes) == found
