"""The control plane: etcd and Kubernetes' servers as processes on the loopback interface.

Each has its files and its output in one directory. The processes end with the one that started
them, however that ends.
"""

import json
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.kubernetes.api import Api, ApiError, wait_for
from tests.cluster.kubernetes.programs import (
    API_SERVER,
    CONTROLLER_MANAGER,
    SCHEDULER,
    TOPOLOGY_SCHEDULER,
    Program,
    built,
)

ROOT = Path(__file__).resolve().parents[3]
ETCD = ROOT / "build" / "etcd" / "usr" / "bin" / "etcd"

ADMIN = "admin"
SCHEDULER_USER = "system:kube-scheduler"
CONTROLLERS_USER = "system:kube-controller-manager"
"""The users to which an API server's own roles give what a scheduler and controllers need."""
_USERS = (ADMIN, SCHEDULER_USER, CONTROLLERS_USER)
_SCHEDULER_DEFAULTS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
_STOP_S = 60
_TAIL_LINES = 30
# Below the range from which the kernel takes the ports of outgoing connections.
_PORTS = range(20_000, 30_000)


class Server:
    """A program in the background. Its output is appended to `log`."""

    def __init__(self, command: Sequence[object], log: Path) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it again, or for the first time."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """End it by SIGTERM; kill it if that takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Fail with the end of its output if it has ended."""
        ended = self._process is None or self._process.poll() is not None
        assert not ended, f"{self.command[0]} has ended:\n{self.tail()}"

    def output(self) -> str:
        """Return what it has printed so far."""
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.output().splitlines()[-_TAIL_LINES:])

    def peak_mib(self) -> int:
        """Return its largest resident memory so far; 0 while it does not run."""
        if self._process is None:
            return 0
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        values = dict(line.split(":\t", 1) for line in lines)
        return int(values.get("VmHWM", "0 kB").split()[0]) >> 10


class ControlPlane:
    """etcd and an API server with RBAC; then schedulers and controllers."""

    def __init__(self, root: Path, feature_gates: str = "") -> None:
        """`feature_gates` are as in the option of that name, for all servers."""
        self.root = root
        self._gates = {"feature-gates": feature_gates} if feature_gates else {}
        self.port = free_port()
        self.certificates = root / "certificates"
        self.authority = self.certificates / "apiserver.crt"
        """The certificates that clients trust."""
        self.tokens = {name: f"token-{name}" for name in _USERS}
        self.admin = Api(self.port, self.authority, self.tokens[ADMIN])
        etcd_port = free_port()
        self.etcd = Server(_etcd(root, etcd_port), root / "etcd.log")
        self.api_server = Server(self._api_server(etcd_port), root / "kube-apiserver.log")
        self._others: list[Server] = []

    def start(self) -> None:
        """Start etcd and the API server, and wait until it is ready."""
        key = self.root / "service-accounts.key"
        openssl = ("openssl", "genrsa", "-out", str(key), "2048")
        subprocess.run(openssl, check=True, capture_output=True)
        (self.root / "tokens.csv").write_text(
            f'{self.tokens[ADMIN]},{ADMIN},1,"system:masters"\n'
            f"{self.tokens[SCHEDULER_USER]},{SCHEDULER_USER},2\n"
            f"{self.tokens[CONTROLLERS_USER]},{CONTROLLERS_USER},3\n"
        )
        assert ETCD.exists(), f"{ETCD} does not exist; run tests/cluster/install-tools"
        self.etcd.start()
        self.start_api_server()

    def start_api_server(self) -> None:
        """Start the API server and wait until it is ready, its RBAC roles included."""
        self.api_server.start()
        wait_for(self._is_ready, "the API server's readiness")

    def kubeconfig(self, name: str, **user: str) -> Path:
        """Write a kubeconfig; `user` are its credentials, by the names in that format."""
        address = f"https://127.0.0.1:{self.port}"
        cluster = {"server": address, "certificate-authority": str(self.authority)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path = self.root / f"{name}.kubeconfig"
        path.write_text(json.dumps(document))
        return path

    def start_topology_scheduler(self, name: str, configuration: Mapping[str, object]) -> Server:
        """Start the kube-scheduler that has NodeResourceTopologyMatch."""
        return self._start_scheduler(TOPOLOGY_SCHEDULER, name, configuration)

    def start_scheduler(self) -> Server:
        """Start the kube-scheduler of the API server's version, with its own defaults."""
        return self._start_scheduler(SCHEDULER, SCHEDULER.name, _SCHEDULER_DEFAULTS)

    def start_controllers(self, *names: str) -> Server:
        """Start kube-controller-manager with these controllers, each with its own account."""
        kubeconfig = self.kubeconfig("controllers", token=self.tokens[CONTROLLERS_USER])
        options = {
            "kubeconfig": kubeconfig,
            "controllers": ",".join(names),
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "secure-port": "0",
            **self._gates,
        }
        return self._start(CONTROLLER_MANAGER, CONTROLLER_MANAGER.name, *_arguments(options))

    def _start_scheduler(
        self, program: Program, name: str, configuration: Mapping[str, object]
    ) -> Server:
        """Start a scheduler with this KubeSchedulerConfiguration, to which access is added."""
        kubeconfig = self.kubeconfig(name, token=self.tokens[SCHEDULER_USER])
        more = {
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
        }
        file = self.root / f"{name}.json"
        file.write_text(json.dumps({**configuration, **more}))
        options = {"config": file, "secure-port": "0", "v": "4", **self._gates}
        return self._start(program, name, *_arguments(options))

    def _start(self, program: Program, name: str, *arguments: str) -> Server:
        server = Server((built(program), *arguments), self.root / f"{name}.log")
        self._others.append(server)
        server.start()
        return server

    def close(self) -> None:
        """End all processes."""
        for server in (*self._others, self.api_server, self.etcd):
            server.stop()

    def _is_ready(self) -> bool:
        self.etcd.check()
        self.api_server.check()
        try:
            return bool(self.admin.request("GET", "/readyz"))
        except (OSError, ApiError):
            return False

    def _api_server(self, etcd_port: int) -> Sequence[object]:
        key = self.root / "service-accounts.key"
        options: dict[str, object] = {
            "etcd-servers": f"http://127.0.0.1:{etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",  # a loopback address cannot be an endpoint
            "secure-port": self.port,
            "cert-dir": self.certificates,
            "service-account-issuer": "https://kubernetes.test",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.96.0.0/24",
            "token-auth-file": self.root / "tokens.csv",
            "authorization-mode": "Node,RBAC",
            # The second one is OpenShift's default, and restricts ownerReferences.
            "enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
            # No controller removes the taint of a new Node.
            "disable-admission-plugins": "TaintNodesByCondition",
            **self._gates,
        }
        return (built(API_SERVER), *_arguments(options))


def free_port() -> int:
    """Return a port on which nothing listens."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _etcd(root: Path, port: int) -> Sequence[object]:
    client, peer = (f"http://127.0.0.1:{number}" for number in (port, free_port()))
    options = {
        "data-dir": root / "etcd",
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
    }
    return (ETCD, *_arguments(options))


def _arguments(options: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]
