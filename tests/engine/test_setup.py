"""Which features a policy has."""

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.features.burstable_pods.burstable import FEATURE as BURSTABLE
from nri_numamem.engine.features.cpu_following.feature import FEATURE as CPUS
from nri_numamem.engine.features.memory_policies.feature import FEATURE as POLICIES
from nri_numamem.engine.features.network_hints.interfaces import FEATURE as NETWORK
from nri_numamem.engine.features.placement_strategy.strategy import FEATURE as STRATEGIES
from nri_numamem.engine.setup import features_of, new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.burstable import BurstablePods, Evidence
from nri_numamem.numa import (
    CpuFollowing,
    MemoryPolicies,
    PodStrategies,
    PolicyMode,
    Strategy,
)
from tests.engine.conftest import MI, four_nodes

RESERVED = (Reservation(0, {"memory": 64 * MI}),)


def test_every_feature_is_off_by_default() -> None:
    context = new_context(four_nodes(), Policy(reserved_memory=RESERVED))
    assert context.features == ()
    assert CPUS not in features_of(Policy())
    for feature in context.all_features:
        assert list(feature.warnings(context)) == []


def test_each_setting_switches_one_feature_on() -> None:
    for policy, feature in (
        (Policy(placement_strategy=Strategy.PACK), STRATEGIES),
        (Policy(pod_strategies=PodStrategies((Strategy.PACK,))), STRATEGIES),
        (Policy(burstable_pods=BurstablePods((Evidence.ANNOTATION,))), BURSTABLE),
        (Policy(memory_policies=MemoryPolicies((PolicyMode.BIND,))), POLICIES),
        (Policy(network_hints=True), NETWORK),
        (Policy(cpu_following=CpuFollowing.PREFER), CPUS),
    ):
        assert new_context(four_nodes(), policy).features == (feature,)
