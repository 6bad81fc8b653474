"""The exit status of findings."""

import pytest

from nri_numamem.cli.doctor.findings import Finding, Verdict, status_of


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([], 0),
        ([Verdict.OK, Verdict.UNKNOWN], 0),
        ([Verdict.OK, Verdict.WARN], 1),
        ([Verdict.WARN, Verdict.FAIL, Verdict.OK], 2),
    ],
)
def test_the_worst_verdict_is_the_status(verdicts: list[Verdict], status: int) -> None:
    assert status_of(tuple(Finding("check", verdict, "text") for verdict in verdicts)) == status
