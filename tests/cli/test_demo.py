import argparse
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
from rich.console import Console

from nri_numamem.cli import demo
from nri_numamem.cli.demo.sandbox import DemoSandbox, SandboxError
from nri_numamem.cli.demo.steps import GI, PAGE_1GI, STEPS, PodSpec
from nri_numamem.fake_runtime.runtime import PluginRefused
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.state_json import StateJson
from nri_numamem.nri import api_pb2 as api
from nri_numamem.ttrpc import Code

pytestmark = pytest.mark.slow

_REASON = "numamem: no NUMA nodes can hold 48Gi; " + ", ".join(
    f"node {node}: too little is free for a container of this size" for node in range(4)
)


class _FakeSandbox(DemoSandbox):
    """Has no plugin: rejects the first cache, and pins Guaranteed pods to node 0."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        pass

    @property
    def pod_names(self) -> dict[str, str]:
        return {}

    def start_pod(self, spec: PodSpec) -> api.LinuxResources:
        self.calls.append(spec.name)
        if spec.name == "cache" and self.calls.count("cache") == 1:
            raise PluginRefused(Code.UNKNOWN, _REASON)
        mems = "0" if spec.qos is QosClass.GUARANTEED else ""
        return api.LinuxResources(cpu=api.LinuxCPU(mems=mems))

    @property
    def call_count(self) -> int:
        return 5

    def remove_pod(self, spec: PodSpec) -> None:
        self.calls.append(f"-{spec.name}")

    def accounting(self) -> StateJson:
        return {
            "machineState": {
                "0": {
                    "numberOfAssignments": 0,
                    "cells": [0],
                    "memoryMap": {
                        "memory": {
                            "total": GI,
                            "systemReserved": 0,
                            "allocatable": GI,
                            "reserved": 0,
                            "free": GI,
                        }
                    },
                }
            },
            "entries": {},
        }


def _played(width: int, encoding: str = "utf-8") -> list[str]:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding),
        width=width,
        highlight=False,
        color_system=None,
    )
    sandbox = _FakeSandbox()
    demo.play(sandbox, console)
    assert sandbox.calls == [("-" if s.removes else "") + s.pod.name for s in STEPS]
    console.file.flush()
    return raw.getvalue().decode(encoding).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_fit_the_width_and_are_complete(width: int) -> None:
    lines = _played(width)
    assert max(len(line.rstrip()) for line in lines) <= width
    words = " ".join(" ".join(lines).split())
    assert _REASON in words
    for number, step in enumerate(STEPS, start=1):
        assert f"{number}. {step.title}" in words
    assert "result cpuset.mems 0" in words
    assert "result cpuset.mems is not set" in words
    assert "removed pod analytics" in words
    assert words.count("nodes unchanged") == len(STEPS)
    assert "8 steps, 5 NRI calls" in words
    assert not [line for line in lines if line != line.rstrip()]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert all(line.isascii() for line in _played(80, "ascii"))


def test_a_request_as_one_line() -> None:
    pod = PodSpec("router", "dpdk", QosClass.GUARANTEED, 16 * GI, {PAGE_1GI: 4 * GI})
    assert demo.describe(pod) == (
        "pod router, container dpdk: Guaranteed, memory 16Gi, hugepages-1Gi 4Gi"
    )
    assert demo.describe(PodSpec("b", "job", QosClass.BEST_EFFORT)) == (
        "pod b, container job: BestEffort"
    )


def test_resources_as_one_line() -> None:
    resources = api.LinuxResources(
        cpu=api.LinuxCPU(mems="2-3"),
        unified={
            "hugetlb.1GB.max": str(4 * GI),
            "hugetlb.1GB.rsvd.max": str(4 * GI),
            "memory.min": "5",
        },
        hugepage_limits=[api.HugepageLimit(page_size="2MB", limit=0)],
    )
    assert demo.describe_resources(resources) == (
        "cpuset.mems 2-3, hugetlb.2MB.max 0, hugetlb.1GB.max 4Gi"
    )
    assert demo.describe_resources(api.LinuxResources()) == ""


def test_the_command_succeeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "DemoSandbox", _FakeSandbox)
    parser = argparse.ArgumentParser()
    demo.add_arguments(parser)
    assert demo.main(parser.parse_args([])) == 0
    assert "1. A database" in capsys.readouterr().out


def test_the_command_prints_the_error_of_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> DemoSandbox:
        raise SandboxError("the plugin failed: it ended; the end of its log:\nthe log")

    monkeypatch.setattr(demo, "DemoSandbox", broken)
    assert demo.main(argparse.Namespace()) == 1
    assert capsys.readouterr().err == (
        "nri-numamem: demo: the plugin failed: it ended; the end of its log:\nthe log\n"
    )


@pytest.fixture(scope="module")
def real_demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what the demo with the real plugin prints into a pipe."""
    directory = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "nri_numamem", "demo"],
        env={**os.environ, "TMPDIR": str(directory), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(Path(directory).iterdir()) == []
    return done.stdout


def test_the_real_plugin_replies_as_in_the_titles(real_demo: str) -> None:
    results = re.findall(r"^  (result|rejected) +(.*)$", real_demo, re.MULTILINE)
    assert [label for label, _ in results] == ["result"] * 5 + ["rejected", "result"]
    assert [text for label, text in results if label == "result"] == [
        "cpuset.mems 0",
        "cpuset.mems 2-3",
        "cpuset.mems 1, hugetlb.1GB.max 4Gi",
        "cpuset.mems is not set",
        "cpuset.mems is not set",
        "cpuset.mems 2",
    ]


def test_piped_output_has_no_colours(real_demo: str) -> None:
    assert "\x1b" not in real_demo
    assert max(map(len, real_demo.splitlines())) <= 80
