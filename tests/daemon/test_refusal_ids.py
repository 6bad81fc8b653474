"""Ids of refusals: retries have that of the first one."""

import pytest

from nri_numamem.daemon.refusal_ids import LIMIT, RefusalIds, with_id, without_id
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, UpdateContainer
from nri_numamem.engine.core.events import StopPodSandbox as Stop

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
OTHER = PodSandbox("t", "v", "ns", "p", "/kubepods/podv")


def create(attempt: int = 0, pod: PodSandbox = POD, name: str = "app") -> CreateContainer:
    return CreateContainer(pod, Container(f"c{attempt}", pod.sandbox_id, name))


def test_retries_have_the_id_of_the_first_refusal() -> None:
    ids = RefusalIds()
    assert ids.id_of(create(0), "A", "1-1") == "1-1"
    assert ids.id_of(create(1), "A", "1-2") == "1-1"
    assert ids.id_of(create(2), "B", "1-3") == "1-3"
    assert ids.id_of(create(3), "A", "2-1") == "1-1"
    assert ids.id_of(create(0, OTHER), "A", "2-2") == "2-2"
    assert ids.id_of(create(0, POD, "b"), "A", "2-3") == "2-3"
    assert ids.id_of(UpdateContainer(POD, create().container, 1), "A", "2-4") == "2-4"
    assert ids.id_of(Stop(POD), "A", "2-5") == "2-5"


def test_a_refusal_after_a_success_is_a_first_one() -> None:
    ids = RefusalIds()
    ids.admitted(create())
    ids.id_of(create(0), "A", "1-1")
    ids.id_of(create(0, OTHER), "A", "1-2")
    ids.admitted(Stop(POD))
    ids.admitted(create(1))
    assert ids.id_of(create(2), "A", "1-9") == "1-9"
    assert ids.id_of(create(2, OTHER), "A", "1-9") == "1-2"


def test_the_ids_are_bounded() -> None:
    ids = RefusalIds()
    for number in range(LIMIT + 1):
        ids.id_of(create(0, POD, f"c{number}"), "A", f"1-{number}")
    assert len(ids._ids) == LIMIT
    assert ids.id_of(create(0, POD, "c0"), "A", "2-1") == "2-1"
    assert ids.id_of(create(0, POD, f"c{LIMIT}"), "A", "2-1") == f"1-{LIMIT}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numamem: container a of pod b refused, R: x: y", "refused, R [1-2]: x: y"),
        ("numamem: odd", "numamem: odd [1-2]"),
    ],
)
def test_where_the_id_is(text: str, expected: str) -> None:
    found = with_id(text, "1-2")
    assert found.startswith("numamem: ")
    assert found.endswith(expected)
    assert without_id(found) == text
    assert with_id(text, "") == text
