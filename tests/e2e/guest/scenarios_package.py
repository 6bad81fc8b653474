"""The life of the Debian package under a real systemd: install, upgrade, the other way, purge.

One pod runs all the time; only the end of the installation changes its nodes.
"""

import json
import os
import signal
from pathlib import Path

from tests.e2e.guest.scenarios_journal import documented_commands_find_the_records
from tests.e2e.guest.scenarios_placement import LARGE, NEAR_PAIRS, SMALL
from tests.machines.guest import artefacts, cgroups, containerd, forms, plugin, systemd
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_POD = PodSpec("pinned", (ContainerSpec("main", SMALL),))
_WIDE = PodSpec("wide", (ContainerSpec("main", LARGE),))
_ALL_NODES = frozenset(range(5))  # with the node without CPUs
_MIB = 1 << 20


def _package_starts_nothing(host: Host) -> str:
    expect(not host.plugin.all_pids(), f"processes {host.plugin.all_pids()}")
    state = systemd.show(forms.UNIT, "ActiveState"), systemd.show(forms.UNIT, "UnitFileState")
    expect(state == ("inactive", "disabled"), f"the service is {state}")
    expect(not plugin.ENTRY.parent.exists(), f"{plugin.ENTRY.parent} is there")
    return artefacts.package_version()


def _install_starts_the_service(host: Host) -> str:
    host.plugin.connect()
    host.runtime.wait_for_plugin(launched=False)
    state = systemd.show(forms.UNIT, "ActiveState"), systemd.show(forms.UNIT, "UnitFileState")
    expect(state == ("active", "enabled"), f"the service is {state}")
    return systemd.show(forms.UNIT, "StatusText")


def _restrictions_are_applied(host: Host) -> str:
    """Read what the kernel has of the unit's limits and restrictions."""
    pid = host.plugin.wait_for_one()
    group = cgroups.ROOT / systemd.show(forms.UNIT, "ControlGroup").lstrip("/")
    limits = {name: (group / name).read_text().strip() for name in ("memory.max", "pids.max")}
    expect(limits == {"memory.max": str(512 * _MIB), "pids.max": "64"}, f"{limits}")
    score = Path(f"/proc/{pid}/oom_score_adj").read_text().strip()
    expect(score == "-999", f"oom_score_adj is {score}")
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
    found = {name: fields[name] for name in ("CapBnd", "CapEff", "NoNewPrivs", "Seccomp")}
    none = "0" * 16
    expected = {"CapBnd": none, "CapEff": none, "NoNewPrivs": "1", "Seccomp": "2"}
    expect(found == expected, f"{found}")
    mode = plugin.STATE.stat().st_mode & 0o777
    expect(mode == 0o700, f"the mode of {plugin.STATE} is {mode:o}")
    used = int((group / "memory.current").read_text()), int((group / "pids.current").read_text())
    return f"{limits}, in use {used[0] / _MIB:.0f} MiB and {used[1]} tasks"


def _service_places_pods(host: Host) -> str:
    nodes = _mems(host.kubelet.run(_POD))
    expect(len(nodes) == 1, f"cpuset.mems is {sorted(nodes)}")
    pair = _mems(host.kubelet.run(_WIDE))
    expect(pair in NEAR_PAIRS, f"cpuset.mems is {sorted(pair)}")
    return f"nodes {sorted(nodes)}, {sorted(pair)}"


def _commands_find_no_fault(host: Host) -> str:
    """Run status, explain and doctor, which may warn."""
    wide = host.kubelet.pod(_WIDE.name)
    expected = {pod.spec.name: sorted(_mems(pod)) for pod in host.kubelet.pods}
    status = host.plugin.command("status", "--output", "json")
    expect(status.returncode == 0, f"status: {status.returncode}: {status.stdout}{status.stderr}")
    rows = json.loads(status.stdout)["containers"]
    expect({row["pod"]: row["nodes"] for row in rows} == expected, f"status: {rows}")
    expect({row["condition"] for row in rows} == {"running"}, f"status: {rows}")
    explained = host.plugin.command("explain", f"e2e/{wide.spec.name}")
    expect(
        explained.returncode == 0 and "chosen" in explained.stdout,
        f"explain: {explained.returncode}: {explained.stdout}{explained.stderr}",
    )
    doctor = host.plugin.command("doctor", "--output", "json")
    findings = json.loads(doctor.stdout)["findings"]
    faults = [each for each in findings if each["verdict"] == "fail"]
    expect(doctor.returncode in (0, 1) and not faults, f"doctor: {doctor.returncode}: {faults}")
    host.kubelet.remove(wide)
    return f"warnings: {[each['check'] for each in findings if each['verdict'] == 'warn']}"


