"""What reaches the modules of memory policies."""

from dataclasses import replace

from nri_numamem.engine.core.events import Container, CreateContainer
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from tests.engine.conftest import MI, Host, four_nodes


def test_with_the_setting_off_only_an_annotation_is_recorded() -> None:
    host = Host(Engine(new_context(four_nodes(), Policy())))
    pod = host.run("a")
    for annotations, expected in (
        ({}, ["admitted"]),
        (
            {"memory-policy.numamem.io": "bind"},
            ["admitted", "memory_policy_ignored"],
        ),
    ):
        container = Container("c", pod.sandbox_id, "main", MI)
        request = PolicyRequest("bind") if annotations else None
        event = CreateContainer(replace(pod, annotations=annotations), container)
        answer = host.handle(replace(event, policy_request=request))
        assert [record.event for record in answer.records] == expected
