"""Lives as data: equal for a seed, and with everything that a node may do."""

import itertools
from collections import Counter

import pytest

from nri_numamem.numa import NodeSet
from tests.sequences.node_life import FAULTS, NodeLife, node_life
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    Fault,
    ForgetPod,
    PodSpec,
    RemoveContainer,
    Resize,
    StartPod,
    pod_hugepages,
)

COUNT = 300


def operations(life: NodeLife) -> list[object]:
    return list(itertools.islice(life.operations(), COUNT))


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_seed_has_one_life(*, is_orderly: bool) -> None:
    first, second = (node_life(7, is_orderly=is_orderly) for _ in range(2))
    assert first == second
    assert operations(first) == operations(second)
    assert operations(first) != operations(node_life(8, is_orderly=is_orderly))


def test_faults_do_not_change_the_operations() -> None:
    life = node_life(3)
    steps = list(itertools.islice(life.steps(0.2), COUNT))
    faults = [step for step in steps if isinstance(step, Fault)]
    assert len(faults) > COUNT // 10
    assert all(sorted(fault.kinds) == sorted(FAULTS) for fault in faults)
    rest = [step for step in steps if not isinstance(step, Fault)]
    assert rest == operations(life)[: len(rest)]


def test_a_fault_has_kinds_by_their_weights() -> None:
    steps = itertools.islice(node_life(3).steps(1.0), 2000)
    first = Counter(step.kinds[0] for step in steps if isinstance(step, Fault))
    assert set(first) == set(FAULTS)
    assert first["request overruns"] > 2 * first["idle"]


def test_operations_name_what_is_there() -> None:
    running: dict[str, PodSpec] = {}
    for operation in operations(node_life(5)):
        match operation:
            case StartPod(pod):
                assert pod.key not in running
                assert all(pod.name != other.name for other in running.values())
                running[pod.key] = pod
            case EndPod(pod):
                del running[pod]
            case EndContainer(pod, name) | Resize(pod, name):
                assert name in {spec.name for spec in running[pod].specs if not spec.is_init}
            case RemoveContainer(pod) | CreateNext(pod):
                assert pod in running


def test_lives_have_all_operations() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(1, 9):
        for operation in operations(node_life(seed)):
            kinds[type(operation).__name__] += 1
            if isinstance(operation, StartPod):
                pod = operation.pod
                kinds["returned"] += bool(pod.attempt)
                kinds["burstable"] += not pod.is_guaranteed
                kinds["annotated"] += bool(pod.annotations)
                kinds["hugepages"] += any(pod_hugepages(pod.specs).values())
                kinds["init"] += pod.specs[0].is_init
                shares = {spec.memory_bytes // (spec.memory_low_bytes or 1) for spec in pod.specs}
                assert pod.is_guaranteed or shares <= {1, 2}
                kinds["whole request"] += not pod.is_guaranteed and 1 in shares
                kinds["half a request"] += not pod.is_guaranteed and 2 in shares
            if isinstance(operation, CreateNext):
                kinds["fails later"] += operation.fails_later
                kinds["preset"] += operation.preset != NodeSet()
            if isinstance(operation, EndPod):
                kinds["unreported"] += not operation.is_reported
    names = ("StartPod", "CreateNext", "EndContainer", "RemoveContainer", "Resize", "EndPod")
    others = ("returned", "burstable", "annotated", "hugepages", "init", "fails later", "preset")
    requests = ("whole request", "half a request", "unreported", ForgetPod.__name__)
    assert all(kinds[name] > 5 for name in (*names, *others, *requests))


def test_a_life_that_is_not_orderly() -> None:
    kinds: Counter[str] = Counter()
    running: dict[str, PodSpec] = {}
    for operation in operations(node_life(2, is_orderly=False)):
        match operation:
            case StartPod(pod):
                kinds["replaced"] += any(pod.name == other.name for other in running.values())
                kinds["without a limit"] += pod.memory_limit_bytes is None
                running[pod.key] = pod
            case EndPod(pod):
                del running[pod]
            case CreateNext(container=name):
                kinds["created by name"] += bool(name)
    assert min(kinds.values()) > 3
    assert len(kinds) == 3


def test_small_amounts() -> None:
    life = node_life(4, least_bytes=1)
    first = next(each for each in life.operations() if isinstance(each, StartPod))
    assert all(spec.memory_bytes > 0 for spec in first.pod.specs)
