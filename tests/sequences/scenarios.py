"""Lives as scenarios, which `simulate` plays, and a plugin process on the fake runtime.

    python -m tests.sequences.scenarios 1-120

plays the lives of these seeds under two policies in both scopes, one after the other, and prints
those in which the two differ. Each takes a second. On a machine where the plugin gets no processor
for two seconds its failure is such a difference, too.

A scenario starts all containers of a pod at once. So a creation in a life stands for another
attempt: of the containers that were refused, or of those that crashed.
"""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any, TypeAlias

from nri_numamem.numa import Machine, NodeSet
from nri_numamem.numa.quantity import hugepages_resource
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import Scenario, scenario_from_document
from tests.laboratory.over_nri import compare_over_nri
from tests.sequences.node_life import NodeLife, node_life
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    OfPod,
    PodSpec,
    Resize,
    Spec,
    StartPod,
)

Document: TypeAlias = dict[str, Any]

POLICIES = ("best-effort", "restricted")
SCOPES = ("container", "pod")
OPERATIONS = 60


def scenario_of(life: NodeLife, operations: int = OPERATIONS) -> Document:
    """Return the first operations of a life as the document of a scenario."""
    pods: dict[str, PodSpec] = {}
    steps: list[Document] = []
    for operation in islice(life.operations(), operations):
        if isinstance(operation, StartPod):
            # A pod that returns has the containers that it had before.
            pods.setdefault(operation.pod.name, operation.pod)
            steps.append({"admit": {"pod": operation.pod.name}})
        else:
            steps += _steps_in(pods[operation.pod.partition(".")[0]], operation)
    return {
        "machine": _machine(life.machine),
        "settings": life.settings.document(),
        "pods": [_manifest(pod) for pod in pods.values()],
        "steps": [*steps, {"retry": {}}],
    }


def _steps_in(pod: PodSpec, operation: OfPod) -> Iterator[Document]:
    """Yield the step of an operation, if the pod has the container."""
    where = {"pod": pod.name}
    apps = {spec.name for spec in pod.specs if not spec.is_init}
    match operation:
        case CreateNext(fails_later=is_odd):
            yield {"retry": {} if is_odd else where}
        case EndContainer(container=name) if name in apps:
            yield {"stop": {**where, "container": name}}
            yield {"admit": where}
        case Resize(container=name, memory_bytes=size) if name in apps:
            yield {"resize": {**where, "container": name, "memory": size}}
        case EndPod():
            yield {"remove": where}


def _machine(machine: Machine) -> Document:
    nodes = [
        {
            "id": node.node_id,
            "memory": node.memory_bytes,
            "hugepages": {_page_name(size): n for size, n in node.hugepages.items()},
            "cpus": str(node.cpus),
            "distances": dict(node.distances),
            "movableOnly": node.is_movable_only,
        }
        for node in machine.nodes
    ]
    return {"nodes": nodes}


def _page_name(size: int) -> str:
    return hugepages_resource(size).removeprefix("hugepages-")


def _manifest(pod: PodSpec) -> Document:
    specs: tuple[list[Document], list[Document]] = ([], [])
    for spec in pod.specs:
        limits = {"cpu": 1, "memory": spec.memory_bytes, **_pages(spec)}
        resources: Document = {"limits": limits}
        if not pod.is_guaranteed:
            resources["requests"] = {"memory": spec.memory_low_bytes}
        specs[spec.is_init].append({"name": spec.name, "resources": resources})
    apps, inits = specs
    metadata = {"uid": pod.name, "name": pod.name, "annotations": dict(pod.annotations)}
    return {"metadata": metadata, "spec": {"initContainers": inits, "containers": apps}}


def _pages(spec: Spec) -> dict[str, int]:
    return {hugepages_resource(size): limit for size, limit in spec.hugepages.items() if limit}


def played(life: NodeLife, operations: int = OPERATIONS) -> tuple[Scenario, list[Outcome]]:
    """Play a life with `simulate`; return the scenario and what happened."""
    scenario = scenario_from_document(scenario_of(life, operations))
    return scenario, list(play(scenario))


def with_policy(seed: int, policy: str, scope: str) -> NodeLife:
    """Return the life of a seed under other settings of the Topology Manager."""
    life = node_life(seed)
    return replace(life, settings=replace(life.settings, policy=policy, scope=scope))


def differences(seeds: Iterable[int]) -> Iterator[str]:
    """Yield one line for each difference in the lives of these seeds."""
    for seed, policy, scope in product(seeds, POLICIES, SCOPES):
        scenario, outcomes = played(with_policy(seed, policy, scope))
        for line in compare_over_nri(scenario, outcomes, f"life {seed}"):
            yield f"seed {seed}, {policy}, {scope} scope: {line}"


def main() -> None:
    """Print the differences, and their number."""
    parser = argparse.ArgumentParser(description="Random lives of simulate against the plugin.")
    parser.add_argument("seeds", type=NodeSet.parse, help="seeds, such as 1-120")
    count = 0
    for line in differences(parser.parse_args().seeds):
        print(line, flush=True)
        count += 1
    print(f"{count} differences")


if __name__ == "__main__":
    main()