def _restart_of_the_runtime_keeps_the_service(host: Host) -> str:
    before = host.running(), host.plugin.wait_for_one()
    host.restart_runtime(killed=False)
    after = host.running(), host.plugin.wait_for_one()
    expect(before == after, f"{before}, then {after}")
    return f"process {after[1]}"


def _runtime_does_not_wait_for_the_service(host: Host) -> str:
    """Stop and start both at once, as a host does; compare the times of systemd."""
    with host.runtime.ignoring_a_lost_plugin():
        host.runtime.stop(forms.UNIT)
        stopped = _time(forms.UNIT, "ExecMainExit"), _time(containerd.UNIT, "ExecMainExit")
        host.kubelet.client.close()
        host.kubelet.client = host.runtime.start(forms.UNIT)
        host.runtime.wait_for_plugin(launched=False)
    started = _time(containerd.UNIT, "ActiveEnter"), _time(forms.UNIT, "ExecMainStart")
    expect(stopped[0] <= stopped[1], f"ends of the plugin and of containerd: {stopped}")
    expect(started[0] <= started[1], f"containerd was up, and the plugin started: {started}")
    dependencies = f"{systemd.show(containerd.UNIT, 'After')} "
    dependencies += f"{systemd.show(containerd.UNIT, 'Wants')} "
    dependencies += systemd.show(containerd.UNIT, "Requires")
    expect(forms.UNIT not in dependencies, f"containerd depends on it: {dependencies}")
    return f"the plugin started {(started[1] - started[0]) / 1e6:.1f} s later"


def _watchdog_ends_a_service_that_hangs(host: Host) -> str:
    """Stop both processes of the plugin, so that only systemd is left to notice."""
    before, running = host.plugin.wait_for_one(), host.running()
    with host.runtime.ignoring_a_lost_plugin():
        for pid in host.plugin.all_pids():
            os.kill(pid, signal.SIGSTOP)
        after = host.plugin.wait_for_one(but=before)
        host.runtime.wait_for_plugin(launched=False)
    log = systemd.journal("--output=cat", "--unit", forms.UNIT)
    expect("Watchdog timeout" in log, f"the journal ends with {log[-2000:]}")
    expect(systemd.show(forms.UNIT, "NRestarts") == "1", systemd.show(forms.UNIT, "NRestarts"))
    expect(host.running() == running, f"{running}, then {host.running()}")
    return f"plugin {before}, then {after}"


def _upgrade_keeps_the_service(host: Host) -> str:
    before, running = host.plugin.wait_for_one(), host.running()
    configuration = plugin.CONFIG.read_text()
    artefacts.install_package(artefacts.NEW_PACKAGE)
    expect(host.plugin.pids() == [before], f"plugin {before}, then {host.plugin.pids()}")
    expect(plugin.CONFIG.read_text() == configuration, "the configuration was changed")
    with host.runtime.ignoring_a_lost_plugin():
        systemd.systemctl("daemon-reload")
        systemd.systemctl("restart", forms.UNIT)
        host.runtime.wait_for_plugin(launched=False)
    after = host.plugin.wait_for_one(but=before)
    expect(host.running() == running, f"{running}, then {host.running()}")
    _wait_for_status(host)
    return f"{artefacts.package_version()}: plugin {before}, then {after}"


