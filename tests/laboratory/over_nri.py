"""A scenario's pods on the fake runtime with a plugin process, and a comparison of the results.

    python -m tests.laboratory.over_nri FILE

prints one line for each difference from `nri-numamem simulate FILE`, and ends with status 1 if
there is one.

The fake runtime does what the kubelet would: it starts a sandbox, then the containers in order, and
each ordinary init container ends before the next container starts. After a refusal the containers
of the pod that run keep their memory; a refused app container does not stop the creation of the
next ones, a refused init container does. A pod's memory is released when
its sandbox ends. Containers that run at the start exist before the plugin connects. ``playable``
rejects other scenarios beforehand.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import yaml

from nri_numamem.cli.simulate import load_scenario
from nri_numamem.config.documents import name_of, read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import settings_to_mapping
from nri_numamem.engine.core.cpu_requests import shares_of
from nri_numamem.host.memory_policies import WEIGHTS
from nri_numamem.kubelet.manifest import CpuAmounts
from nri_numamem.memorymanager import ContainerKind, QosClass, Rejection, Request
from nri_numamem.memorymanager.state_json import StateJson, state_json
from nri_numamem.numa import MEMORY, Machine, hugepages_page_size
from nri_numamem.numa.quantity import format_page_size
from nri_numamem.scenario.events import limits_of_pod
from nri_numamem.scenario.outcome import Outcome
from nri_numamem.scenario.player import play
from nri_numamem.scenario.scenario import Scenario
from nri_numamem.scenario.steps import Admit, Resize, Retry, Stop
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.cpus import compare_cpus
from tests.laboratory.playable import check_playable
from tests.laboratory.policies import compare_policies, with_known_runtime
from tests.laboratory.runtime import PluginRefused
from tests.laboratory.sandbox import PLUGIN_COMMAND, PluginSandbox, SandboxError

# The sandbox has its own log, and its machine no kubelet.
_ID = re.compile(r" \[\d+-\d+\]", re.ASCII)
"""The id of a refusal, in its text."""

_SETTINGS_LEFT_OUT = (
    "logLevel",
    "logFile",
    "logFormat",
    "kubeletConfigFile",
    "metricsAddress",
    "metricsTextfile",
)

_Held: TypeAlias = set[tuple[str, str, str, tuple[int, ...], int]]


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a step over NRI."""

    cpuset_mems: Mapping[str, str | None]
    """Container name -> nodes; with a refusal, of the containers that were created."""
    refusal: str | None = None
    """The first one."""
    policies: Mapping[str, api.LinuxMemoryPolicy] = field(default_factory=dict)
    """Container name -> its memory policy, of containers that have one."""
    cpus: Mapping[str, str] = field(default_factory=dict)
    """Container name -> `cpuset.cpus`, of containers that were created or resized."""


def compare_over_nri(
    scenario: Scenario,
    outcomes: Sequence[Outcome],
    origin: str,
    command: Sequence[str] = PLUGIN_COMMAND,
) -> list[str]:
    """Play the scenario before a plugin process; return one line for each difference.

    `outcomes` are those of the play without NRI, `command` starts the plugin. Raises UsageError,
    which begins with `origin`, for what cannot be played.
    """
    machine = check_playable(scenario, outcomes, origin)
    try:
        with ScenarioSandbox(scenario, machine, command) as sandbox:
            return sandbox.differences(outcomes)
    except SandboxError as error:
        return [str(error)]


