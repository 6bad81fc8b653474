"""Every stage of a creation has a time, and no time counts twice."""

from tests.bench import stages


def test_every_stage_has_a_time() -> None:
    found = stages.measure(creations=3)
    assert {*found} == {stage for *_, stage in stages.TIMED} | {
        stages.BETWEEN,
        stages.COMMIT,
        stages.LOG,
    }
    assert all(spent_s > 0 for spent_s in found.values())


def test_time_of_an_inner_call_counts_once() -> None:
    now_ns = iter([0, 10, 14, 20, 21, 100])
    watch = stages.Stopwatch(lambda: next(now_ns))
    inner = watch.timed(lambda: "reply", "inner")
    outer = watch.timed(lambda: inner() + inner(), "outer")
    assert outer() == "replyreply"
    assert watch.spent_ns == {"inner": 4 + 1, "outer": 100 - 5}


def test_the_sum_has_the_stages_before_the_reply() -> None:
    found = {stages.BETWEEN: 1e-6, stages.COMMIT: 2e-6, stages.LOG: 4e-6}
    assert [cells[1] for cells in stages.rows(found)] == ["µs", "1.0", "1.0", "2.0", "4.0"]
