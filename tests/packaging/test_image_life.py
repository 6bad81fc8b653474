"""Lives of the image's container under exactly the security settings and mounts of the chart.

runc runs it, with the fake runtime on the path of the real one; see pod.py.
"""

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import claim_hook
import pytest
from image import glibc
from image import root as image_root
from single_file.commands import BuildError

from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles
from tests.kubernetes_api import KubernetesApi
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.packaging import manifests
from tests.packaging.manifests import NAME, only, render_chart, validated
from tests.packaging.pod import RUNC, WAIT_S, Pod
from tests.packaging.single_file_program import PROGRAM, TWIN, needs_program, needs_root, needs_twin
from tests.simulated_host import wait_for

MI, GI = 1 << 20, 1 << 30
SYSFS = ("devices/system/node", "kernel/mm/hugepages")

needs_runc = pytest.mark.skipif(RUNC is None, reason="runc is missing")
pytestmark = [pytest.mark.slow, needs_program, needs_root, needs_runc, manifests.needs_tools]

Spec = dict[str, Any]


@pytest.fixture(scope="module")
def library() -> dict[str, bytes]:
    try:
        return dict(glibc.files(glibc.package(glibc.cache_root())))
    except BuildError as error:
        pytest.skip(f"the C library cannot be had: {error}")


@pytest.fixture
def spec() -> Spec:
    """Return the pod of the chart with its default values."""
    found: Spec = copy.deepcopy(only(validated(render_chart()), "DaemonSet")["spec"])
    pod: Spec = found["template"]["spec"]
    return pod


class Node:
    """A node of a cluster, with two NUMA nodes: its files, its runtime, and its pods."""

    def __init__(self, folder: Path, library: dict[str, bytes]) -> None:
        self._folder = folder
        self._library = library
        self._pods = 0
        nodes = tuple(
            NumaNode(number, 4 * GI, {2 * MI: 64}, CpuSet([number]), {number: 10, 1 - number: 21})
            for number in range(2)
        )
        self.files = HostFiles(folder / "host", Machine(nodes))
        self.config = folder / "config"
        self.config.mkdir()
        (self.config / "config.yaml").write_text("logLevel: debug\n")
        self.run = folder / "run"
        self.run.mkdir()
        self.state = folder / "state"
        self.bin = folder / "bin"
        self.account = KubernetesApi().write_service_account(folder / "account")

    def start(self, spec: Spec, *, program: Path = PROGRAM) -> Pod:
        """Start a pod; the program may be another one."""
        self._pods += 1
        folder = self._folder / f"{self._pods}"
        root = folder / "root"
        root.mkdir(parents=True)
        image_root.write(root, image_root.entries(program, self._library))
        volumes = {
            "nri-numamem": self.config,
            "/var/run/nri": self.run,
            "/var/lib/nri-numamem": self.state,
            "/sys/fs/cgroup": self.files.roots.cgroup,
            "/var/lib/kubelet/pod-resources": self._folder / "pod-resources",
            "/var/log/pods": self._folder / "pods",
            "/opt/nri-numamem/bin": self.bin,
            "/var/run/cdi": folder / "cdi",
            "token": self.account,
        }
        extra = {f"/sys/{name}": self.files.roots.sysfs / name for name in SYSFS}
        return Pod(folder, root, spec, volumes, extra)

    def runtime(self) -> FakeRuntime:
        """Start a runtime on the node's socket, which only root may use."""
        runtime = FakeRuntime(registration_timeout_s=WAIT_S, request_timeout_s=WAIT_S)
        runtime.listen(self.run / "nri.sock")
        (self.run / "nri.sock").chmod(0o700)
        return runtime


@pytest.fixture
def node(library: dict[str, bytes]) -> Iterator[Node]:
    # The path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="numamem-"))
    try:
        yield Node(folder, library)
    finally:
        shutil.rmtree(folder)


def connect(runtime: FakeRuntime) -> None:
    """Let a plugin connect instead of the one before, which has ended."""
    if runtime.plugin is not None:
        runtime.plugin.close("the plugin ended")
    runtime.accept(WAIT_S)
    runtime.synchronize()


def create(runtime: FakeRuntime, files: HostFiles, name: str) -> api.Container:
    """Create a container of a Guaranteed pod that may use 4 MiB in pages of 2 MiB."""
    pod = objects.pod(name, memory_limit_bytes=GI)
    files.make_cgroup(pod, {2 * MI: 4 * MI})
    pod = runtime.run_pod_sandbox(pod)
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    return runtime.create_container(pod, container)


