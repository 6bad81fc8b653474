"""The recorded outcomes belong to the lives, and the rules for ended containers show in them."""

from tests.kubelet_managers.answers import Answer
from tests.kubelet_managers.ended_containers import (
    LIVES,
    Outcomes,
    first_difference,
    lives_with_inits,
    of_kubelet,
    recorded,
    table,
)

COUNT = 40


def test_the_outcomes_belong_to_the_lives_of_the_generator() -> None:
    """If this fails, the generator has changed: run `make kubelet-answers`."""
    found = list(recorded())
    assert len(found) == LIVES
    for life, outcomes in zip(lives_with_inits(LIVES), found, strict=True):
        uids = [step["admit"] for step in life["steps"] if "admit" in step]
        for uid, outcome in zip(uids, outcomes, strict=True):
            names = [each["name"] for each in life["pods"][uid]["containers"]]
            assert outcome is None or sorted(outcome) == names


def test_the_limit_of_the_pod_brings_the_plugin_closer_to_the_kubelet() -> None:
    """Nothing remains where init containers are released as in the kubelet."""
    head, kubelet, *rows = table(list(recorded())[:COUNT], COUNT)
    kept, limited, released = (int(row[1].split()[0]) for row in rows)
    assert kept > limited > released == 0
    assert head[-1].startswith("admitted of ")
    admitted = [int(row[-1]) for row in rows]
    assert admitted[0] < admitted[1] < int(kubelet[-1])


def test_lives_with_other_differences_do_not_count() -> None:
    """A falsified outcome differs from the engine that releases as the kubelet does."""
    found = list(recorded())[:COUNT]
    counted = [int(row[1].split()[-1]) for row in table(found, COUNT)[2:]]
    index = next(n for n, outcomes in enumerate(found) if outcomes[0] is not None)
    found[index] = [None, *found[index][1:]]
    falsified = [int(row[1].split()[-1]) for row in table(found, COUNT)[2:]]
    assert falsified == [count - 1 for count in counted]


def test_the_kinds_of_differences() -> None:
    on_0: Outcomes = [{"c0": [0]}]
    assert first_difference(on_0, [{"c0": [0]}]) == ""
    assert first_difference(on_0, [{"c0": [1]}]) == "other nodes"
    assert first_difference(on_0, [None]) == "the plugin rejects"
    assert first_difference([None], on_0) == "the kubelet rejects"


def test_the_outcomes_of_answers() -> None:
    life = {"steps": [{"admit": "a"}, {"start": "a"}, {"admit": "b"}]}
    maps = {"0": [1, [0], {"memory": 5}]}
    answers: list[Answer] = [
        {"maps": maps},
        {"maps": maps, "blocks": {"a": {"c0": [[[0, 1], "memory", 4]]}}},
        {},
        {"reason": "UnexpectedAdmissionError"},
    ]
    assert of_kubelet(life, answers) == [{"c0": [0, 1]}, None]
