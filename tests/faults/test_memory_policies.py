"""The memory policies that a life expects."""

from dataclasses import replace

import pytest

from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.faults.memory_policies import (
    expected,
    is_policy_missing,
    may_be_refused,
    problem_of_reply,
)
from tests.faults.node import RuntimeTraits
from tests.faults.parameters import Parameters
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.version import RuntimeVersion
from tests.sequences.settings import ANNOTATION, LifeSettings, Policies

PARAMETERS = Parameters(
    RuntimeTraits(is_crio=False, hides_hugepages=False),
    is_launched=False,
    version=RuntimeVersion(),
    request_timeout_ms=500,
    has_state_file=False,
    settings=LifeSettings(
        policy="none", memory_policies=Policies(("bind", "weighted-interleave"), default="local")
    ),
)
MACHINE = Machine(
    (NumaNode(0, 1, {}, CpuSet([0])), NumaNode(1, 1, {}, CpuSet([1])), NumaNode(2, 1))
)


def with_policies(**changes: object) -> Parameters:
    before = PARAMETERS.settings
    policies = replace(before.memory_policies, **changes)  # type: ignore[arg-type]
    return replace(PARAMETERS, settings=replace(before, memory_policies=policies))


@pytest.mark.parametrize(
    ("parameters", "text", "mode", "is_refused"),
    [
        (PARAMETERS, "bind", "bind", False),
        (PARAMETERS, "interleave", "local", False),
        (PARAMETERS, "weighted-interleave", "local", False),
        (PARAMETERS, "", "local", False),
        (with_policies(default=""), "", "", False),
        (with_policies(default="", modes=()), "bind", "", False),
        (with_policies(namespaces=("elsewhere",)), "bind", "local", False),
        (with_policies(rejects=True), "interleave", "", True),
        (with_policies(rejects=True), "bind", "bind", False),
        (with_policies(rejects=True, runtimes=("default",)), "bind", "", True),
        (replace(PARAMETERS, version="nri-0.11.0"), "bind", "", False),
        (with_policies(modes=("interleave",), max_nodes=2), "interleave:2", "interleave:2", False),
        (with_policies(modes=("interleave",)), "interleave:2", "local", False),
        (with_policies(max_nodes=2), "interleave:2", "local", False),
    ],
)
def test_the_expected_policy(
    parameters: Parameters, text: str, mode: str, *, is_refused: bool
) -> None:
    annotations = {ANNOTATION: text} if text else {}
    assert expected(parameters, annotations, "c") == (mode, is_refused)
    of_container = {f"{ANNOTATION}/container.c": text, ANNOTATION: "none"}
    assert not text or expected(parameters, of_container, "c") == (mode, is_refused)


def problem(policy: api.LinuxMemoryPolicy | None, mems: str) -> str:
    pod = objects.pod("p", annotations={ANNOTATION: "bind"})
    container = objects.container(pod, "c", cpuset_mems=mems)
    reply = api.CreateContainerResponse()
    if policy is not None:
        reply.adjust.linux.memory_policy.CopyFrom(policy)
    assert is_policy_missing(PARAMETERS, pod, container, reply) == (policy is None)
    return problem_of_reply(PARAMETERS, MACHINE, pod, container, reply)


def even_problem(policy: api.LinuxMemoryPolicy, mems: str, **changes: object) -> str:
    parameters = with_policies(modes=("interleave",), max_nodes=2, **changes)
    pod = objects.pod("p", annotations={ANNOTATION: "interleave:2"})
    container = objects.container(pod, "c", cpuset_mems=mems)
    reply = api.CreateContainerResponse()
    assert not is_policy_missing(parameters, pod, container, reply)
    reply.adjust.linux.memory_policy.CopyFrom(policy)
    return problem_of_reply(parameters, MACHINE, pod, container, reply)


def test_a_policy_over_two_nodes() -> None:
    pair = api.LinuxMemoryPolicy(mode=api.MPOL_INTERLEAVE, nodes="0-1")
    single = api.LinuxMemoryPolicy(mode=api.MPOL_INTERLEAVE, nodes="0")
    local = api.LinuxMemoryPolicy(mode=api.MPOL_LOCAL)
    assert even_problem(pair, "0-1") == even_problem(pair, "") == even_problem(local, "0") == ""
    assert even_problem(single, "0").endswith("on other nodes than two")
    assert "instead of interleave:2" in even_problem(local, "0", rejects=True)
    assert even_problem(single, "0", default="interleave") == ""
    annotations = {ANNOTATION: "interleave:2"}
    for rejects in (False, True):
        parameters = with_policies(modes=("interleave",), max_nodes=2, rejects=rejects)
        assert may_be_refused(parameters, annotations, "c") is rejects


def bind(nodes: str) -> api.LinuxMemoryPolicy:
    return api.LinuxMemoryPolicy(mode=api.MPOL_BIND, nodes=nodes)


def test_a_policy_is_on_the_nodes_of_its_container() -> None:
    assert problem(None, "0") == problem(bind("0"), "0") == problem(bind("0-1"), "") == ""
    assert "it may use the nodes 0" in problem(bind("0-1"), "0")
    assert "it may use the nodes 0-1" in problem(bind("0-2"), "")
    assert "instead of bind" in problem(api.LinuxMemoryPolicy(mode=api.MPOL_LOCAL), "")
