"""Which features there are: the one module of the engine that names them."""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.burstable_pods import burstable
from nri_numamem.engine.features.cpu_following.shared_cpus import may_follow
from nri_numamem.engine.features.memory_policies import feature as memory_policies
from nri_numamem.engine.features.network_hints import interfaces
from nri_numamem.engine.features.placement_strategy import strategy
from nri_numamem.numa import Machine


def features_of(policy: Policy) -> tuple[Feature, ...]:
    """Return the features for a policy, in the order of their hooks.

    Those without a condition record annotations that have no effect.
    """
    features: list[Feature] = []
    if policy.claims:
        from nri_numamem.engine.features.claims import (  # noqa: PLC0415 - only for the setting
            feature as claims,
        )

        features.append(claims.ResourceClaims())
    if policy.earmarks_percent:
        from nri_numamem.engine.features.earmarks import (  # noqa: PLC0415 - only for the setting
            feature as earmarks,
        )

        features.append(earmarks.SetAsideRoom())
    features += [strategy.FEATURE, burstable.FEATURE]
    if policy.partitions:
        from nri_numamem.engine.features.partitions import (  # noqa: PLC0415 - only for the setting
            feature as partitions,
        )

        features.append(partitions.PartitionedNodes())
    # A memory policy depends on the nodes of the container.
    features += [memory_policies.FEATURE, interfaces.FEATURE]
    if may_follow(policy):
        from nri_numamem.engine.features.cpu_following import (  # noqa: PLC0415 - as above
            feature as cpu_following,
        )

        features.append(cpu_following.FEATURE)
    return tuple(features)


def new_context(machine: Machine, policy: Policy) -> Context:
    """Return the context of an engine with all features.

    Raises what Context.of() raises, and PartitionsError.
    """
    context = Context.of(machine, policy, features_of(policy))
    if policy.partitions:
        from nri_numamem.engine.features.partitions.layouts import (  # noqa: PLC0415 - as above
            check_rest,
        )

        check_rest(context)
    return context
