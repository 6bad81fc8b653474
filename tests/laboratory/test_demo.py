import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.cli.demo import GI, PAGE_1GI, PAGE_2MI, PodSpec, RefusedError, Started
from nri_numamem.memorymanager import QosClass
from tests.cli.demo_results import results_in
from tests.laboratory import api_pb2 as api
from tests.laboratory.demo import DemoSandbox, main, started

pytestmark = pytest.mark.slow

Make = Callable[[str], DemoSandbox]

_SMALL = PodSpec("small", "server", QosClass.GUARANTEED, GI, {PAGE_1GI: GI})
_BIG = PodSpec("big", "big", QosClass.GUARANTEED, GI)
_ROOT = Path(__file__).resolve().parents[2]


def _directories(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("numamem-*"))


def test_pods_start_and_end(make: Make, tmp_path: Path) -> None:
    with make("good") as sandbox:
        assert sandbox.accounting()["entries"] == {}
        assert sandbox.start_pod(_SMALL).cpuset_mems == "1"
        (root,) = _directories(tmp_path)
        (limit,) = root.glob("cgroup/kubepods/pod*/hugetlb.1GB.max")
        assert limit.read_text() == f"{GI}\n"
        with pytest.raises(RefusedError, match="no room"):
            sandbox.start_pod(_BIG)
        assert len(list(root.glob("cgroup/kubepods/pod*"))) == 1
        assert sorted(sandbox.pod_names.values()) == ["big", "small"]
        sandbox.remove_pod(_SMALL)
        assert not list(root.glob("cgroup/kubepods/pod*"))
        sandbox.start_pod(_SMALL)
        assert sandbox.accounting()["machineState"] == {}
        assert sandbox.call_count > 10
    assert _directories(tmp_path) == []


def test_what_a_container_got_is_read_from_its_resources() -> None:
    resources = api.LinuxResources(
        cpu=api.LinuxCPU(mems="2-3"),
        unified={
            "hugetlb.1GB.max": str(4 * GI),
            "hugetlb.1GB.rsvd.max": str(4 * GI),
            "memory.min": "5",
        },
        hugepage_limits=[api.HugepageLimit(page_size="2MB", limit=0)],
    )
    assert started(resources) == Started("2-3", {PAGE_1GI: 4 * GI, PAGE_2MI: 0})
    assert started(api.LinuxResources()) == Started()


def test_the_real_plugin_replies_as_the_demo_of_one_process(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80"}

    def shown_by(module: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    over_nri = shown_by("tests.laboratory.demo")
    assert "temporary files removed" in over_nri
    assert list(tmp_path.iterdir()) == []
    assert results_in(over_nri) == results_in(shown_by("nri_numamem", "demo"))


def test_a_plugin_that_fails_is_an_error_of_one_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('broken')")
    assert main(command) == 1
    assert capsys.readouterr().err == (
        "make run: the plugin failed: it ended with status 1; the end of its log:\nbroken\n"
    )
