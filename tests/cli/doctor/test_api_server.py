"""What resource claims need at the API server: slice, classes, the driver of CPUs."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.cli.doctor import api_server
from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.main import main
from nri_numamem.export.resourceslice import device_classes
from tests.cli.doctor.host_files import HostFiles
from tests.cli.export.export_host import ExportHost

NODE = "worker-1"


def a_slice(devices: list[dict[str, Any]], driver: str = "numamem.io") -> dict[str, Any]:
    return {"metadata": {"name": driver}, "spec": {"driver": driver, "devices": devices}}


def memory(size: int, **more: object) -> dict[str, Any]:
    return {
        "name": "memory-0",
        "allowMultipleAllocations": True,
        "attributes": {"resource": {"string": "memory"}},
        "capacity": {"size": {"value": str(size)}},
        **more,
    }


class Server:
    """Answers lists."""

    def __init__(self) -> None:
        self.slices = [a_slice([memory(8192)])]
        self.classes: list[dict[str, Any]] = [*device_classes(["memory"])]
        self.seen: list[str] = []

    def send(self, request: Request) -> Answer:
        self.seen.append(request.path)
        assert request.method == "GET"
        items = self.slices if "/resourceslices" in request.path else self.classes
        return Answer(200, {"items": items})

    def findings(self, expected: dict[str, Any] | None) -> dict[str, Finding]:
        found = api_server.check_api_server(self.send, NODE, expected)
        return {each.check: each for each in found}


EXPECTED = a_slice([memory(8192)])


@pytest.fixture(name="server")
def _server() -> Server:
    return Server()


def test_all_is_there(server: Server) -> None:
    assert {name: each.verdict for name, each in server.findings(EXPECTED).items()} == {
        "claim_slice": Verdict.OK,
        "claim_classes": Verdict.OK,
    }
    base = "/apis/resource.k8s.io/v1"
    assert server.seen == [
        f"{base}/resourceslices?fieldSelector=spec.nodeName%3D{NODE}",
        f"{base}/deviceclasses",
    ]


def no_slice(server: Server) -> None:
    server.slices = [a_slice([], "other.io")]


def dropped(server: Server) -> None:
    server.slices = [a_slice([memory(8192, allowMultipleAllocations=None)])]


def other_size(server: Server) -> None:
    server.slices = [a_slice([memory(4096)])]


def no_class(server: Server) -> None:
    del server.classes[0]


def individual_cpus(server: Server) -> None:
    server.slices.append(a_slice([{"name": "cpudev001"}, {"name": "cpudev002"}], "dra.cpu"))


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (no_slice, "claim_slice", Verdict.FAIL, "no slice of numamem.io for Node worker-1"),
        (dropped, "claim_slice", Verdict.FAIL, "the first claim takes a whole NUMA node"),
        (other_size, "claim_slice", Verdict.WARN, "memory-0 has 4096 bytes instead of 8192"),
        (no_class, "claim_classes", Verdict.FAIL, "no DeviceClass dra.memory"),
        (individual_cpus, "claim_cpu_driver", Verdict.WARN, "a device for each of 2 CPUs"),
    ],
)
def test_problems(
    server: Server, change: Callable[[Server], None], check: str, verdict: Verdict, text: str
) -> None:
    change(server)
    found = server.findings(EXPECTED)[check]
    assert found.verdict is verdict
    assert text in found.text
    assert found.remedy


def test_shared_cpus_are_fine(server: Server) -> None:
    device = {"name": "cpudevnuma000", "capacity": {"dra.cpu/cpu": {"value": "4"}}}
    server.slices.append(a_slice([device], "dra.cpu"))
    assert server.findings(EXPECTED)["claim_cpu_driver"].verdict is Verdict.OK


def test_without_an_accounting_the_slice_is_not_compared(server: Server) -> None:
    found = server.findings(None)
    assert found["claim_slice"].verdict is Verdict.UNKNOWN
    assert found["claim_classes"].verdict is Verdict.OK


def refused(_request: Request) -> Answer:
    return Answer(403, {"message": 'User "x" cannot list'})


def absent(_request: Request) -> Answer:
    return Answer(404, {})


def silent(_request: Request) -> Answer:
    raise RequestError("Connection refused")


@pytest.mark.parametrize(
    ("send", "verdict", "text"),
    [
        (refused, Verdict.UNKNOWN, 'resourceslices cannot be listed: User "x" cannot list'),
        (absent, Verdict.FAIL, "the API server does not serve resource.k8s.io/v1"),
        (silent, Verdict.UNKNOWN, "the API server cannot be read: Connection refused"),
    ],
)
def test_lists_that_cannot_be_read(
    send: Callable[[Request], Answer], verdict: Verdict, text: str
) -> None:
    (found,) = api_server.check_api_server(send, NODE, EXPECTED)
    assert (found.check, found.verdict, found.text) == ("claim_slice", verdict, text)
    assert found.remedy


def test_the_slice_is_computed_as_the_agent_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = ExportHost(tmp_path)
    host.run_pod("a")
    host.save()
    with host.running():
        options = ["export", "--dry-run", "--resource-slice", "--output", "json"]
        assert main([*options, "--node-name", NODE, *host.arguments()]) == 0
        *_, printed = json.loads(capsys.readouterr().out)["items"]
        found = api_server.expected_slice(namespace(host), NODE)
    assert found == printed


def namespace(host: ExportHost) -> argparse.Namespace:
    """Return the arguments of the command on a host whose directories are given one by one."""
    return argparse.Namespace(
        root=Path("/"),
        config=host.config,
        state_file=str(host.state_file),
        sysfs_root=host.root / "sys",
        proc_root=host.root / "proc",
        cgroup_root=host.cgroups,
    )


def test_the_command_connects_only_with_the_option(
    good_host: HostFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["doctor", "--root", str(good_host.root), "--output", "json"]
    main(options)
    without = json.loads(capsys.readouterr().out)["findings"]
    missing = tmp_path / "kubeconfig"
    main([*options, "--kubeconfig", str(missing), "--node-name", NODE])
    found = json.loads(capsys.readouterr().out)["findings"]
    (more,) = [each for each in found if each not in without]
    assert more["check"] == "claim_slice"
    assert str(missing) in more["text"]
