"""What was refused or runs unpinned: ``explain`` without a pod."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.decisions.outcomes import Outcome
from nri_numamem.cli.decisions.unplaced import unplaced, unplaced_document
from nri_numamem.cli.main import main
from nri_numamem.host.sysfs import MachineError
from tests.cli.explain.stories import GI, Past, read, telco


@pytest.fixture(name="past")
def _past(tmp_path: Path) -> Past:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    return past


def test_only_the_last_decision_counts(past: Past) -> None:
    entries = read(past.state_file)
    (found,) = unplaced(entries, None)
    assert (found.names.full_pod, found.names.container) == ("telco/upf-8d", "dpdk")
    assert (found.outcome, found.refusals.count, found.is_present) == (Outcome.REFUSED, 4, None)
    assert found.request == {"memory": 40 * GI, "hugepages-1Gi": 6 * GI}
    uid = found.names.pod_uid
    assert [each.is_present for each in unplaced(entries, {uid})] == [True]
    assert [each.is_present for each in unplaced(entries, {"other"})] == [False]
    past.create(past.pod("telco/upf-8d"), "dpdk", 1)
    assert unplaced(read(past.state_file), None) == ()


def test_the_latest_comes_first(past: Past) -> None:
    past.create(past.pod("ml/large"), "main", 900)
    found = unplaced(read(past.state_file), None)
    assert [each.names.pod for each in found] == ["large", "upf-8d"]
    assert unplaced_document(found)[0]["count"] == 1


def explain(past: Past, *words: str) -> int:
    own = ["--cgroup-root", str(past.state_file.parent / "cgroup")]
    return main(["explain", "--state-file", str(past.state_file), *own, *words])


def test_the_screen(
    past: Past, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("time.time", lambda: past.now_s + 60)
    past.create(past.pod("ml/large"), "main", 900)
    assert explain(past) == 0
    shown = capsys.readouterr().out
    heading, columns, large, upf, advice = shown.splitlines()
    assert heading.startswith("Containers without NUMA nodes, by their last decision ")
    assert columns.split() == ["pod", "container", "times", "last", "request"]
    assert " ".join(large.split()) == "ml/large main refused 1 1 min ago 900Gi memory"
    assert upf.split()[:4] == ["telco/upf-8d", "dpdk", "refused", "4"]
    assert advice == "  nri-numamem explain NAMESPACE/POD says why, and what to do."
    cgroup = past.state_file.parent / "cgroup"
    (cgroup / "kubepods").mkdir(parents=True)
    (cgroup / "cgroup.controllers").write_text("memory\n")
    explain(past)
    assert "refused, pod gone" in capsys.readouterr().out


def test_the_document(past: Past, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(past, "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["unplaced"]
    text = (Path(__file__).parents[3] / "docs/explain.md").read_text()
    for key in found:
        assert f"`unplaced[].{key}`" in text or f"`.{key}`" in text
    assert (found["pod"], found["outcome"], found["podPresent"]) == ("upf-8d", "refused", None)


def test_nothing_was_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    past = Past(tmp_path / "nri_numamem_state")
    past.begin()
    assert explain(past) == 0
    assert capsys.readouterr().out.startswith("No container was refused or runs unpinned")


def test_cgroups_that_cannot_be_read(
    past: Past, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_root: Path) -> bool:
        raise MachineError("cgroup", "no cgroups")

    monkeypatch.setattr("nri_numamem.cli.decisions.unplaced.has_pod_cgroups", fail)
    assert explain(past) == 0
    assert "pod gone" not in capsys.readouterr().out
