"""Partitions: labels of pods arrive, and a second plugin may set `cpuset.mems` as well."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri_numamem.memorymanager import QosClass
from tests.conformance.bench import Bench, mems_of
from tests.conformance.go_runtime import GoError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.table_plugin import TablePlugin
from tests.simulated_host import GI

PARTITIONS = """\
partitions:
- name: serving
  nodes: 1
  selector: {app.kubernetes.io/name: llm}
  exclusive: all
"""


@contextmanager
def partitioned(version: str, root: Path) -> Iterator[Bench]:
    """Connect a plugin with one closed partition, which has node 1."""
    config = root / "config.yaml"
    config.write_text(PARTITIONS)
    with Bench(version, root, "--config", str(config)) as bench:
        bench.connected()
        yield bench


@contextmanager
def plugin_that_claims_both_nodes(bench: Bench, root: Path, idx: str) -> Iterator[None]:
    claim = api.CreateContainerResponse()
    claim.adjust.linux.resources.cpu.mems = "0-1"
    replies = {"CreateContainer": lambda _payload: claim.SerializeToString()}
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(root / "go.sock"))
    with TablePlugin(sock, replies, name="other", idx=idx):
        bench.runtime.wait_connected(2)
        yield


@pytest.mark.scenario(74)
def test_labels_choose_the_partition(version: str, tmp_path: Path) -> None:
    with partitioned(version, tmp_path) as bench:
        with bench.pod("llm") as pod:
            assert (
                mems_of(bench.create(pod, objects.container(pod, "c", memory_limit_bytes=GI)))
                == "1"
            )
        for qos in (QosClass.BURSTABLE, QosClass.BEST_EFFORT):
            with bench.pod(str(qos).lower(), qos=qos) as pod:
                assert mems_of(bench.create(pod, objects.container(pod, "c", qos=qos))) == "0"
        assert bench.entries() == {}


@pytest.mark.scenario(74)
def test_nodes_of_an_earlier_plugin_are_left(version: str, tmp_path: Path) -> None:
    with (
        partitioned(version, tmp_path) as bench,
        plugin_that_claims_both_nodes(bench, tmp_path, "05"),
        bench.pod("burst", qos=QosClass.BURSTABLE) as pod,
    ):
        created = bench.create(pod, objects.container(pod, "c", qos=QosClass.BURSTABLE))
        assert mems_of(created) == "0-1"
        assert not bench.host.records("confined")


@pytest.mark.scenario(74)
def test_a_later_plugin_fails_the_creation(version: str, tmp_path: Path) -> None:
    """Nothing stays, and the next creation without that plugin succeeds."""
    with partitioned(version, tmp_path) as bench, bench.pod("burst", qos=QosClass.BURSTABLE) as pod:
        container = objects.container(pod, "c", qos=QosClass.BURSTABLE)
        with (
            plugin_that_claims_both_nodes(bench, tmp_path, "20"),
            pytest.raises(GoError, match="both tried to set"),
        ):
            bench.create(pod, container)
        again = objects.container(pod, "c", qos=QosClass.BURSTABLE, attempt=1)
        assert mems_of(bench.create(pod, again)) == "0"