def test_a_pod_places_containers(node: Node, spec: Spec) -> None:
    with node.runtime() as runtime, node.start(spec) as pod:
        connect(runtime)
        container = create(runtime, node.files, "first")
        assert container.linux.resources.cpu.mems == "0"
        assert hugepage_limits(container)["hugetlb.2MB.max"] == str(4 * MI)
        wait_for(lambda: pod.probe() == (200, "ok"), "readiness", WAIT_S)
        big = runtime.run_pod_sandbox(objects.pod("big", memory_limit_bytes=64 * GI))
        with pytest.raises(PluginRefused):
            runtime.create_container(big, objects.container(big, "a", memory_limit_bytes=64 * GI))

        # What kubectl exec shows.
        wait_for(lambda: "default/first" in pod.exec("nri-numamem", "status").stdout, "status")
        status = pod.exec("nri-numamem", "status", "--output=json")
        assert status.returncode == 0, status.stderr
        wait_for(
            lambda: "refused" in pod.exec("nri-numamem", "explain", "default/big").stdout, "explain"
        )
        assert (node.state / "nri_numamem_state").exists()
        assert pod.stop() == 0
    assert [record["event"] for record in pod.records()][-1] == "stopped"
    assert "admitted" in [record["event"] for record in pod.records()]


def hugepage_limits(container: api.Container) -> dict[str, str]:
    return {k: v for k, v in container.linux.resources.unified.items() if k.startswith("hugetlb")}


def test_the_runtime_restarts(node: Node, spec: Spec) -> None:
    """It makes a new socket in the directory that the pod has mounted."""
    with node.start(spec) as pod:
        for name in ("first", "second"):
            with node.runtime() as runtime:
                connect(runtime)
                assert create(runtime, node.files, name).linux.resources.cpu.mems == "0"
            wait_for(lambda: pod.probe()[0] == 503, "the end of the connection", WAIT_S)
        assert pod.stop() == 0


def test_a_rolling_update(node: Node, spec: Spec) -> None:
    """The new pod is Ready while the old one serves, and serves when it has ended."""
    with node.runtime() as runtime, node.start(spec) as old:
        connect(runtime)
        create(runtime, node.files, "first")
        with node.start(spec) as new:
            wait_for(lambda: new.probe()[1].startswith("standby: "), "standby", WAIT_S)
            assert new.probe()[0] == 200
            assert old.probe() == (200, "ok")
            assert create(runtime, node.files, "second").linux.resources.cpu.mems == "0"
            assert old.stop() == 0
            connect(runtime)
            assert create(runtime, node.files, "third").linux.resources.cpu.mems == "0"
            wait_for(lambda: new.probe() == (200, "ok"), "readiness", WAIT_S)
            shown = new.exec("nri-numamem", "status").stdout
            assert all(f"default/{name}" in shown for name in ("first", "second"))
            assert new.stop() == 0


@pytest.fixture
def exported() -> Spec:
    """Return the exporter's pod of the chart."""
    found = validated(render_chart({"export.enabled": True}))
    pod: Spec = copy.deepcopy(found["DaemonSet", f"{NAME}-export"]["spec"]["template"]["spec"])
    return pod


def test_an_exporter_beside_the_plugin(node: Node, spec: Spec, exported: Spec) -> None:
    """It makes the object from its mounts, and has TLS and a token; no API server listens."""
    # As the kubelet adds them.
    exported["containers"][0]["env"] += [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "443"},
    ]
    with node.runtime() as runtime, node.start(spec) as plugin:
        connect(runtime)
        create(runtime, node.files, "first")
        wait_for((node.state / "nri_numamem_state").exists, "the state", WAIT_S)
        with node.start(exported) as exporter:

            def failures() -> list[dict[str, Any]]:
                return [r for r in exporter.records() if r["event"] == "topology_write_failed"]

            wait_for(lambda: bool(failures()), "an attempt to write", WAIT_S)
            (failure,) = failures()
            assert failure["cause"] == "https://127.0.0.1:443: Connection refused"
            assert failure["node_name"] == "worker-1"
            shown = exporter.exec("nri-numamem", "export", "--dry-run", "-o", "json")
            zones = json.loads(shown.stdout)["zones"]
            assert [zone["name"] for zone in zones] == ["node-0", "node-1"]
            used, unused = (int(zone["resources"][1]["available"]) for zone in zones)
            assert unused - used == GI
            assert exporter.stop() == 0
        assert plugin.stop() == 0
    assert [record["event"] for record in exporter.records()][-1] == "export_stopped"


