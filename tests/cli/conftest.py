"""A sandbox of the demo with a scripted plugin; a host for the checks of doctor."""

import fcntl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.demo.sandbox import DemoSandbox
from tests.cli.doctor.host_files import STATE, HostFiles

# A plugin with the command line of the real one; its first argument is its defect.
_PLUGIN = """
import json, signal, socket, sys
from nri_numamem.nri import api_pb2 as api
from nri_numamem.fake_runtime.table_plugin import TablePlugin
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
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda mode: DemoSandbox((sys.executable, str(script), mode))


@pytest.fixture(name="host_files")
def _host_files(tmp_path: Path) -> HostFiles:
    return HostFiles(tmp_path)


@pytest.fixture(name="good_host")
def _good_host(host_files: HostFiles) -> Iterator[HostFiles]:
    """Yield a good host whose lock is held."""
    with host_files.path(f"{STATE}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield host_files
