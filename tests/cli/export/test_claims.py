"""The agent as a process: the kubelet is grpcio, the plugin and the API server are stand-ins."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri_numamem.cli.main import main
from nri_numamem.kubelet import dra_pb2 as pb
from nri_numamem.observe.claim_files import directory_of
from tests.claim_plugin import ClaimPlugin
from tests.cli.export.export_host import ExportHost
from tests.cli.export.exporter_process import ExporterProcess, in_pod
from tests.dra_kubelet import prepare, register, unprepare
from tests.kubernetes_api import KubernetesApi
from tests.simulated_host import wait_for

SLICE = "worker-1-numamem.io"


@pytest.fixture(name="api")
def _api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        yield api


@pytest.fixture(name="kubelet")
def _kubelet() -> Iterator[Path]:
    """Yield the kubelet's directory; a path of pytest is too long for a socket."""
    root = Path(tempfile.mkdtemp(prefix="k"))
    (root / "plugins_registry").mkdir()
    yield root
    shutil.rmtree(root)


def claim(name: str, size: str = "1Gi") -> dict[str, Any]:
    result = {
        "request": "mem",
        "driver": "numamem.io",
        "pool": "worker-1",
        "device": "memory-1",
        "consumedCapacity": {"size": size},
    }
    return {
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def of_name(name: str) -> pb.Claim:
    return pb.Claim(namespace="ns", name=name, uid=f"uid-{name}")


@pytest.mark.slow
def test_the_life_of_an_agent(
    host: ExportHost, api: KubernetesApi, kubelet: Path, tmp_path: Path
) -> None:
    environment, options = in_pod(api, tmp_path)
    options += ["--kubelet-root", str(kubelet), "--claims"]
    agent = ExporterProcess(tmp_path, host, *options, environment=environment, name="agent")
    with ClaimPlugin(directory_of(host.state_file)) as plugin, agent:
        agent.wait_event("topology_written")
        assert not api.slices
        endpoint = register(kubelet)
        assert endpoint == str(kubelet / "plugins/numamem.io/dra.sock")
        agent.wait_event("slice_written")
        first = api.slices[SLICE]
        assert first["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
        with grpc.insecure_channel(f"unix://{endpoint}") as channel:
            api.claims["ns/app"] = claim("app")
            assert not prepare(channel, of_name("app")).error
            plugin.refusals["large"] = "NUMA node 1 has memory 1Gi free of 900Gi requested"
            api.claims["ns/large"] = claim("large", "900Gi")
            assert prepare(channel, of_name("large")).error == plugin.refusals["large"]
            assert (
                "delete the pod, or create the claim" in prepare(channel, of_name("missing")).error
            )
            assert list(plugin.intents()) == ["app", "large"]
            assert unprepare(channel, of_name("app")) == ""
            assert list(plugin.intents()) == ["large"]
        # A pod starts; then the kubelet deletes the slice.
        host.run_pod("b")
        host.save()
        wait_for(lambda: api.slices[SLICE]["spec"]["devices"] != first["spec"]["devices"])
        assert api.slices[SLICE]["spec"]["pool"]["generation"] == 2
        del api.slices[SLICE]
        wait_for(lambda: SLICE in api.slices)
        assert agent.stop() == 0
        assert SLICE in api.slices, "the kubelet deletes it if no agent starts"
    assert not list((kubelet / "plugins_registry").iterdir())
    assert {"driver_registered", "prepare_succeeded", "prepare_failed"} <= set(agent.events())


@pytest.mark.slow
def test_an_api_server_without_the_feature_gate(
    host: ExportHost, api: KubernetesApi, kubelet: Path, tmp_path: Path
) -> None:
    environment, options = in_pod(api, tmp_path)
    options += ["--kubelet-root", str(kubelet), "--claims"]
    api.has_consumable_capacity = False
    agent = ExporterProcess(tmp_path, host, *options, environment=environment, name="agent")
    with agent:
        agent.wait_event("topology_written")
        register(kubelet)
        failed = agent.wait_event("slice_write_failed")
        assert (failed["failure"], failed["cause"]) == (
            "dropped",
            "the API server drops consumable capacity",
        )
        wait_for(lambda: [s.method for s in api.seen if "resourceslices" in s.path][-1] == "DELETE")
        assert not api.slices


def error_of(
    host: ExportHost, api: KubernetesApi, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    *options: str,
) -> str:  # fmt: skip
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    arguments = [*host.arguments(), "--node-name", "worker-1", "--kubeconfig", str(kubeconfig)]
    assert main(["agent", "--claims", *arguments, *options]) == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("nri-numamem: --claims: ")


def test_what_keeps_the_agent_from_serving_claims(
    host: ExportHost,
    api: KubernetesApi,
    kubelet: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    registry = kubelet / "plugins_registry"
    registry.rmdir()
    root = ("--kubelet-root", str(kubelet))
    error = error_of(host, api, tmp_path, capsys, *root)
    assert error.startswith(f"{registry}/numamem.io-reg.sock: No such file or directory; ")
    assert not (kubelet / "plugins/numamem.io/dra.sock").exists()
    shutil.rmtree(kubelet / "plugins")
    (kubelet / "plugins").write_text("")
    error = error_of(host, api, tmp_path, capsys, *root)
    assert error == f"{kubelet}/plugins/numamem.io: Not a directory"
    error = error_of(host, api, tmp_path, capsys, *root, "--state-file", "")
    assert error.startswith("the setting stateFile is empty")
    long = tmp_path / ("x" * 100)  # a socket's path has at most 107 bytes
    error = error_of(host, api, tmp_path, capsys, *root, "--state-file", str(long / "state"))
    assert error == f"{long}/state.claims: AF_UNIX path too long"
