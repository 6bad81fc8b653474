"""``nri-numamem explain`` from its command line: screens as snapshots, documents, errors.

The screens are in ``explain/screens``; ``UPDATE_SCREENS=1 pytest`` writes them.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.explain import document_of
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import story_of
from nri_numamem.cli.main import main
from nri_numamem.observe.files import lock_file_of
from tests.cli.explain.stories import Past, read, telco
from tests.cli.screen_files import check_screen

SCREENS = Path(__file__).parent / "explain" / "screens"


@pytest.fixture(name="past")
def _past(tmp_path: Path) -> Past:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    return past


@pytest.fixture(name="running")
def _running(past: Past) -> Iterator[Past]:
    """Hold the lock of the state file, as a running plugin does."""
    with lock_file_of(past.state_file).open("w") as lock:
        lock.write("pid 17, since 2023-11-14T22:13:20Z, launched by the runtime\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield past


def explain(past: Past, *words: str) -> int:
    return main(["explain", *words, "--state-file", str(past.state_file)])


def test_a_mounted_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state_file = tmp_path / "data/state"
    state_file.parent.mkdir()
    telco(Past(state_file))
    assert main(["explain", "web/front-9", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out
    (tmp_path / "etc/nri-numamem").mkdir(parents=True)
    (tmp_path / "etc/nri-numamem/config.yaml").write_text("stateFile: /data/state\n")
    assert main(["explain", "web/front-9", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    named = ["--root", str(tmp_path), "--state-file", "/data/state"]
    assert main(["explain", "web/front-9", *named]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "name",
    ["telco/upf-7c", "telco/upf-8d", "web/front-9", "web/hidden", "ml/train-3/worker", "upf-8"],
)
def test_screens(
    running: Past,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    width: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert explain(running, name) == (1 if name == "upf-8" else 0)
    shown = capsys.readouterr().out
    assert all(len(line) <= width and line == line.rstrip() for line in shown.splitlines())
    check_screen(shown, SCREENS / f"{name.replace('/', '-')}-{width}.txt")


def test_the_documentation_shows_these_screens(
    running: Past, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    for name in ("telco/upf-8d", "web/front-9"):
        explain(running, name)
        assert f"$ nri-numamem explain {name}\n{capsys.readouterr().out}```" in page


def test_without_colours_and_without_utf_8(
    running: Past, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    import subprocess
    import sys

    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "nri_numamem", "explain", "upf-8d", "--state-file"]
    done = subprocess.run(
        [*command, str(running.state_file)],
        capture_output=True,
        check=True,
        env={**environment, "PATH": os.environ["PATH"], "COLUMNS": "80"},
    )
    assert done.stdout.isascii()
    assert b"\x1b" not in done.stdout
    assert b"make room on NUMA node 0: 24.03Gi" in done.stdout


def test_the_document(running: Past, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(running, "telco/upf-8d/dpdk", "--last", "9", "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["pluginRuns"] is True
    assert document["history"]["begins"] == "2023-11-14T22:13:20Z"
    (container,) = document["containers"]
    assert (container["outcome"], container["podUid"]) == ("refused", "uid-upf-8d")
    assert container["repeated"]["first"] == "2023-11-14T22:14:50Z"
    assert container["repeated"]["count"] == sum(
        1 + entry["fields"].get("repeat_count", 0) for entry in container["decisions"]
    )
    newest = container["decisions"][0]
    assert (newest["event"], newest["outcome"]) == ("rejected", "refused")
    assert newest["fields"]["hints"]["devices"] == ["0"]
    assert "topologyManagerPolicy" not in newest["fields"]
    assert container["commands"][-1] == "nri-numamem simulate --now pod.yaml"
    assert explain(running, "telco/upf-8d/dpdk", "--last", "9", "--output", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == document


def test_a_plugin_that_stopped(past: Past, capsys: pytest.CaptureFixture[str]) -> None:
    past.record("stopped")
    assert explain(past, "postgres-0") == 0
    shown = capsys.readouterr().out
    assert "No plugin since 2023-11-14 22:16:10 UTC" in shown
    assert "The plugin stopped." in shown


def test_a_plugin_that_died(past: Past, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(past, "postgres-0") == 0
    shown = capsys.readouterr().out
    assert "No plugin runs" in shown
    assert "The last entry of the history is from 2023-11-14 22:16:10 UTC." in shown


def test_without_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "nri_numamem_state")
    assert main(["explain", "web-0", "--state-file", file]) == 1
    shown = capsys.readouterr().out
    assert "No history: the plugin has not run with the state file" in shown
    assert file in shown.replace("\n  ", "")


def test_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(tmp_path / "nri_numamem_state")
    monkeypatch.setattr("nri_numamem.cli.explain.read_history", _forbidden)
    assert main(["explain", "web-0", "--state-file", file]) == 2
    assert capsys.readouterr().err == (
        f"nri-numamem: {tmp_path}: Permission denied; run this as root\n"
    )
    monkeypatch.undo()
    (tmp_path / "history-0.log").mkdir()
    assert main(["explain", "web-0", "--state-file", file]) == 2
    assert "Is a directory; name the plugin's --state-file" in capsys.readouterr().err


def _forbidden(_path: Path) -> None:
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("count", ["0", "x", "1001", "-1"])
def test_a_wrong_number_of_decisions(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["explain", "web-0", f"--last={count}"])
    assert ended.value.code == 2
    assert "is not a number from 1 to 1000" in capsys.readouterr().err


def test_names_with_control_characters_are_escaped(
    running: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    running.create(running.pod("a\x1b[31m/evil\n"), "x\u202e", 1)
    assert explain(running, "uid-evil\n") == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\\u001b[31m/evil\\n" in shown


def test_the_keys_of_version_1(tmp_path: Path) -> None:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    past.record("stopped")
    query = Query.parsed("web/front-9/front")
    document = document_of(story_of(query, read(past.state_file), 1, is_running=False))
    assert list(document) == [
        *("version", "query", "history", "pluginRuns", "away"),
        *("containers", "assigned", "earlierPodUids", "didYouMean"),
    ]
    assert document["history"] == {
        "begins": "2023-11-14T22:13:20Z",
        "ends": "2023-11-14T22:16:10Z",
        "skippedLines": 0,
    }
    assert document["away"] == [
        {
            "since": "2023-11-14T22:13:20Z",
            "until": "2023-11-14T22:13:30Z",
            "cause": "the plugin started",
        },
        {"since": "2023-11-14T22:16:10Z", "until": None, "cause": "the plugin stopped"},
    ]
    containers = document["containers"]
    assert isinstance(containers, list)
    (container,) = containers
    assert list(container) == [
        *("namespace", "pod", "podUid", "container", "outcome", "repeated"),
        *(
            "decisions",
            "later",
            "siblings",
            "usedOutsideOfPods",
            "reserved",
            "remedy",
            "remedies",
            "commands",
            "plan",
        ),
    ]
    assert container["outcome"] == "not_managed"
    assert [one["fields"]["container"] for one in container["siblings"]] == ["front", "istio-proxy"]
    (decision,) = container["decisions"]
    assert list(decision) == ["time", "event", "outcome", "requestId", "fields"]
    assert decision["fields"]["qos_class"] == "Burstable"


def test_every_key_is_documented(tmp_path: Path) -> None:
    past = Past(tmp_path / "nri_numamem_state")
    telco(past)
    document = document_of(story_of(Query.parsed("upf-8d"), read(past.state_file), 1))
    page = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()
    words = set(re.findall(r"\w+", page.partition("## Document")[2]))
    assert set(document) <= words
    containers = document["containers"]
    assert isinstance(containers, list)
    assert set(containers[0]) | set(containers[0]["decisions"][0]) <= words


def test_a_pod_that_is_not_there(tmp_path: Path) -> None:
    document = document_of(story_of(Query.parsed("x"), read(tmp_path / "s"), 1))
    assert document["containers"] == []
    assert document["didYouMean"] is None
    assert document["history"] == {"begins": None, "ends": None, "skippedLines": 0}


def test_pods_of_one_name_in_two_namespaces(past: Past, capsys: pytest.CaptureFixture[str]) -> None:
    other = past.pod("web/postgres-0", uid="uid-web", sandbox_id="s-web")
    past.create(other, "postgres", 1)
    assert explain(past, "postgres-0") == 2
    assert capsys.readouterr().err == (
        "nri-numamem: postgres-0: pods of 2 namespaces are meant: db, web; write db/postgres-0\n"
    )
    assert explain(past, "web/postgres-0") == 0
