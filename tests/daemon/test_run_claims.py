"""Claims in a running plugin: intents, a container with the hook of its claim, a restart."""

import json
from pathlib import Path

import pytest

from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import cdi, claim_files
from nri_numamem.observe.claim_files import Answer, Intent
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import SimulatedHost, wait_for

GI = 1 << 30
CLAIM = Claim("0b8c7c8e-9f1c-4a55", "default", "upf-numa", {"mem": {1: {"memory": 3 * GI}}})


def with_hooks(container: api.Container, specifications: Path) -> api.Container:
    """Return a container with the edits of the claim's devices, as a runtime adds them."""
    found = json.loads(cdi.specification_file(specifications, CLAIM.uid).read_text())
    for device in found["devices"]:
        for hook in device["containerEdits"]["hooks"]:
            container.hooks.create_runtime.add(path=hook["path"], args=hook["args"])
    return container


def test_a_claim_from_its_intent_to_its_end(simulated_host: SimulatedHost, tmp_path: Path) -> None:
    config, specifications = tmp_path / "config.yaml", tmp_path / "cdi"
    config.write_text(f"claims: {{enabled: true, cdiDirectory: {specifications}}}\n")
    directory = claim_files.directory_of(simulated_host.state_file)

    def has_answer(attempt: str) -> bool:
        return claim_files.read_answers(directory).get(CLAIM.uid) == Answer(attempt)

    with FakeRuntime() as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        claim_files.write_intents(directory, [Intent(CLAIM, "try-1")])
        wait_for(lambda: has_answer("try-1"), "the answer")
        pod = runtime.run_pod_sandbox(objects.pod("upf", qos=QosClass.BEST_EFFORT))
        made = objects.container(pod, "app", qos=QosClass.BEST_EFFORT)
        started = runtime.create_container(pod, with_hooks(made, specifications))
        resources = started.linux.resources
        assert (resources.cpu.mems, resources.memory.limit.value) == ("1", 3 * GI)
        large = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=2 * GI))
        container = objects.container(large, "app", memory_limit_bytes=2 * GI)
        assert runtime.create_container(large, container).linux.resources.cpu.mems == "0"
        assert simulated_host.stop(process) == 0
    with FakeRuntime(store=runtime.store) as runtime:
        runtime.listen(simulated_host.socket)
        process = simulated_host.start("--config", str(config))
        runtime.accept(30)
        runtime.synchronize()
        more = objects.container(pod, "more", qos=QosClass.BEST_EFFORT)
        with pytest.raises(PluginRefused) as refused:
            runtime.create_container(pod, with_hooks(more, specifications))
        assert "nothing is left of the 3Gi memory of claim default/upf-numa" in str(refused.value)
        claim_files.write_intents(directory, [Intent(CLAIM, "try-2")])
        wait_for(lambda: has_answer("try-2"), "the answer")
        runtime.stop_pod_sandbox(pod)
        claim_files.write_intents(directory, [])
        wait_for(lambda: not list(specifications.iterdir()), "the end of the claim")
        assert simulated_host.stop(process) == 0
    found = [record["event"] for record in simulated_host.records() if "claim" in record["event"]]
    assert found == ["claim_prepared", "claim_used", "claim_use_rejected", "claim_released"]
    (used,) = simulated_host.records("claim_used")
    assert used["claims"] == ["default/upf-numa"]
    assert used["sets_memory_limit"] is True


def test_claims_need_a_state_file(simulated_host: SimulatedHost, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("claims: {enabled: true}\n")
    process = simulated_host.start("--config", str(config), "--state-file", "")
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"{config}:1: claims.enabled needs the directory of the state file" in output
