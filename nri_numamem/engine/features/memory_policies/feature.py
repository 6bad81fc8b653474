"""The feature that containers have memory policies: where its hooks lead."""

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import CreateContainer, Event, PodSandbox
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.request import Request
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.memory_policies import even_group
from nri_numamem.numa import NodeSet


class ContainerPolicies(Feature):
    """Memory policies, and even groups for them (`memoryPolicy`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether any container may get a policy."""
        return context.policy.memory_policies.is_active

    def request(self, context: Context, event: CreateContainer, request: Request) -> Request:
        """Return the request with the number of nodes that an annotation requests."""
        return even_group.with_count(context, event, request)

    def charges_evenly(self, context: Context, pod: PodSandbox, name: str, nodes: NodeSet) -> bool:
        """Return whether the pod's annotation requests equal parts on so many nodes."""
        return even_group.is_even(context, pod, name, nodes)

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision on a new container with its memory policy."""
        if not isinstance(event, CreateContainer) or event.policy_request is None:
            return decision
        from nri_numamem.engine.features.memory_policies import (  # noqa: PLC0415 - large
            memory_policy,
        )

        return memory_policy.add_policy(context, state, event, event.policy_request, decision)


FEATURE = ContainerPolicies()
