"""The short connection of ``nri-numamem reset`` against a runtime that misbehaves."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.reset.sender import Sender
from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.system import host_system
from nri_numamem.numa import NodeSet
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime

GI = 1 << 30
IDENTITY = Identity("nri-numamem-reset", "10")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[FakeRuntime]:
    with FakeRuntime() as runtime:
        runtime.listen(tmp_path / "nri.sock")
        yield runtime


def send(path: Path, targets: dict[str, NodeSet]) -> Sender:
    system = host_system()
    with system.open_signals() as signals:
        sender = Sender(targets, lambda: True, system, signals)
        sender.send(path, IDENTITY)
    return sender


def test_only_containers_that_run_get_an_update(runtime: FakeRuntime, tmp_path: Path) -> None:
    pod = runtime.run_pod_sandbox(objects.pod("db", memory_limit_bytes=GI))
    created = runtime.create_container(pod, objects.container(pod, "a", memory_limit_bytes=GI))
    sent = []

    def serve() -> None:
        runtime.accept()
        sent.extend(runtime.synchronize())

    thread = threading.Thread(target=serve)
    thread.start()
    sender = send(tmp_path / "nri.sock", {created.id: NodeSet([0, 1]), "other": NodeSet([0])})
    thread.join()
    assert sender.unknown == {"other"}
    assert [(u.container_id, u.linux.resources.cpu.mems) for u in sent] == [(created.id, "0-1")]


def test_a_runtime_that_closes_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def close() -> None:
            listener.accept()[0].close()

        thread = threading.Thread(target=close)
        thread.start()
        with pytest.raises(UsageError, match=r"did not synchronize: .*; its log says why"):
            send(path, {"a": NodeSet([0])})
        thread.join()


def test_no_runtime(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nri.sock: No such file or directory; start the runtime"):
        send(tmp_path / "nri.sock", {"a": NodeSet([0])})
