"""The manifests of docs/claims.md: what the program prints, or what equals it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.export.claimtemplate import Needs, claim_spec
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import resource_slice
from nri_numamem.kubelet.manifest import pod_from_manifest
from nri_numamem.memorymanager import Reservation, State
from nri_numamem.memorymanager.claims import prepare
from nri_numamem.numa import CpuSet, Machine, NumaNode

PAGE = (Path(__file__).resolve().parents[2] / "docs/claims.md").read_text()
GI = 1 << 30
_BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = re.compile(
    r"^```sh\nnri-numamem (claim [^\n]+)\n```\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PRINTED = dict(_PRINTED.findall(PAGE))
OTHERS = [text for text in _BLOCK.findall(PAGE) if text not in PRINTED.values()]


@pytest.mark.parametrize("command", PRINTED)
def test_a_template_is_what_the_command_prints(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    shown = capsys.readouterr().out
    assert PRINTED[command] in (shown, shown.partition("---\n")[0])


def test_there_are_templates_of_each_kind() -> None:
    assert [command.count("--nodes") for command in PRINTED] == [0, 0, 1, 1]
    assert any("--with" in command for command in PRINTED)
    assert any("kind: Pod" in text for text in PRINTED.values())
    assert len(OTHERS) == 2


def test_the_shared_claim_is_a_claim_of_the_command_and_holds_all_limits() -> None:
    claim, pod = yaml.safe_load_all(OTHERS[0])
    assert claim["spec"] == claim_spec(Needs({"memory": 40 * GI}))
    (reference,) = pod["spec"]["resourceClaims"]
    assert reference["resourceClaimName"] == claim["metadata"]["name"]
    for container in pod["spec"]["containers"]:
        assert container["resources"]["claims"] == [{"name": reference["name"]}]
    found = pod_from_manifest({**pod, "metadata": {"uid": "u"}})
    assert found.guaranteed
    assert sum(container.requests["memory"] for container in found.containers) == 40 * GI


def test_the_device_is_one_of_a_slice() -> None:
    """Of a host with a claim on NUMA node 1."""
    node = NumaNode(0, 113 * GI, cpus=CpuSet([0]), distances={0: 10, 1: 21})
    other = replace(node, node_id=1, cpus=CpuSet([1]), distances={0: 21, 1: 10})
    reserved = tuple(Reservation(node_id, {"memory": GI}) for node_id in range(2))
    engine = Engine(new_context(Machine((node, other)), Policy(reserved_memory=reserved)))
    accounting = prepare(engine.state.accounting, "claim", {1: {"memory": 40 * GI}})
    assert isinstance(accounting, State)
    made: Any = resource_slice(
        Host("worker", engine.context, engine.state.with_accounting(accounting))
    )
    (shown,) = yaml.safe_load(OTHERS[1])
    assert shown in made["spec"]["devices"]
