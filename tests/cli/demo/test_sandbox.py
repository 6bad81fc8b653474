from collections.abc import Callable
from pathlib import Path

import pytest

from nri_numamem.cli.demo.sandbox import DemoSandbox
from nri_numamem.cli.demo.steps import GI, PAGE_1GI, PodSpec
from nri_numamem.fake_runtime.runtime import PluginRefused
from nri_numamem.memorymanager import QosClass

pytestmark = pytest.mark.slow

Make = Callable[[str], DemoSandbox]

_SMALL = PodSpec("small", "server", QosClass.GUARANTEED, GI, {PAGE_1GI: GI})
_BIG = PodSpec("big", "big", QosClass.GUARANTEED, GI)


def _directories(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("numamem-*"))


def test_pods_start_and_end(make: Make, tmp_path: Path) -> None:
    with make("good") as sandbox:
        assert sandbox.accounting()["entries"] == {}
        assert sandbox.start_pod(_SMALL).cpu.mems == "1"
        (root,) = _directories(tmp_path)
        (limit,) = root.glob("cgroup/kubepods/pod*/hugetlb.1GB.max")
        assert limit.read_text() == f"{GI}\n"
        with pytest.raises(PluginRefused, match="no room"):
            sandbox.start_pod(_BIG)
        assert len(list(root.glob("cgroup/kubepods/pod*"))) == 1
        assert sorted(sandbox.pod_names.values()) == ["big", "small"]
        sandbox.remove_pod(_SMALL)
        assert not list(root.glob("cgroup/kubepods/pod*"))
        sandbox.start_pod(_SMALL)
        assert sandbox.accounting()["machineState"] == {}
        assert sandbox.call_count > 10
    assert _directories(tmp_path) == []
