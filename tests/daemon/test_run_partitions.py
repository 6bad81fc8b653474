"""Partitions in a running plugin: labels from the runtime, pods of each QoS class, commands."""

import json
import re
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.memorymanager import QosClass
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import SimulatedHost

GI = 1 << 30

PARTITIONS = """\
partitions:
- name: serving
  nodes: 1
  selector: {app.kubernetes.io/name: llm}
  exclusive: all
  confine: true
"""


def created_on(
    runtime: FakeRuntime,
    name: str,
    qos: QosClass = QosClass.GUARANTEED,
    size_bytes: int = GI,
    cpuset_mems: str = "",
) -> str:
    """Start a pod with one container; return its `cpuset.mems`."""
    started = runtime.run_pod_sandbox(objects.pod(name, qos=qos, memory_limit_bytes=size_bytes))
    container = objects.container(
        started, "c", qos=qos, memory_limit_bytes=size_bytes, cpuset_mems=cpuset_mems
    )
    return runtime.create_container(started, container).linux.resources.cpu.mems


def test_pods_of_each_class_get_the_nodes_of_their_partition(
    simulated_host: SimulatedHost,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(PARTITIONS)
    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        assert created_on(runtime, "llm") == "1"
        assert created_on(runtime, "web") == "0"
        assert created_on(runtime, "job", QosClass.BURSTABLE) == "0"
        assert created_on(runtime, "probe", QosClass.BEST_EFFORT, 0) == "0"
        # As another plugin has set it; the runtime fails a creation for which two plugins set it.
        assert created_on(runtime, "other", QosClass.BURSTABLE, cpuset_mems="0-1") == "0-1"
        with pytest.raises(PluginRefused) as refused:
            created_on(runtime, "big", size_bytes=5 * GI)
        assert simulated_host.stop(process) == 0
    text = "; pods without a partition have node 0; memory 2.83Gi free on other NUMA nodes; "
    assert text in str(refused.value)
    confined = [record["pod"] for record in simulated_host.records("confined")]
    assert confined == ["job", "probe"]
    arguments = simulated_host.arguments({"--state-file": simulated_host.state_file})[2:]
    main(["status", "--output", "json", *arguments])
    serving, rest = json.loads(capsys.readouterr().out)["partitions"]
    assert [(each["name"], each["nodes"]) for each in (serving, rest)] == [
        ("serving", [1]),
        ("default", [0]),
    ]
    memory = serving["resources"]["memory"]
    assert memory["assigned"] == GI
    assert serving["largestRequest"]["memory"]["oneNode"] == {"bytes": memory["free"], "nodes": [1]}
    main(["status", *arguments])
    row = r"  serving +1 +memory +2\.82Gi of 3\.82Gi +2\.82Gi on node 1\n"
    assert re.search(row, capsys.readouterr().out)
    for pod in confined:
        main(["explain", f"default/{pod}", *arguments[-2:]])
        shown = capsys.readouterr().out
        assert shown.startswith(f"default/{pod}: not managed ")
        assert re.search(r"\n  later .*  confined, partition default, nodes 0\n", shown)
