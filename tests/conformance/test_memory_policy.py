"""Memory policies: what NRI's Go runtime side gets, and what an older one is not sent."""

from pathlib import Path

import pytest

from nri_numamem.host.memory_policies import WEIGHTS
from nri_numamem.memorymanager import QosClass
from tests.conformance.bench import Bench
from tests.conformance.go_runtime import numbers_of
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.simulated_host import GI

ANNOTATION = "memory-policy.numamem.io"
STATIC = api.MPOL_F_STATIC_NODES


def policy(mode: "api.MpolMode.ValueType", nodes: str) -> api.LinuxMemoryPolicy:
    return api.LinuxMemoryPolicy(mode=mode, nodes=nodes, flags=[STATIC] if nodes else [])


EXPECTED = {
    "interleave": policy(api.MPOL_INTERLEAVE, "0-1"),
    "weighted-interleave": policy(api.MPOL_WEIGHTED_INTERLEAVE, "0-1"),
    "bind": policy(api.MPOL_BIND, "0-1"),
    "preferred": policy(api.MPOL_PREFERRED, "0-1"),
    "preferred-many": policy(api.MPOL_PREFERRED_MANY, "0-1"),
    "local": policy(api.MPOL_LOCAL, ""),
}


@pytest.mark.scenario(72)
def test_policies_arrive_where_nri_has_them(version: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    modes = ", ".join(EXPECTED)
    path.write_text(f"memoryPolicy: {{modes: [{modes}], runtimes: [runc]}}\n")
    (tmp_path / "sys" / WEIGHTS).mkdir(parents=True)
    with Bench(version, tmp_path, "--config", str(path)) as bench:
        bench.connected()
        for mode, expected in EXPECTED.items():
            pod = objects.pod(mode, qos=QosClass.BURSTABLE)
            pod.annotations[ANNOTATION] = mode
            container = objects.container(pod, "c", qos=QosClass.BURSTABLE)
            response = bench.create(pod, container)
            linux = response.adjust.linux
            assert not linux.resources.cpu.mems
            if numbers_of(version) >= (0, 12, 0):
                assert linux.memory_policy == expected
            else:
                assert not linux.HasField("memory_policy")
        pod = objects.pod("pinned", memory_limit_bytes=GI)
        pod.annotations[f"{ANNOTATION}/container.db"] = "bind"
        for name in ("db", "proxy"):
            response = bench.create(pod, objects.container(pod, name, memory_limit_bytes=GI // 4))
            nodes = response.adjust.linux.resources.cpu.mems
            assert nodes == "0"
            has_policy = name == "db" and numbers_of(version) >= (0, 12, 0)
            assert response.adjust.linux.HasField("memory_policy") is has_policy
            if has_policy:
                assert response.adjust.linux.memory_policy == policy(api.MPOL_BIND, nodes)
        assert bench.process.poll() is None
