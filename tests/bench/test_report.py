import json

import pytest

from tests.bench import report
from tests.bench.creation import Case
from tests.bench.report import Results, Target
from tests.bench.sections import CASES
from tests.bench.targets import TARGETS


def test_a_target_is_reached_missed_or_not_measured() -> None:
    results = Results(ratios={"create_p50": 0.9}, figures={"start_s": 0.31})
    targets = (
        Target("create_p50", "p50", 1.0),
        Target("start_s", "start", 0.3, "s"),
        Target("absent", "other", 1.0),
    )
    assert report.target_rows(targets, results)[1:] == [
        ("p50", "`create_p50`", "0.90", "≤ 1", report.REACHED),
        ("start", "`start_s`", "0.31 s", "≤ 0.3 s", report.MISSED),
        ("other", "`absent`", "", "≤ 1", report.NOT_MEASURED),
    ]


def test_a_limit_belongs_to_what_is_reached() -> None:
    assert report.verdict(Target("a", "", 1.0), Results(ratios={"a": 1.0})) == report.REACHED


def test_what_is_no_number_is_not_measured() -> None:
    assert Results(figures={"create": {}}).number("create") is None


def test_the_document_has_ratios_and_figures() -> None:
    results = Results({"CPUs": 2}, {"create_p50": 0.123456}, {"start_s": 0.2})
    assert json.loads(results.as_json()) == {
        "machine": {"CPUs": 2},
        "ratios": {"create_p50": 0.1235},
        "figures": {"start_s": 0.2},
    }


def test_tables_are_aligned_under_their_titles() -> None:
    text = report.tables_text({"One": [("a", "b"), ("long", "c")]})
    assert text == "## One\n\n| a    | b |\n|------|---|\n| long | c |\n"


def test_the_main_case_has_the_short_keys() -> None:
    assert Case("nri-0.12.2", 8, 110).key("p50") == "create_p50"
    assert Case("nri-0.12.2", 64, 500).key("p99") == "create_p99_64n_500p"
    older = Case("nri-0.8.0", 8, 110, guaranteed=False)
    assert older.key("p50") == "create_left_alone_p50_nri_0_8_0"
    assert older.words == "8 nodes, 110 pods, NRI 0.8.0, left alone"
    paced = Case("nri-0.12.2", 8, 110, gap_us=3000)
    assert paced.key("p50") == "create_paced_p50"
    assert paced.words == "8 nodes, 110 pods, NRI 0.12.2, 3 ms apart"


def test_no_two_numbers_share_a_key() -> None:
    assert len({case.key("p50") for case in CASES}) == len(CASES)
    assert len({target.key for target in TARGETS}) == len(TARGETS)


def test_results_replace_those_of_the_page() -> None:
    page = f"# Speed\n\nWords.\n\n{report.RESULTS_LINE}\n\nold\n"
    changed = report.with_results(page, "## New\n")
    assert changed == f"# Speed\n\nWords.\n\n{report.RESULTS_LINE}\n\n## New\n"
    with pytest.raises(ValueError, match="no line '<!-- made by"):
        report.with_results("# Speed\n", "")
