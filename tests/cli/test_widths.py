"""Screens of any width have the same values: none is cut, whatever the terminal."""

from collections import Counter
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.cli.doctor.host_files import HostFiles
from tests.cli.explain.stories import Past, telco
from tests.cli.live.live_host import GI, LiveHost, four_nodes

pytestmark = pytest.mark.slow

WIDTHS = range(60, 161)
# What fills a line: rules and bars, whose length is that of the terminal.
FILLING = set("─▒≡█▓·…")


def characters(text: str) -> Counter[str]:
    return Counter(each for each in text if not each.isspace() and each not in FILLING)


def expect_equal_values(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTHS[-1]))
    main(words)
    wide = characters(capsys.readouterr().out)
    assert wide.total() > 100
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        main(words)
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= width
        assert "…" not in shown
        lost, added = wide - characters(shown), characters(shown) - wide
        assert not lost, f"{words[0]} with {width} columns lacks {dict(lost)}:\n{shown}"
        assert not added, f"{words[0]} with {width} columns also has {dict(added)}:\n{shown}"


@pytest.fixture(name="host")
def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveHost:
    host = LiveHost(tmp_path, four_nodes())
    host.run("postgres-cluster-with-a-long-name-0", "postgres", 40 * GI, used={0: 30 * GI})
    host.run("upf-7", "dpdk", 24 * GI, pages=2, used={1: 6 * GI, 0: 3 * GI})
    host.run("train-3", "worker", 90 * GI, used={2: 50 * GI, 3: 8 * GI})
    host.use_hugepages(3, 1)
    host.save()
    host.describe()
    past = Past(host.state_file)
    telco(past)
    monkeypatch.setattr("time.time", lambda: past.now_s + 60)
    return host


@pytest.mark.parametrize("words", [["status"], ["status", "--pages"]], ids=" ".join)
def test_status(
    host: LiveHost,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with host.running():
        expect_equal_values([*words, *host.arguments()], monkeypatch, capsys)


@pytest.mark.parametrize("pod", ["telco/upf-8d", "telco/upf-7c", "web/front-9", "upf-7-x", ""])
def test_explain(
    host: LiveHost,
    pod: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--state-file", str(host.state_file), "--cgroup-root", str(host.cgroups)]
    expect_equal_values(["explain", *filter(None, [pod]), *options], monkeypatch, capsys)


def test_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = HostFiles(tmp_path)
    host.write("var/lib/kubelet/config.yaml", "memoryManagerPolicy: Static\n")
    monkeypatch.setattr("time.time", lambda: 1e10)
    expect_equal_values(["doctor", "--root", str(tmp_path)], monkeypatch, capsys)


def test_inspect(
    host: LiveHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = ["--sysfs-root", str(host.root / "sys"), "--proc-root", str(host.root / "proc")]
    expect_equal_values(["inspect", *roots], monkeypatch, capsys)
