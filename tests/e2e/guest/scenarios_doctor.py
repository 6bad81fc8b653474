"""Scenario of `nri-numamem doctor`: a good host, and ten faults in four broken ones.

Each fault is a file that is written and then restored; the plugin is external. Starting Python
takes seconds on an emulated processor, so faults that do not hide each other are there at once.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host

_KUBELET = Path("/var/lib/kubelet/config.yaml")
_CONFIG = Path("/etc/nri-numamem/config.yaml")
_CONTAINERD = Path("/etc/containerd/config.toml")
_STATE = Path("/var/lib/nri-numamem/nri_numamem_state")
_PLUGINS = Path("/opt/nri/plugins")
_NRI = '[plugins."io.containerd.nri.v1.nri"]\n'

_GOOD_KUBELET = "kind: KubeletConfiguration\nmemoryManagerPolicy: None\n"


def _doctor_finds_no_fault(host: Host) -> str:
    with _files({_KUBELET: _GOOD_KUBELET}):
        found, status = _doctor(host)
    expect(not found.keys() & {"fail"}, f"{found}")
    expect(status in (0, 1), f"status {status}")
    expect("instance" in found["ok"] and "nri" in found["ok"], f"{found}")
    return f"ok: {found['ok']}"


def _doctor_names_ten_faults(host: Host) -> str:
    config, containerd = _CONFIG.read_text(), _CONTAINERD.read_text()
    seen = 0

    def expect_faults(files: Mapping[Path, str], **expected: str) -> None:
        nonlocal seen
        with _files(files):
            found, status = _doctor(host)
        for check, verdict in expected.items():
            expect(check in found.get(verdict, []), f"{check} is not {verdict}: {found}")
            seen += 1
        worst = 2 if "fail" in expected.values() else 1
        expect(status == worst, f"status {status} with {found}")

    expect_faults(
        {
            _PLUGINS / "backup.sh": "#!/bin/sh\n",
            _KUBELET: _GOOD_KUBELET.replace("None", "Static"),
            _CONFIG: f"{config}logLevel: loud\n",
            _CONTAINERD: containerd.replace("120s", "1s"),
            _STATE: "{",
        },
        plugin_directory="fail",
        kubelet_memory_manager="fail",
        configuration="fail",
        nri_timeouts="warn",
        state_file="warn",
    )
    expect_faults(
        {
            _PLUGINS / "10-nri-numamem": "#!/bin/sh\n",
            _KUBELET: f"{_GOOD_KUBELET}cpuManagerPolicy: static\n",
            _CONFIG: f"{config}topologyManagerPolicy: restricted\n",
            _CONTAINERD: f"version = 2\n{_NRI}disable = true\n",
        },
        instances="fail",
        kubelet_cpu_manager="warn",
        nri="fail",
    )
    expect_faults(
        {_CONFIG: config.replace("64Mi", "900Gi", 1), _KUBELET: _GOOD_KUBELET},
        configuration="fail",
    )
    with host.without_plugin():
        expect_faults({_KUBELET: _GOOD_KUBELET}, instance="fail")
    return f"{seen} faults"


def _doctor(host: Host) -> tuple[dict[str, list[str]], int]:
    """Return verdict -> checks with it, and the exit status."""
    result = host.plugin.command("doctor", "--output", "json")
    found: dict[str, list[str]] = {}
    for finding in json.loads(result.stdout)["findings"]:
        found.setdefault(finding["verdict"], []).append(finding["check"])
    return found, result.returncode


@contextlib.contextmanager
def _files(texts: Mapping[Path, str]) -> Iterator[None]:
    """Write executable files, and restore what was there before."""
    before = {path: path.read_bytes() if path.is_file() else None for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        yield
    finally:
        for path, content in before.items():
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)


_EXTERNAL = ("external",)  # the files of a launched plugin differ in their places only

DOCTOR = (
    Check("doctor_finds_no_fault", _doctor_finds_no_fault, _EXTERNAL),
    Check("doctor_names_ten_faults", _doctor_names_ten_faults, _EXTERNAL),
)