class ScenarioSandbox(PluginSandbox):
    """A scenario's machine and pods, with a runtime and a plugin."""

    def __init__(self, scenario: Scenario, machine: Machine, command: Sequence[str]) -> None:
        document = settings_to_mapping(with_known_runtime(scenario.settings))
        kept = {key: value for key, value in document.items() if key not in _SETTINGS_LEFT_OUT}
        super().__init__(machine, yaml.safe_dump(kept), command, hide_hugepage_limits=False)
        self._scenario = scenario
        self._sandboxes: dict[str, api.PodSandbox] = {}
        self._running: dict[tuple[str, str], api.Container] = {}
        """Pod uid and container name -> container."""
        self._ended_inits: dict[tuple[str, str], api.Container] = {}
        self._attempts: Counter[tuple[str, ...]] = Counter()

    def differences(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Play the steps; return one line for each difference from `outcomes`."""
        found: list[str] = []
        for index, outcome in enumerate(outcomes):
            step, place = outcome.step, f"steps[{index}]"
            if isinstance(step, Admit):
                found += _compare(place, outcome, self._guard(partial(self._admit, step.uid)))
            elif isinstance(step, Retry):
                found += self._retry(place, outcome)
            elif isinstance(step, Resize):
                found += _compare(place, outcome, self._guard(partial(self._resize, step)))
            elif isinstance(step, Stop):
                container = self._running.pop((step.uid, step.container), None)
                if container is not None:
                    self._guard(partial(self._runtime.stop_container, container))
            elif step.uid in self._sandboxes:
                self._guard(partial(self._end, step.uid))
        accounting = outcomes[-1].accounting if outcomes else self._scenario.accounting
        # A plugin that manages nothing does not account for containers that were there before it.
        if self._scenario.context.is_static:
            expected = _held(state_json(accounting))
            found += _compare_accounting(expected, _held(self.accounting()))
        return found

    def _before_plugin(self) -> None:
        # With these files a kernel has all modes of memory policies.
        (self._root / "sys" / WEIGHTS).mkdir(parents=True)
        for uid, containers in (self._scenario.written.entries or {}).items():
            requests = {
                str(name): {block.type: block.size for block in blocks}
                for name, blocks in containers.items()
            }
            pod = self._run_sandbox(uid, _sum(requests.values()))
            for key, blocks in containers.items():
                name = str(key)
                mems = str(blocks[0].numa_affinity) if blocks else ""
                made = self._run_container(pod, QosClass.GUARANTEED, name, requests[name], mems)
                self._running[uid, name] = made

    def _admit(self, uid: str) -> Played:
        described = self._scenario.pods[uid]
        qos = described.qos
        pod = self._sandboxes.get(uid)
        if pod is None:
            pod = self._run_sandbox(uid, limits_of_pod(described.pod), qos)
        mems: dict[str, str | None] = {}
        policies: dict[str, api.LinuxMemoryPolicy] = {}
        cpus: dict[str, str] = {}
        refusal: str | None = None
        for container in described.pod.containers:
            key = (uid, container.name)
            made = self._running.get(key) or self._ended_inits.get(key)
            if made is not None:
                # A plugin that manages nothing knows no container, and a scenario shows no nodes.
                mems[container.name] = _mems_of(made) if self._scenario.context.is_static else None
            else:
                try:
                    made = self._run_container(pod, qos, container.name, container.requests)
                except PluginRefused as refused:
                    refusal = refusal or refused.text
                    if container.kind is not ContainerKind.APP:
                        break
                    continue
                if (policy := self._runtime.memory_policies.get(made.id)) is not None:
                    policies[container.name] = policy
                if container.kind is ContainerKind.INIT:
                    self._runtime.stop_container(made)
                    self._ended_inits[key] = made
                else:
                    self._running[key] = made
                mems[container.name] = _mems_of(made)
                cpus[container.name] = made.linux.resources.cpu.cpus
        return Played(mems, refusal, policies, cpus)

    def _retry(self, place: str, outcome: Outcome) -> list[str]:
        """Create the refused containers again, in the order of the play without NRI."""
        found: list[str] = []
        for uid, expected in (outcome.retried or {}).items():
            played = self._guard(partial(self._admit, uid))
            found += _compare(f"{place}.{uid}", expected, played)
        return found

    def _resize(self, step: Resize) -> Played:
        container = self._running.get((step.uid, step.container))
        if container is None:
            return Played({step.container: None})
        resources, cpus_before = api.LinuxResources(), container.linux.resources.cpu.cpus
        resources.memory.limit.value = step.memory_bytes
        try:
            self._runtime.update_container(container, resources)
        except PluginRefused as refused:
            return Played({}, refused.text)
        name, cpu = step.container, container.linux.resources.cpu
        # A step's result has the CPUs that it sets.
        cpus = {name: cpu.cpus} if cpu.cpus != cpus_before else {}
        return Played({name: cpu.mems or None}, cpus=cpus)

    def _end(self, uid: str) -> None:
        self._end_pod(self._sandboxes.pop(uid))
        for containers in (self._running, self._ended_inits):
            for key in [key for key in containers if key[0] == uid]:
                del containers[key]

    def _run_sandbox(
        self, uid: str, request: Request, qos: QosClass = QosClass.GUARANTEED
    ) -> api.PodSandbox:
        described = self._scenario.pods.get(uid)
        attempt = self._attempts[uid,]
        self._attempts[uid,] += 1
        pod = objects.pod(
            uid if described is None else described.name,
            uid=uid,
            namespace="default" if described is None else described.namespace,
            qos=qos,
            memory_limit_bytes=request.get(MEMORY, 0),
            attempt=attempt,
            annotations={} if described is None else described.annotations,
        )
        files = {
            f"hugetlb.{format_page_size(size)}.max": f"{limit_bytes}\n"
            for size, limit_bytes in self._hugepage_limits(request).items()
        }
        self._make_cgroup(pod, files)
        self._sandboxes[uid] = self._runtime.run_pod_sandbox(pod)
        return pod

    def _run_container(
        self, pod: api.PodSandbox, qos: QosClass, name: str, request: Request, mems: str = ""
    ) -> api.Container:
        described = self._scenario.pods.get(pod.uid)
        amounts = CpuAmounts() if described is None else described.cpus.get(name, CpuAmounts())
        container = objects.container(
            pod,
            name,
            cpu_shares=shares_of(amounts.request),
            cpu_limit_millicores=amounts.limit,
            memory_limit_bytes=request.get(MEMORY, 0),
            hugepages=self._hugepage_limits(request),
            qos=qos,
            cpuset_mems=mems,
            attempt=self._attempts[pod.id, name],
        )
        self._attempts[pod.id, name] += 1
        created = self._runtime.create_container(pod, container)
        self._runtime.start_container(created)
        return created

    def _hugepage_limits(self, request: Request) -> dict[int, int]:
        """Return page size in bytes -> bytes, for every size of the host as the kubelet does."""
        none = {size: 0 for node in self._machine.nodes for size in node.hugepages}
        return none | {
            hugepages_page_size(resource): size_bytes
            for resource, size_bytes in request.items()
            if resource != MEMORY
        }


def _mems_of(container: api.Container) -> str | None:
    return container.linux.resources.cpu.mems or None


def _sum(requests: Iterable[Request]) -> Request:
    total: dict[str, int] = {}
    for request in requests:
        for resource, size_bytes in request.items():
            total[resource] = total.get(resource, 0) + size_bytes
    return total


def _compare(place: str, outcome: Outcome, played: Played) -> list[str]:
    """Compare one step's results."""
    found: list[str] = []
    rejection, refusal, mems = outcome.rejection, played.refusal, played.cpuset_mems
    if rejection is None and refusal is not None:
        found.append(f"{place}: over NRI it is refused ({refusal}), else it is admitted")
    elif rejection is not None and refusal is None:
        found.append(f"{place}: over NRI it is admitted ({_shown(mems)}), else refused")
    elif rejection is not None and refusal is not None and not _is_same(rejection, refusal):
        found.append(f"{place}: over NRI the reason is {refusal!r}, else {rejection.reason}")
    expected = outcome.cpuset_mems or {}
    if mems != expected and not found:
        found.append(f"{place}: over NRI it is given {_shown(mems)}, else {_shown(expected)}")
    return (
        found
        + compare_policies(place, outcome, played.policies)
        + compare_cpus(place, outcome, played.cpus)
    )


def _is_same(rejection: Rejection, refusal: str) -> bool:
    return rejection.reason in refusal or rejection.message in _ID.sub("", refusal, count=1)


def _shown(mems: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {nodes or 'nothing'}" for name, nodes in mems.items()) or "nothing"


def _held(accounting: StateJson) -> _Held:
    """Return every block that has bytes; their order is no difference."""
    found: _Held = set()
    for uid, containers in accounting["entries"].items():
        for name, blocks in containers.items():
            found |= {
                (uid, name, block["type"], tuple(block["numaAffinity"]), block["size"])
                for block in blocks
                if block["size"]
            }
    return found


def _compare_accounting(expected: _Held, found: _Held) -> list[str]:
    return [
        f"after the last step: {side} {uid}/{name} holds {size} bytes of {resource} on nodes "
        f"{','.join(map(str, nodes))}"
        for side, blocks in (
            ("only over NRI", found - expected),
            ("only without NRI", expected - found),
        )
        for uid, name, resource, nodes, size in sorted(blocks)
    ]


def main(file: Path, command: Sequence[str] = PLUGIN_COMMAND) -> int:
    """Compare the two plays of a scenario; return 1 if they differ, 2 if it cannot be played."""
    origin = name_of(file)
    try:
        scenario = load_scenario(read_file(file), origin)
        found = compare_over_nri(scenario, tuple(play(scenario)), origin, command)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    for difference in found:
        print(f"{origin}: {difference}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
