"""A test of the test: lives find defects that are seeded in different rooms."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from nri_numamem.daemon import host_reader, machine_monitor
from nri_numamem.daemon.cpuset_check import CpusetCheck
from nri_numamem.daemon.pod_reaper import PodReaper
from nri_numamem.engine.admission import containers
from nri_numamem.engine.core import allowed_nodes, context, shortfalls
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import CreateContainer, PodSandbox
from nri_numamem.engine.core.facts import PolicyRequest
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.memory_policies import memory_policy
from nri_numamem.engine.features.partitions.feature import PartitionedNodes
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.queries import invariants
from nri_numamem.engine.records.containers import Admitted, Adopted
from nri_numamem.host.cgroups import set_mems
from nri_numamem.host.topology import read_machine
from nri_numamem.memorymanager import State, policy_static, remove_container
from nri_numamem.memorymanager.accounting import assign
from nri_numamem.nri import nri_subset_pb2 as api
from nri_numamem.nri.plugin_service import METHODS, PluginService
from nri_numamem.numa import (
    Classification,
    Machine,
    MemoryNodes,
    NodeSet,
    WithoutCpus,
    classify,
)
from tests.lives.play import play

# Each of the defects shows in one of the first lives; the number leaves room for other seeds.
_LIVES = 20

Seed = Callable[[pytest.MonkeyPatch], None]


def release_at_once(patch: pytest.MonkeyPatch) -> None:
    """memorymanager: an ended container's memory is released instead of kept for its pod."""
    patch.setattr(containers, "mark_reusable", remove_container)


def keep_excess(patch: pytest.MonkeyPatch) -> None:
    """engine: ended containers keep memory beyond the limit of their pod."""
    patch.setattr(pod_limit, "excess", lambda *_arguments: {})