def _wait_for_status(host: Host) -> None:
    """Wait until status finds no problem, also after a start of the plugin."""

    def has_no_problem() -> bool:
        return host.plugin.command("status").returncode == 0

    wait_until(has_no_problem, "a status without problems")


def _launched_takes_the_place_of_the_service(host: Host) -> str:
    running = host.running()
    with host.runtime.ignoring_a_lost_plugin():
        done = host.plugin.command("install", "--launched")
        expect(done.returncode in (0, 1), f"{done.returncode}: {done.stdout}{done.stderr}")
        expect(not systemd.is_active(forms.UNIT), "the service is active")
        expect(not plugin.CONFIG.exists(), f"{plugin.CONFIG} is still there")
        _restart_runtime(host)
        host.runtime.wait_for_plugin(launched=True)
        pid = host.plugin.wait_for_one()
    group = Path(f"/proc/{pid}/cgroup").read_text().strip()
    expect(group.endswith(containerd.UNIT), f"the plugin is in {group}")
    expect(host.running() == running, f"{running}, then {host.running()}")
    _wait_for_status(host)
    return f"{plugin.ENTRY} -> {plugin.ENTRY.readlink()}"


def _uninstall_releases_the_pods(host: Host) -> str:
    """Uninstall a launched plugin in two steps, with a restart of the runtime between them."""
    pod = host.kubelet.pod(_POD.name)
    with host.runtime.ignoring_a_lost_plugin():
        first = host.plugin.command("uninstall")
        expect(first.returncode == 1, f"{first.returncode}: {first.stdout}{first.stderr}")
        expect("systemctl restart containerd" in first.stdout, first.stdout)
        expect(len(_mems(pod)) == 1, f"cpuset.mems is {sorted(_mems(pod))}")
        _restart_runtime(host)
        wait_until(lambda: not host.plugin.all_pids(), "end of the launched plugin")
        second = host.plugin.command("uninstall")
    expect(second.returncode == 0, f"{second.returncode}: {second.stdout}{second.stderr}")
    expect(_mems(pod) == _ALL_NODES, f"cpuset.mems is {sorted(_mems(pod))}")
    return second.stdout.strip().replace("\n", "; ")


def _purge_leaves_nothing(host: Host) -> str:
    printed = artefacts.purge_package()
    left = [path for path in (*plugin.DIRECTORIES, Path("/run/nri-numamem")) if path.exists()]
    for root in ("/etc", "/usr", "/var/lib"):
        left += Path(root).rglob("*numamem*")
    expect(not left, f"after the purge there still are {[str(path) for path in left]}")
    return printed.strip().splitlines()[-1]


def _restart_runtime(host: Host) -> None:
    host.runtime.stop()
    host.kubelet.client.close()
    host.kubelet.client = host.runtime.start()


def _time(unit: str, event: str) -> int:
    """Return when an event of a unit happened, in microseconds of the monotonic clock."""
    return int(systemd.show(unit, f"{event}TimestampMonotonic"))


def _mems(pod: Pod) -> frozenset[int]:
    return cgroups.nodes(pod.parent, pod.container_ids["main"])


PACKAGE = (
    Check("package_starts_nothing", _package_starts_nothing),
    Check("install_starts_the_service", _install_starts_the_service),
    Check("restrictions_are_applied", _restrictions_are_applied),
    Check("service_places_pods", _service_places_pods),
    Check("commands_find_no_fault", _commands_find_no_fault),
    Check("documented_commands_find_the_records", documented_commands_find_the_records),
    Check("restart_of_the_runtime_keeps_the_service", _restart_of_the_runtime_keeps_the_service),
    Check("runtime_does_not_wait_for_the_service", _runtime_does_not_wait_for_the_service),
    Check("watchdog_ends_a_service_that_hangs", _watchdog_ends_a_service_that_hangs),
    Check("upgrade_keeps_the_service", _upgrade_keeps_the_service),
    Check("launched_takes_the_place_of_the_service", _launched_takes_the_place_of_the_service),
    Check("uninstall_releases_the_pods", _uninstall_releases_the_pods),
    Check("purge_leaves_nothing", _purge_leaves_nothing),
)
