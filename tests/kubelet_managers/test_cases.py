"""The examples of all differences: the kubelet's recorded answers, and what the plugin does."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, Synchronize
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import PoolUse
from nri_numamem.memorymanager.hugepage_pools import Pool
from nri_numamem.numa import hugepages_resource
from nri_numamem.scenario.events import container_event, sandbox_event
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import Admit, Resize
from tests.kubelet_managers.answers import RECORDED_CASES, ROOT, Answer, states
from tests.kubelet_managers.cases import CASES, Case
from tests.kubelet_managers.compare import Tally, compare
from tests.kubelet_managers.differences import OF_ENGINE, Difference
from tests.kubelet_managers.replay import MI, Simulated, document_of
from tests.kubelet_managers.values import bits, mask_of

PAGE = ROOT / "docs" / "kubelet-differences.md"
NAMES = [f"{case.difference}-{index}" for index, case in enumerate(CASES)]


@pytest.fixture(scope="module")
def answers() -> list[list[Answer]]:
    found: list[list[Answer]] = json.loads(RECORDED_CASES.read_text())
    return found


def format_of(nodes: dict[str, str]) -> str:
    return ", ".join(f"{name} {nodes[name]}" for name in nodes)


def kubelet_results(case: Case, answers: list[Answer]) -> Iterator[str]:
    """Yield what the kubelet did in each step that has a result."""
    found = list(states(answers))
    if answers[0].get("reason"):
        yield f"{answers[0]['reason']}: {answers[0]['message']}"
    for step, answer, state in zip(case.life["steps"], answers[1:], found[1:], strict=False):
        uid = step.get("admit") or step.get("resize")
        if "restart" in step:
            yield f"{answer['reason']}: {answer['message']}"
        elif uid is not None and "reason" in answer:
            yield answer["reason"]
        elif uid is not None:
            blocks = state.blocks.get(uid, {})
            names = [container["name"] for container in case.life["pods"][uid]["containers"]]
            found_nodes = {name: cpuset(blocks[name][0][0]) for name in names if name in blocks}
            yield format_of(found_nodes) or "unpinned"


def cpuset(nodes: tuple[int, ...]) -> str:
    """Return nodes as a list for `cpuset.mems`."""
    mask, parts = mask_of(nodes), []
    for first in bits(mask & ~(mask << 1)):
        last = next(n for n in range(first, 64) if not mask >> (n + 1) & 1)
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)


def plugin_results(case: Case) -> Iterator[str]:
    """Yield what `simulate` shows for each step that has a result."""
    document = document_of(
        case.life, [each for step in case.life["steps"] for each in steps_of(case, step)]
    )
    if case.settings is not None:
        reserved = document["settings"]["reservedMemory"]
        document["settings"] = {"reservedMemory": reserved, **case.settings}
    for done in play(scenario_from_document(document)):
        mems = {name: nodes for name, nodes in (done.cpuset_mems or {}).items() if nodes}
        if done.rejection is not None:
            yield done.rejection.reason + (f" after {format_of(mems)}" if mems else "")
        elif isinstance(done.step, Admit | Resize):
            yield format_of(mems)


def steps_of(case: Case, step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the steps of a scenario for the step of a life."""
    if "admit" in step:
        names = [container["name"] for container in case.life["pods"][step["admit"]]["containers"]]
        hints = step.get("hints", {})
        given = {name: hints.get(name) or hints.get("") for name in names}
        cpus = {
            name: ",".join(map(str, found["cpu"][0][0]))
            for name, found in given.items()
            if found and "cpu" in found
        }
        cpus |= step.get("cpus", {})
        yield {"admit": {"pod": step["admit"], "cpus": cpus, "devices": step.get("devices", {})}}
    elif "resize" in step:
        for name, memory in step["memory"].items():
            yield {"resize": {"pod": step["resize"], "container": name, "memory": memory * MI}}
    elif "remove" in step:
        yield {"remove": {"pod": step["remove"]}}


def pod_of(case: Case) -> tuple[Context, PodSandbox, Container]:
    """Return the plugin's context, and the case's only pod and container."""
    scenario = scenario_from_document(document_of(case.life))
    [described] = scenario.pods.values()
    sandbox = sandbox_event("sandbox", described)
    [container] = described.pod.containers
    return scenario.context, sandbox, container_event("container", sandbox, container)


def results_after_restart(case: Case) -> Iterator[str]:
    """Yield the nodes before, and after a plugin without a state starts on the new machine."""
    context, sandbox, container = pod_of(case)
    adjustment = Engine(context).apply(CreateContainer(sandbox, container)).plan.adjustment
    assert adjustment is not None
    yield f"main {adjustment.cpuset_mems}"
    changed = {**case.life, "nodes": case.life["steps"][-1]["restart"]}
    engine = Engine(scenario_from_document(document_of(changed)).context)
    running = replace(container, cpuset_mems=adjustment.cpuset_mems)
    engine.apply(Synchronize((sandbox,), (running,)))
    [blocks] = engine.state.accounting.assignments[sandbox.uid].values()
    yield f"main {blocks[0].numa_affinity}"


def results_with_used_pages(case: Case) -> Iterator[str]:
    """Yield the nodes of a container where other programs use hugepages."""
    context, sandbox, container = pod_of(case)
    name = hugepages_resource(2 * MI)
    used = case.life["steps"][0]["used"]
    pools = {
        node["id"]: {
            name: Pool(
                used.get(node["id"], 0) * MI,
                node["pages"]["2Mi"] * 2 * MI - used.get(node["id"], 0) * MI,
            )
        }
        for node in case.life["nodes"]
    }
    event = CreateContainer(sandbox, container, PoolUse(pools, {name: 0}))
    adjustment = Engine(context).apply(event).plan.adjustment
    assert adjustment is not None
    yield f"main {adjustment.cpuset_mems}"


OUTSIDE_OF_SCENARIOS: dict[str, Callable[[Case], Iterator[str]]] = {
    "state-file-is-not-needed": results_after_restart,
    "hugepages-of-the-kernel-count": results_with_used_pages,
}


def test_page_examples_and_listed_differences_are_the_same() -> None:
    on_page = re.findall(r"^### ([a-z0-9-]+)$", PAGE.read_text(), re.MULTILINE)
    assert len(set(on_page)) == len(on_page)
    assert set(on_page) == {case.difference for case in CASES}
    assert set(on_page) >= set(Difference)


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_the_kubelet_does_what_the_example_says(answers: list[list[Answer]], index: int) -> None:
    case = CASES[index]
    assert tuple(kubelet_results(case, answers[index])) == case.kubelet


@pytest.mark.parametrize("index", range(len(CASES)), ids=NAMES)
def test_the_plugin_does_what_the_example_says(index: int) -> None:
    case = CASES[index]
    results = OUTSIDE_OF_SCENARIOS.get(case.difference, plugin_results)
    assert tuple(results(case)) == case.plugin
    assert case.plugin != case.kubelet


@pytest.mark.parametrize("difference", Difference)
def test_the_model_explains_an_example_by_its_difference(
    answers: list[list[Answer]], difference: Difference
) -> None:
    """Some differences show only while a pod starts; another example of them has a result."""
    tally = Tally()
    for case, recorded in zip(CASES, answers, strict=True):
        if case.difference == difference:
            life = {"seed": case.difference, **case.life}
            compare(life, recorded, Simulated(life), tally, OF_ENGINE)
    assert difference in tally.found
