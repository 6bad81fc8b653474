"""What the policy's values mean."""

from nri_numamem.engine.core.policy import Policy


def test_the_defaults() -> None:
    policy = Policy()
    assert policy.is_static
    assert policy.rejects
    assert not policy.is_pod_scope


def test_values_that_differ_from_the_defaults() -> None:
    policy = Policy(
        memory_manager_policy="None",
        when_unsatisfiable="RunUnpinned",
        topology_manager_scope="pod",
    )
    assert not policy.is_static
    assert not policy.rejects
    assert policy.is_pod_scope
