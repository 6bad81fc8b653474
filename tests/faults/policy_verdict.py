"""Checks of the memory policies in replies to a life."""

from tests.faults.failure import Failure
from tests.faults.life import Life
from tests.faults.memory_policies import (
    expected,
    is_kept,
    is_policy_missing,
    may_be_refused,
    problem_of_reply,
)
from tests.faults.node import Container
from tests.laboratory import api_pb2 as api


def check_policy(
    life: Life, container: Container, reply: api.CreateContainerResponse, *, is_sure: bool
) -> None:
    """Check the policy of a container that is created; raise Failure.

    `is_sure`: the plugin has decided on the container, and its reply has arrived.
    """
    pod, message = container.pod.message, container.message
    problem = problem_of_reply(life.parameters, life.seen_machine, pod, message, reply)
    if problem:
        raise Failure(f"{pod.name}: {problem}")
    # A request that timed out has no policy, and a record.
    is_sure = is_sure and not life.host.cannot_log and not life.host.may_lose_records
    if is_sure and is_policy_missing(life.parameters, pod, message, reply):
        wanted = expected(life.parameters, pod.annotations, message.name)
        raise Failure(f"{pod.name}/{message.name} has no policy instead of {wanted}")


def check_policy_refusal(life: Life, container: Container, *, is_new: bool) -> None:
    """Check that a policy had to be refused, and that nothing is accounted for; raise Failure.

    `is_new`: no container of this name was created in the pod before.
    """
    pod, name = container.pod.message, container.spec.name
    mode, _is_refused = expected(life.parameters, pod.annotations, name)
    if not may_be_refused(life.parameters, pod.annotations, name):
        raise Failure(f"{pod.name}/{name} was refused; its policy is {mode or 'none'}")
    if not is_new or life.host.cannot_log or not life.check_connection():
        return
    accounting = life.plugin.accounting()
    if accounting is not None and is_kept(accounting, pod.uid, name):
        raise Failure(f"{pod.name}/{name} was refused for its policy, and has memory")
