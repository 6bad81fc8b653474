"""NRI, its time limits, the plugin directory, ways of starting: one fault each."""

import os
import time

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from tests.cli.doctor.host_files import (
    CONFIG,
    CONTAINERD,
    KUBELET,
    PLUGINS,
    SERVICE,
    UNIX,
    Change,
    HostFiles,
    expect_fault,
)


def disable_nri(files: HostFiles) -> None:
    files.write(CONTAINERD, '[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n')


def disable_nri_in_crio(files: HostFiles) -> None:
    files.path(CONTAINERD).unlink()
    files.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
    files.write("etc/crio/crio.conf.d/10-x.conf", "[crio.nri]\nenable_nri = false\n")


def stop_the_runtime(files: HostFiles) -> None:
    files.write("proc/net/unix", UNIX.replace("00010000", "00000000"))


def move_the_socket(files: HostFiles) -> None:
    text = '[plugins."io.containerd.nri.v1.nri"]\nsocket_path = "/run/other.sock"\n'
    files.write(CONTAINERD, text)


def shorten_the_timeout(files: HostFiles) -> None:
    text = '[plugins."io.containerd.nri.v1.nri"]\nplugin_request_timeout = "500ms"\n'
    files.write(CONTAINERD, text)


def break_containerds_configuration(files: HostFiles) -> None:
    files.write(CONTAINERD, "[")


def add_a_bad_plugin(files: HostFiles) -> None:
    files.write(f"{PLUGINS}/backup.sh", "")
    files.path(f"{PLUGINS}/backup.sh").chmod(0o755)


def remove_the_program(files: HostFiles) -> None:
    files.path("opt/nri-numamem/bin/nri-numamem").unlink()


def remove_the_link(files: HostFiles) -> None:
    files.path(f"{PLUGINS}/10-nri-numamem").unlink()


def enable_the_service_too(files: HostFiles) -> None:
    files.link(SERVICE, "/etc/systemd/system/nri-numamem.service")


def start_the_runtime(files: HostFiles, start_s: int) -> None:
    """Let containerd run since a Unix time, on a host that booted 1000 s before."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = " ".join(["S", *("0" for _ in range(18)), str(1000 * ticks)])
    files.write("proc/stat", f"cpu 1 2\nbtime {start_s - 1000}\n")
    files.write("proc/17/stat", f"17 (containerd) {fields}\n")
    files.write("proc/17/comm", "containerd\n")
    files.write("proc/18/comm", "runc\n")


def make_the_link_later(files: HostFiles) -> None:
    start_the_runtime(files, int(time.time()) - 100)


def test_a_link_that_the_runtime_started_with(good_host: HostFiles) -> None:
    start_the_runtime(good_host, int(time.time()) + 100)
    assert good_host.findings()["instances"].verdict is Verdict.OK


def test_the_remedy_of_a_newer_link(good_host: HostFiles) -> None:
    make_the_link_later(good_host)
    assert good_host.findings()["instances"].remedy == "systemctl restart containerd"


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (disable_nri, "nri", Verdict.FAIL, "/etc/containerd/config.toml disables NRI"),
        (disable_nri_in_crio, "nri", Verdict.FAIL, "crio.conf.d/10-x.conf disables NRI"),
        (stop_the_runtime, "nri", Verdict.FAIL, "nothing listens on /var/run/nri/nri.sock"),
        (move_the_socket, "nri", Verdict.FAIL, "nothing listens on /run/other.sock"),
        (shorten_the_timeout, "nri_timeouts", Verdict.WARN, "plugin_request_timeout is 500ms"),
        (break_containerds_configuration, "runtime", Verdict.UNKNOWN, "config.toml: "),
        (add_a_bad_plugin, "plugin_directory", Verdict.FAIL, "plugins/backup.sh is executable"),
        (remove_the_program, "instances", Verdict.FAIL, "a link to a file that does not exist"),
        (remove_the_link, "instances", Verdict.WARN, "the service nri-numamem is not enabled"),
        (make_the_link_later, "instances", Verdict.WARN, "is newer than the process of containerd"),
        (enable_the_service_too, "instances", Verdict.FAIL, "started in 2 ways: /opt/nri/plugins"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)


def enable_the_kubelets_manager(files: HostFiles) -> None:
    files.write(KUBELET, "kind: KubeletConfiguration\nmemoryManagerPolicy: Static\n")


def remove_the_kubelets_configuration(files: HostFiles) -> None:
    files.path(KUBELET).unlink()


def break_the_kubelets_configuration(files: HostFiles) -> None:
    files.write(KUBELET, "a: [\n")


def choose_a_strict_policy(files: HostFiles) -> None:
    files.write(CONFIG, "topologyManagerPolicy: restricted\n")


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (
            enable_the_kubelets_manager,
            "kubelet_memory_manager",
            Verdict.FAIL,
            "config.yaml:2: memoryManagerPolicy is Static",
        ),
        (remove_the_kubelets_configuration, "kubelet", Verdict.UNKNOWN, "does not exist"),
        (break_the_kubelets_configuration, "kubelet", Verdict.UNKNOWN, "config.yaml:2: "),
        (
            choose_a_strict_policy,
            "kubelet_cpu_manager",
            Verdict.WARN,
            "config.yaml:2: cpuManagerPolicy is static, and the plugin's policy is restricted",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_kubelet_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)
