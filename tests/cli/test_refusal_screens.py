"""A refusal for people: the event's text, explain and simulate, one file for each situation.

`UPDATE_SCREENS=1 pytest tests/cli/test_refusal_screens.py` writes the files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.core.policy import Policy
from tests.cli.explain.stories import GI, PAGE, Past
from tests.cli.screen_files import check_screen

SCREENS = Path(__file__).parent / "screens" / "refusals"


@dataclass(frozen=True, slots=True)
class Situation:
    """Pods of one container on four nodes of 64 GiB with eight 1Gi pages each; the last is refused.

    Each is its memory in GiB and its number of pages.
    """

    policy: str
    pods: Sequence[tuple[int, int]]


SITUATIONS: Mapping[str, Situation] = {
    "needs-two-nodes": Situation("single-numa-node", [(70, 0)]),
    "short-and-grouped": Situation("best-effort", [(48, 0), (90, 0), (16, 0), (49, 0)]),
    "blocked-group": Situation("best-effort", [(33, 0), (34, 0), (35, 0), (100, 0)]),
    "two-resources": Situation("single-numa-node", [(46, 1), (20, 8), (47, 1), (22, 7), (30, 4)]),
}


def scenario(situation: Situation) -> dict[str, object]:
    nodes = [
        {
            "id": n,
            "memory": "64Gi",
            "hugepages": {"1Gi": 8},
            "cpus": f"{8 * n}-{8 * n + 7}",
            "distances": {m: 10 if m == n else 12 if m // 2 == n // 2 else 21 for m in range(4)},
        }
        for n in range(4)
    ]
    pods = []
    for number, (memory, pages) in enumerate(situation.pods):
        limits = {"cpu": "1", "memory": f"{memory}Gi"}
        if pages:
            limits["hugepages-1Gi"] = f"{pages}Gi"
        container = {"name": "main", "resources": {"limits": limits}}
        name = f"pod-{number}"
        pods.append({"metadata": {"name": name, "uid": name}, "spec": {"containers": [container]}})
    return {
        "machine": {"nodes": nodes},
        "settings": {"topologyManagerPolicy": situation.policy},
        "pods": pods,
        "steps": [{"admit": {"pod": f"pod-{number}"}} for number in range(len(pods))],
    }


@pytest.mark.parametrize("name", SITUATIONS)
def test_screens(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    situation = SITUATIONS[name]
    past = Past(tmp_path / "state", Policy(topology_manager_policy=situation.policy))
    past.begin()
    text: str | None = None
    for number, (memory, pages) in enumerate(situation.pods):
        limits = {PAGE: pages * GI} if pages else {}
        pod = past.pod(f"default/pod-{number}", memory_limit_bytes=memory * GI)
        assert text is None
        text = past.create(pod, "main", memory, hugepage_limits=limits)
    assert text is not None
    assert len(text) <= 900
    parser_arguments = ["explain", pod.name, "--state-file", str(past.state_file)]
    assert main(parser_arguments) == 0
    explained = capsys.readouterr().out
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(scenario(situation)))
    assert main(["simulate", str(file)]) == 0
    last = capsys.readouterr().out.partition(f"{len(situation.pods)}. Admit")[2]
    parts = {"event": f"{text}\n", "explain": explained, "simulate": f"Admit{last}"}
    check_screen(
        "\n".join(f"# {part}\n\n{found}" for part, found in parts.items()), SCREENS / f"{name}.txt"
    )
