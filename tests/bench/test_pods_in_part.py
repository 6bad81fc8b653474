"""The lives of pods replay, and their rules show."""

from tests.bench.pods_in_part import ended_containers, life, pods_in_part


def test_a_seed_replays() -> None:
    first, second = (life(3, "container", with_inits=True) for _ in range(2))
    assert first.decisions == second.decisions
    assert first.counts["refused"] > 0


def test_fewer_pods_start_in_part_with_the_rule() -> None:
    head, *rows = pods_in_part(5)
    in_part = [int(dict(zip(head, row, strict=True))["of these in part"]) for row in rows]
    # Policy, scope, init containers, and last the rule.
    assert len(rows) == 16
    for before, after in ((in_part[0], in_part[1]), (in_part[8], in_part[9])):
        assert after < before
    assert in_part[4:8] == [0] * 4


def test_fewer_lives_differ_with_the_pods_limit() -> None:
    (_, (_, kept), (_, limited)) = ended_containers(30)
    assert int(limited) < int(kept)
