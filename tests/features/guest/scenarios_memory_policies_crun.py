"""The scenarios of memory policies with Debian's crun as the default OCI runtime of containerd.

crun is also the handler of a RuntimeClass, for which the plugin reads the features of the program.
"""

from dataclasses import replace
from pathlib import Path

from tests.features.guest.feature import Phase, restart_with
from tests.features.guest.memory_policies import ANNOTATION, WRITTEN_MIB, pod_of, run
from tests.features.guest.scenarios_memory_policies import MODES_OF_PODS, SETTINGS
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.processes import output

_HANDLER = "crun"
_RUNTIMES = 'plugins."io.containerd.cri.v1.runtime".containerd'
_TABLES = f"""
[{_RUNTIMES}]
  default_runtime_name = "{_HANDLER}"
[{_RUNTIMES}.runtimes.{_HANDLER}]
  runtime_type = "io.containerd.runc.v2"
[{_RUNTIMES}.runtimes.{_HANDLER}.options]
  BinaryName = "/usr/bin/crun"
"""
# The shim passes it to the OCI runtime as --root. crun writes a file "status", runc "state.json".
_STATES = Path("/run/containerd/runc/k8s.io")


def _crun_runs_the_containers(host: Host) -> str:
    pod = host.kubelet.run(pod_of("of-crun", {}))
    files = {path.name for path in (_STATES / pod.container_ids["main"]).iterdir()}
    host.kubelet.remove(pod)
    expect("status" in files and "state.json" not in files, f"{sorted(files)}")
    return output("crun", "--version").splitlines()[0]


def _features_of_crun_are_read(host: Host) -> str:
    """Run a pod of a RuntimeClass, while the plugin looks for OCI runtimes itself."""
    restart_with(host, SETTINGS)
    spec = pod_of("class", {ANNOTATION: "interleave"})
    found = run(host, replace(spec, runtime_handler=_HANDLER))
    found.expect_policy("interleave=static:0-3")
    expect(found.record["event"] == "memory_policy_set", f"{found.record}")
    expect(sum(found.mib.values()) >= WRITTEN_MIB, f"{found}")
    return f"{found}"


_OPENING = (Check("crun_runs_the_containers", _crun_runs_the_containers),)
_CLASS = (Check("features_of_crun_are_read", _features_of_crun_are_read),)
PHASES = (
    Phase(
        name="memory-policies-crun",
        scenarios=(_OPENING, MODES_OF_PODS, _CLASS),
        settings=SETTINGS.replace("]}", "], runtimes: [default]}"),
        runs_programs=True,
        runtime_tables=_TABLES,
    ),
)
