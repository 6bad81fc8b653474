"""Agent and plugin as processes: a burst of claims from the kubelet, containers, and the slice."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri_numamem.memorymanager import QosClass
from nri_numamem.observe.cdi import specification_file
from tests.cli.export.exporter_process import in_pod
from tests.cli.export.test_claims import SLICE, claim, of_name
from tests.dra_kubelet import prepare, register, unprepare
from tests.kubernetes_api import KubernetesApi
from tests.laboratory import api_pb2, objects
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import PLUGIN, SimulatedHost, wait_for

MI = 1 << 20
BURST = 50


@pytest.fixture(name="kubelet")
def _kubelet() -> Iterator[Path]:
    """Yield the kubelet's directory; a path of pytest is too long for a socket."""
    root = Path(tempfile.mkdtemp(prefix="k"))
    (root / "plugins_registry").mkdir()
    yield root
    shutil.rmtree(root)


@contextmanager
def running_agent(
    host: SimulatedHost, api: KubernetesApi, kubelet: Path, folder: Path
) -> Iterator[None]:
    environment, options = in_pod(api, folder)
    own = host.arguments({"--state-file": host.state_file})[2:]  # without the runtime's socket
    log = (folder / "agent.log").open("w")
    process = subprocess.Popen(
        [*PLUGIN, "agent", *own, *options, "--kubelet-root", str(kubelet), "--claims"],
        env={**os.environ, **environment},
        stdout=log,
        stderr=log,
    )
    try:
        yield
        process.terminate()
        assert process.wait(30) == 0, (folder / "agent.log").read_text()
    finally:
        process.kill()
        log.close()


def with_hooks(container: api_pb2.Container, specification: Path) -> api_pb2.Container:
    """Return a container with the edits of the claim's devices, as a runtime adds them."""
    for device in json.loads(specification.read_text())["devices"]:
        for hook in device["containerEdits"]["hooks"]:
            container.hooks.create_runtime.add(path=hook["path"], args=hook["args"])
    return container


def free_of_slice(api: KubernetesApi) -> dict[str, int]:
    devices: list[dict[str, Any]] = api.slices[SLICE]["spec"]["devices"]
    return {each["name"]: int(each["capacity"]["size"]["value"]) for each in devices}


@pytest.mark.slow
def test_a_burst_of_claims(simulated_host: SimulatedHost, kubelet: Path, tmp_path: Path) -> None:
    config, specifications = tmp_path / "config.yaml", tmp_path / "cdi"
    config.write_text(f"claims: {{enabled: true, cdiDirectory: {specifications}}}\n")
    names = [f"app{number}" for number in range(BURST)]
    with KubernetesApi() as api, FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        for name in (*names, "large"):
            api.claims[f"ns/{name}"] = claim(name, "16Mi" if name != "large" else "100Gi")
        with running_agent(simulated_host, api, kubelet, tmp_path):
            wait_for((kubelet / "plugins_registry/numamem.io-reg.sock").exists)
            endpoint = register(kubelet)
            with grpc.insecure_channel(f"unix://{endpoint}") as channel:
                with ThreadPoolExecutor(BURST) as pool:
                    began_s = time.monotonic()
                    took_s: list[float] = []

                    def timed(name: str) -> str:
                        error = prepare(channel, of_name(name)).error
                        took_s.append(time.monotonic() - began_s)
                        return error

                    assert set(pool.map(timed, names)) == {""}
                print("burst", sorted(took_s)[len(took_s) // 2], max(took_s))
                assert "memory" in prepare(channel, of_name("large")).error
                assert len(list(specifications.iterdir())) == BURST
                pod = runtime.run_pod_sandbox(objects.pod("app0", qos=QosClass.BEST_EFFORT))
                made = objects.container(pod, "app", qos=QosClass.BEST_EFFORT)
                file = specification_file(specifications, "uid-app0")
                resources = runtime.create_container(pod, with_hooks(made, file)).linux.resources
                assert (resources.cpu.mems, resources.memory.limit.value) == ("1", 16 * MI)
                # A claim takes nothing from the slice: the scheduler subtracts it. A pod does.
                wait_for(lambda: SLICE in api.slices)
                before = free_of_slice(api)["memory-0"]
                plain = runtime.run_pod_sandbox(objects.pod("plain", memory_limit_bytes=64 * MI))
                one = objects.container(plain, "app", memory_limit_bytes=64 * MI)
                assert runtime.create_container(plain, one).linux.resources.cpu.mems == "0"
                wait_for(lambda: free_of_slice(api)["memory-0"] == before - 64 * MI)
                runtime.stop_pod_sandbox(pod)
                for name in (*names, "large"):
                    assert unprepare(channel, of_name(name)) == ""
            wait_for(lambda: not list(specifications.iterdir()), "the end of all claims")
        assert simulated_host.stop(process) == 0
    released = [each["claim"] for each in simulated_host.records("claim_released")]
    assert sorted(released) == sorted(names)