def charge_half(patch: pytest.MonkeyPatch) -> None:
    """memorymanager: a container is charged half of its request."""

    def assign_half(
        state: State, uid: str, name: str, nodes: NodeSet, request: Mapping[str, int]
    ) -> State:
        half = {resource: size_bytes // 2 for resource, size_bytes in request.items()}
        return assign(state, uid, name, nodes, half)

    patch.setattr(policy_static, "assign", assign_half)


def forget_shortfalls(patch: pytest.MonkeyPatch) -> None:
    """engine: what exceeds a full node stays uncharged when the node has room again."""
    patch.setattr(shortfalls, "charge_shortfalls", lambda state: state)
    patch.setattr(invariants, "check_shortfalls", lambda _state: ())


def drop_last_node(patch: pytest.MonkeyPatch) -> None:
    """numa: the list format of a set of nodes lacks the last one."""
    shown = NodeSet.__str__

    def shortened(nodes: NodeSet) -> str:
        return shown(NodeSet(list(nodes)[:-1]) if len(nodes) > 1 else nodes)

    patch.setattr(NodeSet, "__str__", shortened)


def ignore_state_file(patch: pytest.MonkeyPatch) -> None:
    """engine: a new process ignores the state of the process before it."""
    begin = Engine.__init__
    patch.setattr(Engine, "__init__", lambda self, context, _restored=None: begin(self, context))


def lose_updates(patch: pytest.MonkeyPatch) -> None:
    """nri: the reply to Synchronize carries no updates."""
    synchronize = PluginService.synchronize

    def without_updates(service: PluginService, request: api.SynchronizeRequest) -> bytes:
        reply = api.SynchronizeResponse.FromString(synchronize(service, request))
        return api.SynchronizeResponse(more=reply.more).SerializeToString()

    method = replace(METHODS["Synchronize"], serve=without_updates)
    patch.setitem(METHODS, "Synchronize", method)


def overlook_unset_cgroups(patch: pytest.MonkeyPatch) -> None:
    """daemon: a cgroup without nodes is taken for an unknown one."""
    patch.setattr(host_reader, "set_mems", lambda directory: set_mems(directory) or None)
    patch.setattr(CpusetCheck, "due", lambda _self, _now_s: False)


def miss_ended_pods(patch: pytest.MonkeyPatch) -> None:
    """daemon: a pod whose cgroup is gone is not detected."""
    patch.setattr(PodReaper, "find_gone", lambda _self, _pods: [])


def overlook_machine_change(patch: pytest.MonkeyPatch) -> None:
    """daemon: a changed hugepage pool is not detected."""
    first: dict[object, object] = {}

    def read_once(*roots: object) -> object:
        if roots not in first:
            first[roots] = read_machine(*roots)  # type: ignore[arg-type] # passed on
        return first[roots]

    patch.setattr(machine_monitor, "read_machine", read_once)


def use_nodes_without_cpus(patch: pytest.MonkeyPatch) -> None:
    """numa: nodes without CPUs are used whatever the settings say."""

    def classify_as_used(machine: Machine, settings: MemoryNodes) -> Classification:
        return classify(machine, replace(settings, without_cpus=WithoutCpus.USE))

    patch.setattr(context, "classify", classify_as_used)


def interleave_over_all_nodes(patch: pytest.MonkeyPatch) -> None:
    """engine: memory policies have all nodes of the machine, not those of their containers."""

    def all_nodes(context: Context, _mems: str) -> NodeSet:
        return NodeSet(node.node_id for node in context.machine.nodes)

    patch.setattr(memory_policy, "_nodes", all_nodes)


def ignore_annotations_of_containers(patch: pytest.MonkeyPatch) -> None:
    """engine: an annotation for one container has no effect."""

    def of_pod(pod: PodSandbox, feature: str, _container_name: str) -> str:
        return pod.annotations.get(f"{feature}.numamem.io", "")

    patch.setattr(PodSandbox, "annotation", of_pod)


def keep_memory_of_refused_policies(patch: pytest.MonkeyPatch) -> None:
    """engine: a container that is refused for its policy keeps its nodes in the accounting."""
    add_policy = memory_policy.add_policy

    def refused_late(
        context: Context,
        state: EngineState,
        event: CreateContainer,
        request: PolicyRequest,
        decision: Decision,
    ) -> Decision:
        found = add_policy(context, state, event, request, decision)
        return replace(decision, plan=found.plan) if found.plan.refusal else found

    patch.setattr(memory_policy, "add_policy", refused_late)


def leave_placed_out_of_history(patch: pytest.MonkeyPatch) -> None:
    """daemon: the history lacks the containers that are placed."""
    for kind in (Admitted, Adopted):
        patch.setattr(kind, "is_kept", False)


def place_outside_of_partitions(patch: pytest.MonkeyPatch) -> None:
    """engine: a placement has all nodes, whatever the pod's partition."""
    patch.setattr(allowed_nodes, "mask_others", lambda _context, _pod, masked: masked)


def confine_nothing(patch: pytest.MonkeyPatch) -> None:
    """engine: containers that are not pinned may use the nodes of all partitions."""
    patch.setattr(PartitionedNodes, "_confine", lambda _self, _context, _event, decision: decision)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "seed_defect",
    [
        release_at_once,
        keep_excess,
        charge_half,
        forget_shortfalls,
        drop_last_node,
        ignore_state_file,
        lose_updates,
        overlook_unset_cgroups,
        miss_ended_pods,
        overlook_machine_change,
        use_nodes_without_cpus,
        interleave_over_all_nodes,
        ignore_annotations_of_containers,
        keep_memory_of_refused_policies,
        leave_placed_out_of_history,
        place_outside_of_partitions,
        confine_nothing,
    ],
    ids=lambda defect: defect.__name__,
)
def test_a_seeded_defect_is_found(seed_defect: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_defect(monkeypatch)
    problems = (play(seed).problem for seed in range(1, _LIVES + 1))
    assert any(problems), f"none of {_LIVES} lives found the defect"
