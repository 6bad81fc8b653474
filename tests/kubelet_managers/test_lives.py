"""1,000 random lives against the recorded answers of the kubelet's own managers.

Each deviation must be explained by known differences: the model of the kubelet gives the kubelet's
answer without them, and the plugin's answer with them.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.kubelet_managers.answers import Answer, recorded
from tests.kubelet_managers.compare import Host, Kubelet, Models, Tally, UnlistedError, outcome
from tests.kubelet_managers.compare import compare as compare_life
from tests.kubelet_managers.differences import OF_ENGINE, OF_MANAGERS, Difference
from tests.kubelet_managers.lives import LIVES, Life, random_life
from tests.kubelet_managers.replay import Managers, Simulated
from tests.kubelet_managers.values import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Recorded = list[tuple[Life, list[Answer]]]

# Too rare for 1,000 lives; the examples in cases.py show them.
RARE = {Difference.ONE_LIST_PER_REQUEST, Difference.EXACT_RELEASE}


@pytest.fixture(scope="module")
def lives() -> Recorded:
    return list(recorded())


@pytest.fixture(scope="module")
def tallies(lives: Recorded) -> list[Tally]:
    """Compare the managers with the kubelet in each life."""
    return [compare(*each, Managers(each[0]), OF_MANAGERS) for each in lives]


def compare(
    life: Life, answers: list[Answer], host: Host, listed: Sequence[Difference] = OF_ENGINE
) -> Tally:
    tally = Tally()
    compare_life(life, answers, host, tally, listed)
    return tally


def show(capsys: pytest.CaptureFixture[str], title: str, tally: Tally) -> None:
    with capsys.disabled():
        print(f"\n{title}, {tally}")


def test_the_answers_belong_to_the_lives_of_the_generator(lives: Recorded) -> None:
    """If this fails, the generator has changed: run `make kubelet-answers`."""
    assert [life for life, _ in lives] == [random_life(seed) for seed in range(LIVES)]


def test_the_managers_deviate_only_as_listed(
    tallies: list[Tally], capsys: pytest.CaptureFixture[str]
) -> None:
    tally = sum(tallies, Tally())
    show(capsys, "Memory Manager and Topology Manager", tally)
    assert tally.admissions > 5 * LIVES
    assert tally.found >= set(OF_MANAGERS) - RARE


def test_the_engine_deviates_only_as_listed(
    lives: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = sum((compare(*each, Simulated(each[0])) for each in lives), Tally())
    show(capsys, "engine", tally)
    assert tally.admissions > 5 * LIVES
    assert tally.found >= set(OF_ENGINE) - RARE


def test_the_model_without_differences_is_the_kubelet(lives: Recorded) -> None:
    for life, answers in lives[::8]:
        kubelet = Kubelet(life, answers)
        for step, answer, before, after in kubelet.steps():
            if "admit" in step:
                model = Models(kubelet, before, step, {})
                want = outcome(answer, after, step["admit"])
                assert model.outcome(frozenset()) == want, (life["seed"], step)


# The comparison itself


def on_other_nodes(answer: Answer, life: Life) -> bool:
    """Move the containers of an admitted pod to the next node, with their bytes."""
    if not answer.get("blocks") or answer.get("reason"):
        return False
    [containers] = answer["blocks"].values()
    for blocks in containers.values():
        for block in blocks:
            block[0] = [(block[0][0] + 1) % len(life["nodes"])]
    return True


def refused(answer: Answer, life: Life) -> bool:
    """Refuse a pod that was admitted."""
    if not answer.get("blocks") or answer.get("reason"):
        return False
    answer.clear()
    answer["reason"] = "UnexpectedAdmissionError"
    return True


def for_another_reason(answer: Answer, life: Life) -> bool:
    """Give another reason for a refusal."""
    if not answer.get("reason"):
        return False
    answer["reason"] = "OutOfMemory"
    return True


def with_other_free_memory(answer: Answer, life: Life) -> bool:
    """Charge a megabyte too much for an admitted pod."""
    if not answer.get("blocks") or answer.get("reason"):
        return False
    next(iter(answer["maps"].values()))[2]["memory"] -= 1
    return True


@pytest.mark.parametrize(
    "falsify", [on_other_nodes, refused, for_another_reason, with_other_free_memory]
)
@pytest.mark.parametrize("of_host", [Managers, Simulated])
def test_a_wrong_answer_is_unlisted(
    lives: Recorded,
    falsify: Callable[[Answer, Life], bool],
    of_host: type[Managers] | type[Simulated],
) -> None:
    """One answer in each of 20 lives is falsified; no set of differences explains it."""
    falsified = 0
    for life, answers in lives:
        if not is_followed_to_the_end(life, answers, of_host):
            continue
        changed = copy.deepcopy(answers)
        steps = zip(life["steps"], changed[1:], strict=True)
        if any("admit" in step and falsify(answer, life) for step, answer in steps):
            with pytest.raises(UnlistedError):
                compare(life, changed, of_host(life))
            falsified += 1
        if falsified == 20:
            return
    pytest.fail("too few lives")


def is_followed_to_the_end(
    life: Life, answers: list[Answer], of_host: type[Managers] | type[Simulated]
) -> bool:
    """Return whether no difference ends the comparison early."""
    admissions = sum("admit" in step for step in life["steps"])
    tally = compare(life, answers, of_host(life))
    return (
        len(answers) == len(life["steps"]) + 1
        and Difference.ENDED_CONTAINERS not in tally.found
        and tally.same + tally.only_reason == admissions
    )


class Wrong(Managers):
    """A plugin that refuses what fits, or places it elsewhere."""

    def __init__(self, life: Life, change: Callable[[Outcome], Outcome]) -> None:
        super().__init__(life)
        self._change = change

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome:
        return self._change(super().admit(uid, hints))


CHANGES: Sequence[Callable[[Outcome], Outcome]] = (
    lambda found: Outcome("", {}, found.groups) if found.reason else found,
    lambda found: Outcome("TopologyAffinityError", {}, found.groups) if found.nodes else found,
    lambda found: Outcome("", dict.fromkeys(found.nodes, (7,)), found.groups),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_plugin_is_unlisted(lives: Recorded, change: Callable[[Outcome], Outcome]) -> None:
    for life, answers in lives[:40]:
        try:
            compare(life, answers, Wrong(life, change))
        except UnlistedError:
            return
    pytest.fail("no deviation was found")


@pytest.mark.parametrize("missing", sorted(set(OF_MANAGERS) - RARE))
def test_a_difference_that_is_not_listed_is_found(
    lives: Recorded, tallies: list[Tally], missing: Difference
) -> None:
    """Without its entry in the list, each difference fails in some life."""
    listed = [difference for difference in OF_MANAGERS if difference is not missing]
    for (life, answers), tally in zip(lives, tallies, strict=True):
        if missing in tally.found:
            try:
                compare(life, answers, Managers(life), listed)
            except UnlistedError:
                return
    pytest.fail("no life needs this difference")
