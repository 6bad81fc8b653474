"""The files of a host below a directory, for the checks of ``nri-numamem doctor``."""

from collections.abc import Callable
from pathlib import Path

from nri_numamem.cli.doctor import examine
from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.main import main
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.engine import Engine
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.files import lock_file_of

STATE = "var/lib/nri-numamem/nri_numamem_state"
CONFIG = "etc/nri/conf.d/10-nri-numamem.conf"
CONTAINERD = "etc/containerd/config.toml"
KUBELET = "var/lib/kubelet/config.yaml"
PLUGINS = "opt/nri/plugins"
SERVICE = "etc/systemd/system/multi-user.target.wants/nri-numamem.service"
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 17 /run/nri/nri.sock
0000000000000000: 00000002 00000000 00000000 0001 03 18
"""
EMPTY_STATE = snapshot(Engine(Context.of(Machine((NumaNode(0, 8 << 30),)), Policy())).state)


class HostFiles:
    """The files of a host below a directory; a good host at first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        memory = "Node {0} MemTotal: 8388608 kB\n"
        for node in (0, 1):
            self.write(f"sys/devices/system/node/node{node}/meminfo", memory.format(node))
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
        self.write("proc/meminfo", "MemTotal: 16777216 kB\n")
        self.write("proc/self/status", "Name:\tx\nMems_allowed_list:\t0-1\n")
        self.write("proc/net/unix", UNIX)
        self.write(
            CONTAINERD, 'version = 3\n[plugins."io.containerd.nri.v1.nri"]\ndisable = false\n'
        )
        self.write(KUBELET, "kind: KubeletConfiguration\ncpuManagerPolicy: static\n")
        self.write(CONFIG, "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n")
        self.write(STATE, EMPTY_STATE.decode())
        self.write(str(lock_file_of(Path(STATE))), "pid 7, since today, launched\n")
        self.write("opt/nri-numamem/bin/nri-numamem", "program")
        self.path(PLUGINS).mkdir(parents=True)
        self.link(f"{PLUGINS}/10-nri-numamem", "/opt/nri-numamem/bin/nri-numamem")

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, text: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_text(text)

    def link(self, name: str, target: str) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).symlink_to(target)

    def findings(self) -> dict[str, Finding]:
        """Return the findings by check; the worst one of a check with several."""
        order = [Verdict.OK, Verdict.UNKNOWN, Verdict.WARN, Verdict.FAIL]
        found = sorted(examine(Host(self.root)), key=lambda finding: order.index(finding.verdict))
        return {finding.check: finding for finding in found}


Change = Callable[[HostFiles], None]


def expect_fault(host: HostFiles, change: Change, check: str, verdict: Verdict, text: str) -> None:
    """Change a good host, and expect this finding, a remedy if needed, and the exit status."""
    change(host)
    finding = host.findings()[check]
    assert (finding.verdict, bool(finding.remedy)) == (verdict, True)
    assert text in finding.text
    status = main(["doctor", "--root", str(host.root)])
    assert status == {Verdict.FAIL: 2, Verdict.WARN: 1, Verdict.UNKNOWN: 0}[verdict]
