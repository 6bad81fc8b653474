"""A sandbox of the demo with a scripted plugin."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.laboratory.demo import DemoSandbox

# A plugin with the command line of the real one; its first argument is its defect.
_PLUGIN = """
import json, signal, socket, sys
from tests.laboratory import api_pb2 as api
from tests.laboratory.table_plugin import TablePlugin
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


replies = {"CreateContainer": create}
if mode == "slow":
    replies["CreateContainer"] = lambda _payload: None
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.connect(options["--socket"])
with TablePlugin(sock, replies, idx=options["--idx"]):
    while signal.sigwait(signals) == signal.SIGUSR1:
        if log.tell():
            print('"}', file=log)
        if mode != "dumpless":
            print(json.dumps({"event": "other"}), file=log)
            print(json.dumps({"event": "state_dump", "entries": {}, "machineState": {}}), file=log)
        log.write('{"event": "half a line')
        log.flush()
    if mode == "stubborn":
        signal.sigwait(signals)
"""

Make = Callable[[str], DemoSandbox]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    script = tmp_path / "plugin.py"
    script.write_text(_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda mode: DemoSandbox((sys.executable, str(script), mode))
