"""A scenario's pods before a real plugin process, and whether it gives them the same.

The pods are played as the kubelet would: a sandbox, then its containers in order, each ordinary
init container ending before the next one starts. A pod whose container is refused goes away
again; a pod gives back its memory when its sandbox ends. What runs at the start is there before
the plugin connects. What cannot be played so is refused beforehand (simulate_playable).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import yaml

from nri_numamem.cli.simulate_playable import check_playable, last_removals
from nri_numamem.cli.stage import PLUGIN_COMMAND, PluginStage, StageError
from nri_numamem.cli.state import books_of
from nri_numamem.cli.tables import Books
from nri_numamem.engine.qos import QosClass
from nri_numamem.engine.scenario import Outcome, Scenario
from nri_numamem.engine.scenario_steps import Admit
from nri_numamem.engine.settings import settings_to_mapping
from nri_numamem.memorymanager import (
    MEMORY,
    ContainerKind,
    Machine,
    Request,
    hugepages_page_size,
    pod_request,
)
from nri_numamem.memorymanager.quantity import format_page_size
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from nri_numamem.nri.runtime import PluginRefused
from nri_numamem.values import valueclass

# The stage has its own log, and its machine no kubelet.
_SETTINGS_LEFT_OUT = ("logLevel", "logFile", "logFormat", "kubeletConfigFile", "metricsAddress")

_Held: TypeAlias = set[tuple[str, str, str, tuple[int, ...], int]]


@valueclass(frozen=True, slots=True)
class Played:
    """What an admission came to over NRI."""

    cpuset_mems: Mapping[str, str | None] | None
    refusal: str = ""


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
        with ScenarioStage(scenario, machine, command) as stage:
            return stage.differences(outcomes)
    except StageError as error:
        return [str(error)]


class ScenarioStage(PluginStage):
    """A scenario's machine and pods, with a runtime and a plugin."""

    def __init__(self, scenario: Scenario, machine: Machine, command: Sequence[str]) -> None:
        document = settings_to_mapping(scenario.settings)
        kept = {key: value for key, value in document.items() if key not in _SETTINGS_LEFT_OUT}
        super().__init__(machine, yaml.safe_dump(kept), command, hide_hugepage_limits=False)
        self._scenario = scenario
        self._sandboxes: dict[str, api.PodSandbox] = {}
        self._attempts: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        """Uid that the plugin is told -> uid in the scenario."""

    def differences(self, outcomes: Sequence[Outcome]) -> list[str]:
        """Play the steps; return where the plugin does otherwise than `outcomes` say."""
        found: list[str] = []
        ending = last_removals(self._scenario.steps)
        for index, outcome in enumerate(outcomes):
            step = outcome.step
            if isinstance(step, Admit):
                if step.uid in self._sandboxes:
                    continue  # it runs; a runtime has nothing to tell
                played = self._guard(partial(self._admit, step.uid))
                found += _compare(f"steps[{index}]", outcome, played)
            elif index in ending and ending[index] in self._sandboxes:
                pod = self._sandboxes.pop(ending[index])
                self._guard(partial(self._end_pod, pod))
        books = outcomes[-1].books if outcomes else self._scenario.books
        # A plugin that manages nothing keeps no books of what was there before it.
        if self._scenario.is_static:
            found += _compare_books(_held(books_of(books)), self._held_over_nri())
        return found

    def _held_over_nri(self) -> _Held:
        held = _held(self.books())
        return {(self._uids[uid], name, kind, nodes, size) for uid, name, kind, nodes, size in held}

    def _before_plugin(self) -> None:
        for uid, containers in (self._scenario.written.entries or {}).items():
            requests = {
                name: {block.type: block.size for block in blocks}
                for name, blocks in containers.items()
            }
            pod = self._run_sandbox(uid, _sum(requests.values()))
            for name, blocks in containers.items():
                mems = str(blocks[0].numa_affinity) if blocks else ""
                self._run_container(pod, QosClass.GUARANTEED, name, requests[name], mems)

    def _admit(self, uid: str) -> Played:
        described = self._scenario.pods[uid]
        qos = QosClass(described.qos.value)
        pod = self._run_sandbox(uid, pod_request(described.pod), qos)
        try:
            for container in described.pod.containers:
                created = self._run_container(pod, qos, container.name, container.requests)
                if container.kind is ContainerKind.INIT:
                    self._runtime.stop_container(created)
        except PluginRefused as refused:
            self._end_pod(self._sandboxes.pop(uid))
            return Played(None, refused.text)
        return Played(self._mems_of(pod))

    def _run_sandbox(
        self, uid: str, request: Request, qos: QosClass = QosClass.GUARANTEED
    ) -> api.PodSandbox:
        described = self._scenario.pods.get(uid)
        attempt = self._attempts.get(uid, 0)
        self._attempts[uid] = attempt + 1
        # The plugin leads a uid that comes back to its old nodes. The kubelet, and so a scenario,
        # takes it for another pod, which it nearly always is.
        told_uid = f"{uid}.again{attempt}" if attempt else uid
        self._uids[told_uid] = uid
        pod = objects.pod(
            uid if described is None else described.name,
            uid=told_uid,
            namespace="default" if described is None else described.namespace,
            qos=qos,
            memory_limit_bytes=request.get(MEMORY, 0),
            attempt=attempt,
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
        container = objects.container(
            pod,
            name,
            memory_limit_bytes=request.get(MEMORY, 0),
            hugepages=self._hugepage_limits(request),
            qos=qos,
            cpuset_mems=mems,
        )
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

    def _mems_of(self, pod: api.PodSandbox) -> dict[str, str | None]:
        return {
            container.name: container.linux.resources.cpu.mems or None
            for container in self._runtime.store.containers_of(pod.id)
        }


def _sum(requests: Iterable[Request]) -> Request:
    total: dict[str, int] = {}
    for request in requests:
        for resource, size_bytes in request.items():
            total[resource] = total.get(resource, 0) + size_bytes
    return total


def _compare(place: str, outcome: Outcome, played: Played) -> list[str]:
    """Compare one admission."""
    rejection, mems = outcome.rejection, played.cpuset_mems
    if mems is None:
        if rejection is None:
            return [f"{place}: over NRI it is refused ({played.refusal}), else it is admitted"]
        if rejection.reason in played.refusal:
            return []
        return [f"{place}: over NRI the reason is {played.refusal!r}, else {rejection.reason}"]
    if rejection is not None:
        return [f"{place}: over NRI it is admitted ({_shown(mems)}), else refused"]
    expected = outcome.cpuset_mems or {}
    if mems == expected:
        return []
    return [f"{place}: over NRI it is given {_shown(mems)}, else {_shown(expected)}"]


def _shown(mems: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {nodes or 'nothing'}" for name, nodes in mems.items()) or "nothing"


def _held(books: Books) -> _Held:
    """Return every block that has bytes; the order in which they were entered is no difference."""
    found: _Held = set()
    for uid, containers in books["entries"].items():
        for name, blocks in containers.items():
            found |= {
                (uid, name, block["type"], tuple(block["numaAffinity"]), block["size"])
                for block in blocks
                if block["size"]
            }
    return found


def _compare_books(expected: _Held, found: _Held) -> list[str]:
    return [
        f"after the last step: {side} {uid}/{name} holds {size} bytes of {resource} on nodes "
        f"{','.join(map(str, nodes))}"
        for side, blocks in (
            ("only over NRI", found - expected),
            ("only without NRI", expected - found),
        )
        for uid, name, resource, nodes, size in sorted(blocks)
    ]
