"""Hugepages used outside of pods: findings on a host with pods, from the command line.

The screens are in ``screens``; ``UPDATE_SCREENS=1 pytest`` writes them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.doctor import examine
from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost, four_nodes
from tests.cli.screen_files import check_screen

SCREENS = Path(__file__).parent / "screens"
STATE = "/lib/state"
CONFIG = "/config.yaml"


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> Iterator[LiveHost]:
    """Four 1Gi pages on each node, those of node 1 assigned to a pod; a plugin runs."""
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "main", 30 * GI)
    host.run("upf", "main", 40 * GI, pages=4)
    host.save()
    with host.running():
        yield host


def findings(host: LiveHost) -> list[Finding]:
    found = examine(Host(host.root), Path(CONFIG), STATE)
    return [finding for finding in found if finding.check == "hugepages"]


def test_what_uses_the_pages_is_named(host: LiveHost) -> None:
    host.use_hugepages(0, 2)
    host.start_process(881, "dpdk-testpmd", 2 * GI, "/user.slice", {0: 2})
    assert findings(host) == [
        Finding(
            "hugepages",
            Verdict.WARN,
            "node 0: 2 of 4 1Gi pages are used outside of pods: dpdk-testpmd (pid 881, 2 1Gi "
            "pages)",
            "pods cannot get them: end what uses them, or let reservedMemory have 2Gi of "
            "hugepages-1Gi more on node 0",
        )
    ]


def test_pages_that_are_reserved_for_it_are_no_finding(host: LiveHost) -> None:
    host.use_hugepages(0, 2)
    host.config.write_text("reservedMemory: [{numaNode: 0, limits: {hugepages-1Gi: 2Gi}}]\n")
    found = {finding.check: finding for finding in examine(Host(host.root), Path(CONFIG), STATE)}
    assert found["configuration"].verdict is Verdict.OK
    finding = found["hugepages"]
    assert (finding.verdict, finding.text) == (
        Verdict.OK,
        "no hugepages are used outside of pods",
    )


def test_pages_that_are_only_reserved_by_a_process(host: LiveHost) -> None:
    (host.root / "sys/kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages").write_text("5\n")
    (finding,) = findings(host)
    assert finding.text == "all nodes: 1 of 16 1Gi pages is reserved outside of pods"
    assert finding.remedy.startswith("end what reserves them, or ")


def test_pages_of_pods_are_no_finding(host: LiveHost) -> None:
    host.use_hugepages(1, 4)
    host.start_process(9, "upf", 4 * GI, "/kubepods/podupf/c", {1: 4})
    assert [finding.verdict for finding in findings(host)] == [Verdict.OK]


def test_without_a_plugin_nothing_is_compared(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.use_hugepages(0, 2)
    assert findings(host) == []
    host.save()
    assert findings(host) == []
    with host.running():
        assert len(findings(host)) == 1
        host.state_file.write_text("damaged")
        assert findings(host) == []
        host.config.write_text("no-such-key: 1\n")
        assert findings(host) == []


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen(
    host: LiveHost,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    host.use_hugepages(0, 2)
    host.use_hugepages(2, 1)
    host.start_process(881, "dpdk-testpmd", 2 * GI, "/user.slice", {0: 2})
    words = ["doctor", "--root", str(host.root), "--config", CONFIG, "--state-file", STATE]
    assert main([*words, "--output", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert sum(finding["check"] == "hugepages" for finding in document["findings"]) == 2
    assert main(words) == 1
    shown = capsys.readouterr().out
    check_screen(shown[shown.index("  warn  node 0:") :], SCREENS / f"hugepages-{width}.txt")
