"""A pod of a manifest, run by runc from the root of the image, as kubelet and containerd run it.

The pod has network, IPC and host name spaces of its own, which a process in place of the sandbox's
pause holds, and the container a process namespace of its own.
Everything in the manifest about user, capabilities, privileges, seccomp, root and mounts counts.
Paths of the host are below a folder. Cgroups are this machine's.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from image.archive import COMMAND, ENTRYPOINT, ENVIRONMENT

from tests.packaging import manifests
from tests.packaging.manifests import ROOT, Manifest

WAIT_S = 120
"""More than any test needs, also at a low priority on a loaded machine."""

_RUNC = ROOT / "build/runc/usr/sbin/runc"
RUNC = shutil.which("runc") or (str(_RUNC) if _RUNC.exists() else None)

POD_IP = "127.0.0.1"
"""The pod's only network device is loopback."""

NODE_NAME = "worker-1"

# Ends with its input. SIOCSIFFLAGS with IFF_UP; see netdevice(7).
_PAUSE = """
import fcntl, os, socket, struct, sys
with socket.socket() as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh", b"lo", 1))
print(os.readlink("/proc/self"), flush=True)
sys.stdin.read()
"""

# As containerd mounts them. Sources: containerd oci/mounts.go, CRI server's container_create.go.
_MOUNTS = (
    ("/proc", "proc", "proc", "nosuid noexec nodev"),
    ("/dev", "tmpfs", "tmpfs", "nosuid strictatime mode=755 size=65536k"),
    ("/dev/pts", "devpts", "devpts", "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5"),
    ("/dev/mqueue", "mqueue", "mqueue", "nosuid noexec nodev"),
    ("/sys", "sysfs", "sysfs", "nosuid noexec nodev ro"),
)
_MASKED = ("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class Pod:
    """The only container of a pod, in the foreground, as a context; `log` is what it prints.

    `spec` is the manifest's specification of the pod, `volumes` maps hostPaths, and names of
    ConfigMaps and of projected volumes, to folders, and `extra` paths in the container to further
    folders of this host.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        spec: Manifest,
        volumes: Mapping[str, Path],
        extra: Mapping[str, Path],
    ) -> None:
        self.log = folder / "log"
        self._folder = folder
        self._id = f"numamem-{os.getpid()}-{folder.name}"
        (self._container,) = spec["containers"]
        self._spec = spec
        enter = ("unshare", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
        self._pause = subprocess.Popen(
            [*enter, sys.executable, "-c", _PAUSE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._pause.stdout is not None
        self._pause_pid = int(self._pause.stdout.readline())
        bundle = folder / "bundle"
        bundle.mkdir()
        document = self._document(root, volumes, extra)
        (bundle / "config.json").write_text(json.dumps(document))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self._runc("run", "--bundle", bundle, self._id),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        """Return the pod."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End what still runs."""
        subprocess.run(self._runc("delete", "--force", self._id), capture_output=True, check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(WAIT_S)
        self._pause.communicate(timeout=WAIT_S)

    def exec(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as kubectl exec does."""
        return subprocess.run(
            self._runc("exec", self._id, *command), capture_output=True, text=True, check=False
        )

    def probe(self) -> tuple[int, str]:
        """Return status and body of the readiness probe, 0 if nothing listens."""
        action = self._container["readinessProbe"]["httpGet"]
        (port,) = (p for p in self._container["ports"] if p["name"] == action["port"])
        url = f"http://{POD_IP}:{port['containerPort']}{action['path']}"
        code = (
            "import sys, urllib.request as r, urllib.error as e\n"
            "try: reply = r.urlopen(sys.argv[1], timeout=60)\n"
            "except e.HTTPError as error: reply = error\n"
            "except OSError: print(0); sys.exit()\n"
            "print(reply.status, reply.read().decode())"
        )
        enter = ("nsenter", "--net", f"--target={self._pause_pid}")
        command = [*enter, sys.executable, "-c", code, url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        status, _, body = done.stdout.partition(" ")
        return int(status), body.strip()

    def stop(self) -> int:
        """Send SIGTERM, as the kubelet does; return the exit status."""
        subprocess.run(self._runc("kill", self._id, "TERM"), check=True)
        return self.wait()

    def wait(self) -> int:
        """Return the exit status when the container has ended by itself."""
        return self._process.wait(WAIT_S)

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the log."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[:1] == "{" and line[-1:] == "\n"]

    def _runc(self, *arguments: str | Path) -> list[str | Path]:
        assert RUNC is not None
        return [RUNC, "--root", self._folder / "state", *arguments]

    def _document(
        self, root: Path, volumes: Mapping[str, Path], extra: Mapping[str, Path]
    ) -> dict[str, object]:
        """Return the configuration by the OCI runtime specification."""
        security = {**self._spec["securityContext"], **self._container["securityContext"]}
        capabilities = [f"CAP_{name}" for name in security["capabilities"].get("add", ())]
        assert security["capabilities"]["drop"] == ["ALL"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        kinds = {"network": "net", "ipc": "ipc", "uts": "uts"}
        namespaces: list[dict[str, str]] = [{"type": "mount"}, {"type": "pid"}]
        namespaces += [
            {"type": kind, "path": f"/proc/{self._pause_pid}/ns/{file}"}
            for kind, file in kinds.items()
        ]
        sets = dict.fromkeys(("bounding", "effective", "permitted"), capabilities)
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": security["runAsUser"], "gid": security["runAsGroup"]},
                "args": [*ENTRYPOINT, *self._arguments()],
                "env": [f"{name}={value}" for name, value in self._environment().items()],
                "cwd": "/",
                "capabilities": sets,
                "noNewPrivileges": not security["allowPrivilegeEscalation"],
            },
            "root": {"path": str(root), "readonly": security["readOnlyRootFilesystem"]},
            "mounts": [*_default_mounts(), *self._mounts(volumes, extra)],
            "linux": {
                "namespaces": namespaces,
                "maskedPaths": _MASKED,
                "readonlyPaths": _READ_ONLY,
                "seccomp": json.loads(manifests.output_of("kubernetes_tools", "seccomp")),
            },
        }

    def _environment(self) -> dict[str, str]:
        fields = {"status.podIP": POD_IP, "spec.nodeName": NODE_NAME}
        given = {
            item["name"]: item.get("value") or fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
            for item in self._container.get("env", ())
        }
        return {**ENVIRONMENT, **given}

    def _arguments(self) -> Sequence[str]:
        environment = self._environment()
        arguments = self._container.get("args", COMMAND)
        return [re.sub(r"\$\((\w+)\)", lambda m: environment[m[1]], word) for word in arguments]

    def _mounts(
        self, volumes: Mapping[str, Path], extra: Mapping[str, Path]
    ) -> list[dict[str, object]]:
        sources = {
            volume["name"]: _source(volume, volumes) for volume in self._spec.get("volumes", ())
        }
        found = [_bind(path, source, read_only=True) for path, source in extra.items()]
        for mount in self._container.get("volumeMounts", ()):
            source = sources[mount["name"]]
            found.append(_bind(mount["mountPath"], source, read_only=mount.get("readOnly", False)))
        return found


def _source(volume: Manifest, volumes: Mapping[str, Path]) -> Path:
    if "configMap" in volume:
        return volumes[volume["configMap"]["name"]]
    if "projected" in volume:
        return volumes[volume["name"]]
    source = volumes[volume["hostPath"]["path"]]
    if volume["hostPath"]["type"] == "DirectoryOrCreate":
        source.mkdir(exist_ok=True)
    return source


def _default_mounts() -> list[dict[str, object]]:
    return [
        {"destination": place, "type": kind, "source": source, "options": options.split()}
        for place, kind, source, options in _MOUNTS
    ]


def _bind(place: str, source: Path, *, read_only: bool) -> dict[str, object]:
    options = ["rbind", "rprivate", "ro" if read_only else "rw"]
    return {"destination": place, "type": "bind", "source": str(source), "options": options}
