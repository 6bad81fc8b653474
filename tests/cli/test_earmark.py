"""The command ``earmark``: what it shows, and what it cannot do; a plugin is in another test."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.main import main
from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.observe import earmark_files
from nri_numamem.observe.earmark_files import EarmarkAnswer
from nri_numamem.observe.files import replace_file
from tests.cli.explain.shop import Shop
from tests.cli.live.live_host import LiveHost, four_nodes
from tests.engine.features.earmarks.earmark_host import earmark

ENABLED = "earmarks: {enabled: true}\n"


class Desk:
    """Commands on a host, whose plugin holds its lock and answers nothing."""

    def __init__(self, host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
        self.host = host
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str]:
        return self.run_command("earmark", *words)

    def run_command(self, *words: str) -> tuple[int, str]:
        status = main([*words, *self.host.arguments()])
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def fail(self, *words: str) -> str:
        status, text = self.run(*words)
        assert status == 2
        assert text.startswith("nri-numamem: ")
        return text.removeprefix("nri-numamem: ").rstrip("\n")

    @property
    def directory(self) -> Path:
        return earmark_files.directory_of(self.host.state_file)

    def runs(self) -> AbstractContextManager[object]:
        return self.host.running()


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    host = LiveHost(tmp_path, four_nodes(), ENABLED)
    host.save()
    return Desk(host, capsys)


def test_the_list_shows_for_whom_room_is_set_aside(desk: Desk) -> None:
    assert desk.run("list") == (0, "nothing is set aside\n")
    made = earmark("e1", "0-1", 2048, to="big", expires=10**11)
    state = restore(desk.host.state_file.read_bytes())
    desk.host.state_file.write_bytes(snapshot(replace(state, earmarks={"e1": made})))
    status, text = desk.run("list")
    assert status == 0
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert rows[1] == "for nodes set aside left ends in earmark"
    assert rows[2].startswith("ns/pod-big 0-1 2Gi memory 2Gi memory ")
    assert rows[2].endswith(" d e1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("make",), "name either a POD or --label"),
        (("make", "a", "--label", "a=b"), "name either a POD or --label"),
        (("make", "--label", "a=b"), "--label: name the --namespace of the pods"),
        (("make", "--label", "a", "--namespace", "x"), "--label: 'a' is not KEY=VALUE"),
        (("make", "a", "--namespace", "x"), "--namespace: only with --label; write NAMESPACE/NAME"),
        (("make", "a", "--memory", "1Gi"), "a: no such pod in the history"),
        (("make", "--label", "a=b", "--namespace", "x"), "--memory: give an amount such as 90Gi"),
        (
            ("make", "--label", "a=b", "--namespace", "x", "--memory", "1Gi"),
            "--nodes: it is missing; give NUMA nodes such as 0-1",
        ),
        (
            ("make", "--label", "a=b", "--namespace", "x", "--memory", "lots"),
            "--memory: ",
        ),
        (
            ("make", "--label", "a=b", "--namespace", "x", "--memory", "0"),
            "--memory: it must not be 0",
        ),
        (
            ("make", "--label", "a=b", "--namespace", "x", "--memory", "1Gi", "--nodes", "x"),
            "--nodes: 'x' is not a list of NUMA nodes such as 0-1,3",
        ),
        (
            (
                *("make", "--label", "a=b", "--namespace", "x", "--memory", "1Gi"),
                *("--nodes", "1", "--uid", "A/b"),
            ),
            "--uid: 'A/b' is not of a-z, 0-9 and -, at most 63",
        ),
        (("drop",), "name either earmarks, see nri-numamem earmark list, or --all"),
        (("drop", "x", "--all"), "name either earmarks, see nri-numamem earmark list, or --all"),
        (("drop", "x"), "'x' is no earmark; see nri-numamem earmark list"),
    ],
)
def test_one_line_says_what_is_wrong(desk: Desk, words: tuple[str, ...], text: str) -> None:
    with desk.runs():
        assert desk.fail(*words).startswith(text)
    assert not (desk.directory / "wanted").exists()


def test_a_refused_pod_has_its_request_and_the_nodes_of_its_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, ENABLED)
    for uid, size in (("gone", 58), ("small", 5), ("other", 54), ("large", 58), ("p3", 40)):
        shop.run(uid, size)
    for uid in ("gone", "other"):
        shop.end(uid)
    shop.refuse("big", 90)
    plan = shop.plan("big-x", capsys)
    assert plan["moves"]
    monkeypatch.setattr(earmark_requests, "ANSWER_S", 0.1)
    desk = Desk(shop.host, capsys)
    written = []
    monkeypatch.setattr(earmark_files, "write_wanted", lambda _d, each: written.append(each))
    with desk.runs():
        assert desk.fail("make", "big-x") == "the plugin did not answer within 0.1 s; see its log"
    (made,) = written
    assert list(made.room.nodes) == plan["nodes"]
    assert made.room.amounts == {"memory": 90 << 30}
    assert str(made.beneficiary) == "shop/big-x"
    assert made.beneficiary.uid == "big"


def test_without_an_answer_nothing_is_left(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earmark_requests, "ANSWER_S", 0.1)
    words = ("--label", "a=b", "--namespace", "x", "--memory", "1Gi", "--nodes", "1")
    with desk.runs():
        assert desk.fail("make", *words) == "the plugin did not answer within 0.1 s; see its log"
        assert not earmark_files.read_wanted(desk.directory).uids
        earmark_files.write_wanted(desk.directory, earmark("e1", "0", 1, to="x"))
        earmark_files.write_answers(desk.directory, {"e1": EarmarkAnswer(1000)})
        assert desk.fail("drop", "e1").startswith("the plugin did not answer")


def test_a_plugin_that_does_not_read_earmarks_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = Desk(LiveHost(tmp_path, four_nodes()), capsys)
    desk.host.save()
    assert desk.fail("drop", "--all").startswith("the plugin does not run")
    with desk.runs():
        text = desk.fail("drop", "--all")
    assert text.endswith("earmarks.enabled is not true; set it and restart the plugin")


def test_damaged_answers_are_named(desk: Desk) -> None:
    replace_file(earmark_files.answers_file(desk.directory), b"{")
    words = ("--label", "a=b", "--namespace", "x", "--memory", "1Gi", "--nodes", "1")
    with desk.runs():
        text = desk.fail("make", *words)
    assert "answers/earmarks.json: not JSON" in text
    assert text.endswith("; remove the file")


@pytest.mark.parametrize("minutes", ["0", "1441", "x"])
def test_minutes_have_limits(desk: Desk, minutes: str) -> None:
    with pytest.raises(SystemExit) as end:
        desk.run("make", "a", "--minutes", minutes)
    assert end.value.code == 2
