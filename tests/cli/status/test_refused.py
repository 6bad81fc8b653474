"""The containers that are refused now."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.cli.explain.stories import Past, telco
from tests.cli.live.live_host import GI, NOW_S, LiveHost

CREATED = ("upf-8d", "dpdk")


@pytest.fixture(name="past")
def _past(host: LiveHost) -> Past:
    past = Past(host.state_file, now_s=NOW_S - 1000)
    telco(past)
    (host.cgroups / "kubepods/poduid-upf-8d").mkdir()
    return past


def shown(host: LiveHost, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main(["status", *words, *host.arguments()])
    return capsys.readouterr().out


def refused(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(shown(host, capsys, "--output", "json"))["refused"]
    return found


def test_refused_containers(
    running_host: LiveHost, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    assert past.now_s < NOW_S
    heading, columns, row, advice = (
        shown(running_host, capsys).partition("Refused now")[2].splitlines()[:4]
    )
    assert set(heading) == {" ", "─"}
    assert columns.split() == ["pod", "container", "times", "for", "request"]
    assert " ".join(row.split()) == ("telco/upf-8d dpdk 4 15 min 40Gi memory, 6Gi hugepages-1Gi")
    assert advice == "  nri-numamem explain NAMESPACE/POD says why, and what to do."
    (document,) = refused(running_host, capsys)
    assert (document["pod"], document["container"]) == CREATED
    assert (document["count"], document["podUid"]) == (4, "uid-upf-8d")
    assert document["requestBytes"] == {"memory": 40 * GI, "hugepages-1Gi": 6 * GI}


def test_an_admitted_container_leaves_the_list(
    running_host: LiveHost, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    past.create(past.pod("telco/upf-8d"), "dpdk", 1)
    assert refused(running_host, capsys) == []
    assert "Refused now" not in shown(running_host, capsys)


def test_a_pod_that_is_gone_leaves_the_list(
    running_host: LiveHost, past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    assert past.state_file == running_host.state_file
    (running_host.cgroups / "kubepods/poduid-upf-8d").rmdir()
    assert refused(running_host, capsys) == []


@pytest.mark.usefixtures("past")
def test_without_a_plugin(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    text = "The plugin does not run: these containers may have started since."
    assert text in shown(host, capsys)


@pytest.mark.usefixtures("past")
def test_a_history_that_cannot_be_read(
    running_host: LiveHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_file: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("nri_numamem.cli.decisions.unplaced.read_history", fail)
    assert "problem history: Input/output error" in " ".join(shown(running_host, capsys).split())


def test_without_a_state_file(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.config.write_text('stateFile: ""\n')
    main(["status", "--config", str(host.config), "--output", "json"])
    assert json.loads(capsys.readouterr().out)["refused"] == []
