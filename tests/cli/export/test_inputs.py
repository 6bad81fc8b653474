"""The stamp differs when something has changed, and reading never fails."""

import argparse
import os
from collections.abc import Callable

import pytest

from nri_numamem.cli import export
from nri_numamem.cli.export.inputs import HostInputs
from nri_numamem.export.conditions import Input
from tests.cli.export.export_host import ExportHost


@pytest.fixture(name="inputs")
def _inputs(host: ExportHost) -> HostInputs:
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    return HostInputs(parser.parse_args(host.arguments()), "worker-1", None)


def state(host: ExportHost) -> None:
    host.run_pod("b")
    temporary = host.state_file.with_name("new")
    before = host.state_file
    host.state_file = temporary
    host.save()
    temporary.replace(before)
    host.state_file = before


def plugin(host: ExportHost) -> None:
    host.describe(version="9")


def cpu_state(host: ExportHost) -> None:
    host.write_cpu_state({"policyName": "static", "defaultCpuSet": "0-3", "checksum": 1})


def kubelet(host: ExportHost) -> None:
    host.write_kubelet("kind: KubeletConfiguration\nreservedSystemCPUs: '0'\n")


def pod(host: ExportHost) -> None:
    (host.cgroups / "kubepods/podz").mkdir()


def other_pod(host: ExportHost) -> None:
    (host.cgroups / "kubepods/burstable/podz").mkdir(parents=True)


def name(host: ExportHost) -> None:
    host.name_pod("z")
    os.utime(host.pod_logs, (1, 1))


def hugepages(host: ExportHost) -> None:
    host.use_hugepages(1, 2)


CHANGES: list[Callable[[ExportHost], None]] = [
    state, plugin, cpu_state, kubelet, pod, other_pod, name, hugepages,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_stamp_shows_changes(
    host: ExportHost, inputs: HostInputs, change: Callable[[ExportHost], None]
) -> None:
    inputs.read()
    before = inputs.stamp()
    assert inputs.stamp() == before
    hash(before)
    change(host)
    assert inputs.stamp() != before


def test_a_host_that_cannot_be_read_has_a_stamp(host: ExportHost, inputs: HostInputs) -> None:
    inputs.read()
    before = inputs.stamp()
    pool = host.root / "sys/devices/system/node/node0/hugepages/hugepages-1048576kB"
    (pool / "free_hugepages").write_text("x\n")
    assert inputs.stamp() != before
    assert inputs.stamp() == inputs.stamp()


def test_reading(host: ExportHost, inputs: HostInputs) -> None:
    reading = inputs.read()
    assert reading.problems == ()
    assert reading.document is not None
    assert reading.document["kind"] == "NodeResourceTopology"
    host.write_kubelet("kind: Pod\n")
    reading = inputs.read()
    assert reading.document is None
    (problem,) = reading.problems
    assert problem.input is Input.OBJECT
    assert "no 'kind: KubeletConfiguration'" in problem.text
    host.state_file.unlink()
    reading = inputs.read()
    assert reading.document is None
    assert reading.problems[-1].input is Input.OBJECT
