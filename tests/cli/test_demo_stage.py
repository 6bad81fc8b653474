import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.cli import stage as stage_module
from nri_numamem.cli.demo_stage import Stage, StageError
from nri_numamem.cli.demo_story import GI, PAGE_1GI, PodSpec
from nri_numamem.engine.qos import QosClass
from nri_numamem.nri.runtime import PluginRefused

# A plugin with the command line of the real one; what it does wrong is its first argument.
_PLUGIN = """
import json, signal, socket, sys
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime_testing import ScriptedPlugin
from nri_numamem.ttrpc import Code, StatusError

mode, *rest = sys.argv[1:]
options = dict(zip(rest[::2], rest[1::2]))
if mode == "ends":
    sys.exit("no such thing")
if mode == "mute":
    signal.pause()
signals = {signal.SIGUSR1, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
log = open(options["--log-file"], "w")


def create(payload):
    request = api.CreateContainerRequest.FromString(payload)
    if request.container.name == "big":
        raise StatusError(Code.UNKNOWN, "no room")
    response = api.CreateContainerResponse()
    response.adjust.linux.resources.cpu.mems = "1"
    if mode == "violates":
        response.update.add()
    return response.SerializeToString()


answers = {"CreateContainer": create}
if mode == "slow":
    answers["CreateContainer"] = lambda _payload: None
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.connect(options["--socket"])
with ScriptedPlugin(sock, answers, idx=options["--idx"]):
    while signal.sigwait(signals) == signal.SIGUSR1:
        if log.tell():
            print('"}', file=log)
        if mode != "bookless":
            print(json.dumps({"event": "other"}), file=log)
            print(json.dumps({"event": "books", "entries": {}, "machineState": {}}), file=log)
        log.write('{"event": "half a line')
        log.flush()
    if mode == "stubborn":
        signal.sigwait(signals)
"""

_SMALL = PodSpec("small", "server", QosClass.GUARANTEED, GI, {PAGE_1GI: GI})
_BIG = PodSpec("big", "big", QosClass.GUARANTEED, GI)

Staged = Callable[[str], Stage]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Staged:
    script = tmp_path / "plugin.py"
    script.write_text(_PLUGIN)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda mode: Stage((sys.executable, str(script), mode))


def _left_over(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("numamem-*"))


def test_pods_come_and_go(stage: Staged, tmp_path: Path) -> None:
    with stage("good") as staged:
        assert staged.books()["entries"] == {}
        assert staged.start_pod(_SMALL).cpu.mems == "1"
        (root,) = _left_over(tmp_path)
        (limit,) = root.glob("cgroup/kubepods/pod*/hugetlb.1GB.max")
        assert limit.read_text() == f"{GI}\n"
        with pytest.raises(PluginRefused, match="no room"):
            staged.start_pod(_BIG)
        assert len(list(root.glob("cgroup/kubepods/pod*"))) == 1
        assert sorted(staged.pod_names.values()) == ["big", "small"]
        staged.remove_pod(_SMALL)
        assert not list(root.glob("cgroup/kubepods/pod*"))
        staged.start_pod(_SMALL)
        assert staged.books()["machineState"] == {}
        assert staged.call_count > 10
    assert _left_over(tmp_path) == []


def test_a_plugin_that_ends_is_quoted(stage: Staged, tmp_path: Path) -> None:
    with pytest.raises(StageError) as failed, stage("ends"):
        pass
    first, *rest = str(failed.value).splitlines()
    assert first == "the plugin failed: it ended with status 1; the end of its log:"
    assert rest == ["no such thing"]
    assert _left_over(tmp_path) == []


def test_a_plugin_that_does_not_connect(stage: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_START_TIMEOUT_S", 0.2)
    with pytest.raises(StageError, match="the plugin failed: timed out; it said nothing"):
        stage("mute").__enter__()


def test_a_plugin_that_logs_no_books(stage: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_BOOKS_TIMEOUT_S", 0.2)
    with (
        stage("bookless") as staged,
        pytest.raises(StageError, match="did not log its books; it said nothing"),
    ):
        staged.books()


def test_a_plugin_that_does_not_answer(stage: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_REQUEST_TIMEOUT_S", 1.0)
    with stage("slow") as staged, pytest.raises(StageError, match="no reply to CreateContainer"):
        staged.start_pod(_SMALL)


def test_a_plugin_that_breaks_the_rules(stage: Staged) -> None:
    with stage("violates") as staged, pytest.raises(StageError, match="names no container"):
        staged.start_pod(_SMALL)


def test_a_stubborn_plugin_is_killed(
    stage: Staged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_module, "_EXIT_TIMEOUT_S", 0.2)
    with stage("stubborn"):
        pass
    assert _left_over(tmp_path) == []


def test_a_long_temporary_path_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / ("long" * 25)
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    with pytest.raises(StageError, match="set TMPDIR to a short path"):
        Stage().__enter__()
    assert list(directory.iterdir()) == []


def test_books_need_a_stage() -> None:
    with pytest.raises(RuntimeError, match="enter the stage"):
        Stage().books()
    assert Stage().call_count == 0
    Stage().close()
