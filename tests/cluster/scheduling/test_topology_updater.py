"""NFD's topology updater makes its object from the PodResources API that `export` serves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.export.exporter_process import ExporterProcess
from tests.cli.export.fake_kubelet import NIC, FakeKubelet, nics
from tests.cluster.kubernetes.api import Api
from tests.cluster.kubernetes.programs import TOPOLOGY_UPDATER, built
from tests.cluster.kubernetes.servers import ADMIN, ControlPlane
from tests.cluster.scheduling.objects import GI
from tests.cluster.scheduling.worker import Worker

pytestmark = pytest.mark.timeout(1200)

CPUS, RESERVED = range(8), 0
_KUBELET_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: single-numa-node
topologyManagerScope: container
"""
_UPDATE_S = 300


@pytest.fixture
def worker(workers: list[Worker]) -> Worker:
    """Return a host with a pod on each of its two nodes; a pod has a network device and 5 GiB."""
    worker = workers[0]
    worker.start_pod("first", 5)
    worker.start_pod("second", 5)
    assert worker.available_gib() == [3, 3]
    return worker


@pytest.fixture
def kubelet(worker: Worker) -> Iterator[FakeKubelet]:
    """Serve as the kubelet of the host, with the static CPU manager."""
    with FakeKubelet(worker.kubelet / "pod-resources/kubelet.sock") as kubelet:
        kubelet.allocatable.cpu_ids.extend(cpu for cpu in CPUS if cpu != RESERVED)
        kubelet.allocatable.devices.extend([nics(["n0"], 0), nics(["n1", "n2"], 1)])
        kubelet.run_pod("first", nics=nics(["n0"], 0))
        kubelet.run_pod("second", nics=nics(["n1"], 1))
        yield kubelet


@pytest.fixture
def served(worker: Worker, kubelet: FakeKubelet, tmp_path: Path) -> Iterator[Path]:
    """Run `nri-numamem export --no-write --podresources`; return its socket."""
    path = tmp_path / "p.sock"
    options = ("--no-write", "--podresources", f"unix://{path}")
    with ExporterProcess(tmp_path, worker, *options) as exporter:
        exporter.wait_event("podresources_started")
        yield path
        assert exporter.stop() == 0
        assert "podresources_failed" not in exporter.events()


def complete_sysfs(worker: Worker) -> None:
    """Add what the updater reads of the nodes, and the plugin does not."""
    bus = worker.root / "sys/bus/node/devices"
    bus.mkdir(parents=True)
    for number in range(2):
        node = worker.root / f"sys/devices/system/node/node{number}"
        (bus / node.name).symlink_to(node)
        (node / "hugepages").mkdir(exist_ok=True)
        for cpu in CPUS[4 * number : 4 * number + 4]:
            (node / f"cpu{cpu}/topology").mkdir(parents=True)
            (node / f"cpu{cpu}/topology/core_id").write_text(f"{cpu}\n")


def update(worker: Worker, plane: ControlPlane, socket: Path, directory: Path) -> None:
    """Let the updater write the object once."""
    complete_sysfs(worker)
    (worker.kubelet / "device-plugins").mkdir()
    (directory / "host-sys").symlink_to(worker.root / "sys")
    (directory / "kubelet.yaml").write_text(_KUBELET_CONFIG)
    kubeconfig = plane.kubeconfig("updater", token=plane.tokens[ADMIN])
    options = {
        "kubeconfig": kubeconfig,
        "podresources-socket": socket,
        "kubelet-config-uri": f"file://{directory}/kubelet.yaml",
        "kubelet-state-dir": worker.kubelet,
        "sleep-interval": "1s",
        "metrics": 0,
        "grpc-health": 0,
        "oneshot": "true",
        "v": 1,
    }
    done = subprocess.run(
        [built(TOPOLOGY_UPDATER), *(f"-{name}={value}" for name, value in options.items())],
        cwd=directory,
        env={
            "NODE_NAME": worker.name,
            "KUBERNETES_NAMESPACE": "shop",
            "GHW_CHROOT": str(directory),  # where the library that reads the nodes finds host-sys
        },
        capture_output=True,
        text=True,
        timeout=_UPDATE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def available(admin: Api, worker: Worker) -> dict[str, dict[str, str]]:
    """Return zone -> resource -> what is available, in the object of the API server."""
    return {
        zone["name"]: {each["name"]: each["available"] for each in zone["resources"]}
        for zone in admin.get(worker.path)["zones"]
    }


def test_on_the_kubelets_own_socket_the_updater_writes_no_memory(
    worker: Worker, kubelet: FakeKubelet, control_plane: ControlPlane, admin: Api, tmp_path: Path
) -> None:
    update(worker, control_plane, kubelet.path, tmp_path)
    found = available(admin, worker)
    assert {name: set(of_zone) for name, of_zone in found.items()} == {
        "node-0": {"cpu", NIC},
        "node-1": {"cpu", NIC},
    }


def test_the_updater_writes_the_memory_of_the_plugin(
    worker: Worker, served: Path, control_plane: ControlPlane, admin: Api, tmp_path: Path
) -> None:
    update(worker, control_plane, served, tmp_path)
    found = available(admin, worker)
    expected = {
        zone["name"]: next(each for each in zone["resources"] if each["name"] == "memory")
        for zone in worker.export()["zones"]
    }
    assert {name: int(of_zone["memory"]) for name, of_zone in found.items()} == {
        name: int(memory["available"]) for name, memory in expected.items()
    }
    assert {name: int(of_zone["memory"]) // GI for name, of_zone in found.items()} == {
        "node-0": 3,
        "node-1": 3,
    }
    assert {name: of_zone["cpu"] for name, of_zone in found.items()} == {
        "node-0": "3",
        "node-1": "4",
    }
    assert {name: of_zone[NIC] for name, of_zone in found.items()} == {
        "node-0": "0",
        "node-1": "1",
    }