def test_the_hook_program_of_claims_gets_onto_the_host(node: Node) -> None:
    found = validated(render_chart({"claims.enabled": True}))
    pod: Spec = copy.deepcopy(found["DaemonSet", NAME]["spec"]["template"]["spec"])
    pod["containers"] = pod.pop("initContainers")
    written = node.bin / "claim-hook"
    for printed in ("wrote /opt/nri-numamem/bin/claim-hook\n", "nothing changed\n"):
        with node.start(pod) as started:
            assert started.wait() == 0, started.log.read_text()
        assert started.log.read_text() == printed
    assert written.stat().st_mode & 0o7777 == 0o755
    assert written.stat().st_uid == 0
    assert written.read_bytes() == claim_hook.build(node.run).read_bytes()
    assert [path.name for path in node.bin.iterdir()] == ["claim-hook"]


def test_what_a_mount_is_for(node: Node, spec: Spec) -> None:
    """Without the cgroups the plugin does not see the pod's limit of hugepages."""
    (container,) = spec["containers"]
    mounts = [mount for mount in container["volumeMounts"] if mount["name"] != "cgroup"]
    assert len(mounts) == len(container["volumeMounts"]) - 1
    container["volumeMounts"] = mounts
    with node.runtime() as runtime, node.start(spec):
        connect(runtime)
        container = create(runtime, node.files, "first")
        assert container.linux.resources.cpu.mems == "0"
        assert hugepage_limits(container) == {}


def test_only_root_can_connect(node: Node, spec: Spec) -> None:
    """So the pod is not of another user; without CAP_DAC_OVERRIDE the mode of the socket counts."""
    spec["securityContext"] |= {"runAsUser": 65534, "runAsGroup": 65534}
    node.state.mkdir()
    os.chown(node.state, 65534, 65534)
    with node.runtime(), node.start(spec) as pod:

        def causes() -> list[str]:
            return [r["cause"] for r in pod.records() if r["event"] == "connect_failed"]

        wait_for(lambda: bool(causes()), "an attempt to connect", WAIT_S)
        assert causes() == ["/var/run/nri/nri.sock: Permission denied"]
        assert pod.stop() == 0


def test_a_rejected_configuration_ends_the_pod(node: Node, spec: Spec) -> None:
    """So it does not become Ready, and a rolling update stops there."""
    (node.config / "config.yaml").write_text("logLevel: loud\n")
    with node.start(spec) as pod:
        assert pod.wait() == 2
    assert pod.log.read_text().startswith("nri-numamem: /etc/nri-numamem/config.yaml:1: logLevel:")


_INSIDE = """
import errno, json, os
def error(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
    except OSError as error:
        return errno.errorcode[error.errno]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
keys = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
found = {key: status[key] for key in keys}
for path in ("/file", "/tmp/file", "/etc/nri-numamem/file", "/var/run/nri/file",
             "/sys/fs/cgroup/cgroup.controllers", "/sys/kernel/file", "/var/lib/nri-numamem/file"):
    found[path] = error(path)
found["pids"] = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
found["pid"] = os.getpid()
found["devices"] = os.listdir("/sys/class/net")
print(json.dumps(found))
"""


@needs_twin
def test_what_the_container_may_do(node: Node, spec: Spec) -> None:
    """The twin of the program runs Python code under the settings of the pod."""
    (container,) = spec["containers"]
    container["args"] = [_INSIDE]
    with node.start(spec, program=TWIN) as pod:
        assert pod.wait() == 0, pod.log.read_text()
    (found,) = [json.loads(line) for line in pod.log.read_text().splitlines()]
    capabilities = {found[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert capabilities == {"0" * 16}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")
    written = {path: error for path, error in found.items() if path.startswith("/")}
    assert written.pop("/var/lib/nri-numamem/file") is None
    assert set(written.values()) == {"EROFS"}
    # Nothing of the host is there.
    assert (found["pid"], found["pids"]) == (1, [1])
    assert found["devices"] == ["lo"]


_REACH = """
import glob, json, os
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
paths = ("/var/run/nri/nri.sock", "/run/nri/nri.sock", "/proc/*/root/var/run/nri/nri.sock")
found = [path for pattern in paths for path in glob.glob(pattern)]
print(json.dumps({"pids": pids, "found": found}))
"""


@needs_twin
def test_the_exporters_container_does_not_reach_the_runtime(
    node: Node, spec: Spec, exported: Spec
) -> None:
    """Beside a plugin that serves; the same code finds the socket from the plugin's container."""
    seen = {}
    with node.runtime() as runtime, node.start(spec) as plugin:
        connect(runtime)
        for name, pod in (("export", exported), ("plugin", copy.deepcopy(spec))):
            pod["containers"][0]["args"] = [_REACH]
            with node.start(pod, program=TWIN) as started:
                assert started.wait() == 0, started.log.read_text()
                (seen[name],) = map(json.loads, started.log.read_text().splitlines())
        assert plugin.stop() == 0
    assert seen["export"] == {"pids": [1], "found": []}
    assert "/var/run/nri/nri.sock" in seen["plugin"]["found"]
