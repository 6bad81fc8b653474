"""Scenarios are played as the plugin and the kubelet's managers would."""

import pytest

from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.claims import prepare
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.scenario.player import Player
from nri_numamem.scenario.scenario import scenario_from_document
from nri_numamem.scenario.steps import Admit
from tests.scenario.documents import GI, Document, documents, outcomes, pod, scenario


def test_admissions_and_removals() -> None:
    steps = [
        {"admit": {"pod": "a"}},
        {"admit": {"pod": "b"}},
        {"remove": {"pod": "a"}},
        {"remove": {"pod": "a"}},
        {"admit": {"pod": "b"}},
    ]
    got = outcomes(scenario(*steps, pods=[pod("a", "5Gi"), pod("b", "15Gi")]))
    shown = [outcome.document for outcome in got]
    assert shown[0] == {"ok": True, "cpusetMems": {"c0": "0"}}
    assert shown[1]["ok"] is False
    assert shown[2:] == [{"ok": True}, {"ok": True}, {"ok": True, "cpusetMems": {"c0": "0-1"}}]
    assert got[1].accounting == got[0].accounting
    assert got[1].rejection is not None
    assert shown[1]["error"] == {
        "reason": got[1].rejection.reason,
        "message": got[1].rejection.message,
        "nodes": [
            {
                "node": 0,
                "freeBytes": {"memory": 5 << 30},
                "rule": "blocks_group",
                "reason": "blocks a group (5Gi assigned)",
            },
            {
                "node": 1,
                "freeBytes": {"memory": 10 << 30},
                "rule": "too_small",
                "reason": "5Gi short, even if empty",
            },
        ],
        "remedies": [
            {"kind": "empty_nodes", "text": "end the pods on NUMA nodes 0-1", "nodes": "0-1"},
            {
                "kind": "request_less",
                "text": "request at most 10Gi",
                "bytes": {"memory": 10 << 30},
            },
        ],
    }
    assert list(got[-1].accounting.assignments) == ["b"]


def test_containers_before_a_refused_one_keep_what_they_have() -> None:
    pods = [pod("a", "6Gi", containers=3), pod("b", "3Gi")]
    got = outcomes(scenario(admit("a"), admit("b"), remove("a"), admit("b"), pods=pods))
    assert got[0].document["ok"] is False
    assert got[0].document["cpusetMems"] == {"c0": "0", "c1": "1"}
    assert list(got[0].accounting.assignments["a"]) == ["c0", "c1"]
    # A container of a is still to come, and needs 6 of the 8 GiB that are free.
    assert got[1].rejection is not None
    assert (
        "still need memory 6Gi; all NUMA nodes together have memory 8Gi" in got[1].rejection.message
    )
    assert got[2].accounting.assignments == {}
    assert got[3].document["cpusetMems"] == {"c0": "0"}


def limited(uid: str, *containers: tuple[str, str, str]) -> Document:
    """Return a pod of (kind, name, memory); the kinds are init, sidecar and app."""
    spec: Document = {"initContainers": [], "containers": []}
    for kind, name, memory in containers:
        made: Document = {"name": name, "resources": {"limits": {"cpu": 1, "memory": memory}}}
        if kind == "sidecar":
            made["restartPolicy"] = "Always"
        spec["containers" if kind == "app" else "initContainers"].append(made)
    return {"metadata": {"uid": uid}, "spec": spec}


def test_a_refused_app_container_does_not_hold_up_the_next_ones() -> None:
    apps = limited("a", ("app", "c0", "9Gi"), ("app", "c1", "10500Mi"), ("app", "c2", "512Mi"))
    (got,) = documents(scenario({"admit": {"pod": "a"}}, pods=[apps]))
    assert got["ok"] is False
    assert list(got["refused"]) == ["c1"]
    assert got["refused"]["c1"] == got["error"]
    assert got["cpusetMems"] == {"c0": "0", "c2": "0"}


@pytest.mark.parametrize("kind", ["init", "sidecar"])
def test_a_refused_init_container_holds_up_the_next_ones(kind: str) -> None:
    containers = (("init", "i0", "2Gi"), (kind, "i1", "12Gi"), ("app", "c0", "1Gi"))
    pods = [pod("full", "6Gi"), limited("a", *containers)]
    (_, got) = documents(scenario(admit("full"), admit("a"), pods=pods))
    assert list(got["refused"]) == ["i1"]
    assert got["cpusetMems"] == {"i0": "0"}


def test_init_containers_run_one_after_the_other() -> None:
    pods = [limited("a", *(("init", f"i{n}", "9Gi") for n in range(3)), ("app", "c", "9Gi"))]
    (got,) = outcomes(scenario({"admit": {"pod": "a"}}, pods=pods))
    assert got.cpuset_mems == {"i0": "0", "i1": "0", "i2": "0", "c": "0"}
    assert [n.table("memory").reserved >> 30 for n in got.accounting.machine_state.values()] == [
        9,
        0,
    ]


def test_refused_containers_are_retried_while_the_others_hold_their_memory() -> None:
    pods = [
        limited("a", ("app", "c0", "5Gi"), ("app", "c1", "6Gi")),
        limited("b", ("app", "c0", "9Gi")),
        limited("d", ("app", "c0", "9Gi")),
    ]
    steps: list[Document] = [
        {"retry": {}},
        *({"admit": {"pod": uid}} for uid in "bad"),
        {"retry": {}},
        {"remove": {"pod": "b"}},
        {"retry": {"pod": "a"}},
        {"retry": {"pod": "a"}},
        {"retry": {}},
        {"remove": {"pod": "a"}},
        {"retry": {}},
    ]
    got = documents(scenario(*steps, pods=pods))
    assert got[0] == {"ok": True, "pods": {}}
    assert (got[2]["ok"], got[2]["cpusetMems"], list(got[2]["refused"])) == (
        False,
        {"c0": "1"},
        ["c1"],
    )
    assert got[3]["ok"] is False
    # Nothing was freed: both pods are refused again, and a's first container runs on.
    assert got[4]["ok"] is False
    assert list(got[4]["pods"]) == ["a", "d"]
    assert got[4]["pods"]["a"]["cpusetMems"] == {"c0": "1"}
    assert got[6] == {"ok": True, "pods": {"a": {"ok": True, "cpusetMems": {"c0": "1", "c1": "0"}}}}
    assert got[7] == {"ok": True, "pods": {}}
    assert got[8]["pods"]["d"]["ok"] is False
    assert got[-1] == {"ok": True, "pods": {"d": {"ok": True, "cpusetMems": {"c0": "0"}}}}


def test_a_retry_has_the_cpus_and_devices_of_the_admission() -> None:
    step = admit("b", cpus={"c0": "0-1"}, devices={"c0": [[0]]})
    settings = {"topologyManagerPolicy": "restricted"}
    pods = [pod("full", "9Gi"), *BOTH]
    steps: list[Document] = [
        {"admit": {"pod": "full"}},
        step,
        {"remove": {"pod": "full"}},
        {"retry": {}},
    ]
    got = documents(scenario(*steps, machine=machine_with_cpus(), settings=settings, pods=pods))
    assert got[1]["error"]["reason"] == "TopologyAffinityError"
    assert got[3]["pods"]["b"]["cpusetMems"] == {"c0": "0"}


def test_a_pod_that_ended_is_not_retried() -> None:
    steps: list[Document] = [
        {"admit": {"pod": "a"}},
        {"remove": {"pod": "a"}},
        {"retry": {}},
    ]
    got = documents(scenario(*steps, pods=[pod("a", "90Gi")]))
    assert got[2] == {"ok": True, "pods": {}}


def test_a_misaligned_container_beside_a_refused_one() -> None:
    pods = [pod("full", "6Gi"), limited("a", ("app", "c0", "2Gi"), ("app", "c1", "6Gi"))]
    steps = [{"admit": {"pod": "full"}}, admit("a", cpus={"c0": "0-1"})]
    got = documents(scenario(*steps, machine=machine_with_cpus(), pods=pods))
    assert got[1]["cpusetMems"] == {"c0": "1"}
    assert got[1]["misaligned"] == {"c0": {"cpu": "0"}}
    assert got[1]["ok"] is False


def test_memory_away_from_the_cpus_is_shown() -> None:
    step = admit("b", cpus={"c0": "0-1"}, devices={"c0": [[1]]})
    (got,) = documents(scenario(step, machine=machine_with_cpus(), pods=BOTH))
    assert got == {
        "ok": True,
        "cpusetMems": {"c0": "0"},
        "misaligned": {"c0": {"devices": ["1"]}},
    }


def test_pods_that_run_unpinned_where_nothing_fits() -> None:
    settings = {"whenUnsatisfiable": "RunUnpinned"}
    pods = [pod("a", "9Gi", containers=3)]
    (one,) = outcomes(scenario({"admit": {"pod": "a"}}, settings=settings, pods=pods))
    assert one.document == {"ok": True, "cpusetMems": {"c0": "0", "c1": "1", "c2": None}}
    assert list(one.unpinned or {}) == ["c2"]
    settings |= {"topologyManagerScope": "pod", "topologyManagerPolicy": "restricted"}
    (one,) = outcomes(scenario({"admit": {"pod": "a"}}, settings=settings, pods=pods))
    assert one.document == {"ok": True, "cpusetMems": {"c0": None, "c1": None, "c2": None}}
    assert one.accounting.assignments == {}


def test_the_scope_decides_what_is_aligned() -> None:
    step, pods = {"admit": {"pod": "a"}}, [pod("a", "6Gi", containers=2)]
    assert documents(scenario(step, pods=pods))[0]["cpusetMems"] == {"c0": "0", "c1": "1"}
    settings = {"topologyManagerScope": "pod"}
    (got,) = documents(scenario(step, settings=settings, pods=pods))
    assert got["cpusetMems"] == {"c0": "0-1", "c1": "0-1"}


def test_a_manager_that_is_off_does_nothing() -> None:
    steps: list[Document] = [
        {"admit": {"pod": "a"}},
        {"remove": {"pod": "a"}},
    ]
    state = {"entries": {"old": {"c": [{"numaAffinity": [0], "type": "memory", "size": 5}]}}}
    settings = {"memoryManagerPolicy": "None"}
    got = outcomes(scenario(*steps, settings=settings, state=state, pods=[pod("a", "99Gi")]))
    assert [outcome.document for outcome in got] == [
        {"ok": True, "cpusetMems": {"c0": None}},
        {"ok": True},
    ]
    assert list(got[-1].accounting.assignments) == ["old"]


def test_an_init_containers_memory_is_used_again() -> None:
    step = {"admit": {"pod": "a"}}
    (got,) = outcomes(scenario(step, pods=[pod("a", "8Gi", init="9Gi")]))
    assert got.document["cpusetMems"] == {"init": "0", "c0": "0"}
    assert got.accounting.machine_state[0].table("memory").reserved == 9 * GI


def test_no_steps_and_no_machine() -> None:
    assert documents({}) == []


TABLE = {"total": "8Gi", "allocatable": 8 * GI, "free": 8 * GI}
NODE = {"numberOfAssignments": None, "memoryMap": {"memory": TABLE}}


def test_accounting_is_used_as_it_is() -> None:
    document: Document = {"state": {"machineState": {"3": NODE}}, "pods": [pod("a")]}
    (got,) = outcomes({**document, "steps": [{"admit": {"pod": "a"}}]})
    assert got.document["cpusetMems"] == {"c0": "3"}
    both = scenario({"admit": {"pod": "a"}}, **document)
    assert documents(both) == [got.document]


BOTH = [pod("a", "5Gi", containers=2), pod("b", "3Gi")]


def admit(uid: str, **more: object) -> Document:
    return {"admit": {"pod": uid, **more}}


def resize(uid: str, memory: str, name: str = "c0") -> Document:
    return {"resize": {"pod": uid, "container": name, "memory": memory}}


def stop(uid: str, name: str = "c0") -> Document:
    return {"stop": {"pod": uid, "container": name}}


def remove(uid: str) -> Document:
    return {"remove": {"pod": uid}}


def machine_with_cpus() -> Document:
    return {"nodes": [{"id": n, "memory": "8Gi", "cpus": f"{4 * n}-{4 * n + 3}"} for n in (0, 1)]}


def test_memory_follows_cpus_and_devices() -> None:
    steps = [admit("a", cpus={"c0": "4-5"}, devices={"c1": [[1]]}), admit("b")]
    got = documents(
        scenario(
            *steps,
            machine=machine_with_cpus(),
            pods=[pod("a", "3Gi", containers=2), pod("b", "3Gi")],
        )
    )
    assert got[0]["cpusetMems"] == {"c0": "1", "c1": "1"}
    assert got[1]["cpusetMems"] == {"c0": "0"}


def test_memory_follows_cpus_into_a_group() -> None:
    cpus = ["0-3", "4-7", "8-11"]
    machine: Document = {"nodes": [{"id": n, "memory": "9Gi", "cpus": cpus[n]} for n in range(3)]}
    pods = [pod("group", "12Gi"), pod("a", "2Gi")]
    for list_of_cpus in ("0-1", "4-5"):  # node 0 is full, node 1 has 6Gi free
        admit = {"admit": {"pod": "a", "cpus": {"c0": list_of_cpus}}}
        settings: Document = {"reservedMemory": []}
        steps: list[Document] = [{"admit": {"pod": "group"}}, admit]
        got = documents(scenario(*steps, machine=machine, pods=pods, settings=settings))
        assert got[1] == {"ok": True, "cpusetMems": {"c0": "0-1"}}


def test_pod_scope_counts_hugepages_of_init_containers() -> None:
    machine = {"nodes": [{"id": n, "memory": "9Gi", "hugepages": {"2Mi": 512}} for n in (0, 1)]}
    only_init = pod("a", "1Gi", init="1Gi")
    only_init["spec"]["initContainers"][0]["resources"]["limits"]["hugepages-2Mi"] = "64Mi"
    settings = {"reservedMemory": [], "topologyManagerScope": "pod"}
    steps = [{"admit": {"pod": "a"}}]
    got = documents(scenario(*steps, machine=machine, pods=[only_init], settings=settings))
    assert got == [{"ok": True, "cpusetMems": {"init": "0", "c0": "0"}}]


def test_a_strict_policy_refuses_cpus_and_a_device_on_different_nodes() -> None:
    step = admit("b", cpus={"c0": "0-1"}, devices={"c0": [[1]]})
    settings = {"topologyManagerPolicy": "restricted"}
    (got,) = documents(scenario(step, machine=machine_with_cpus(), settings=settings, pods=BOTH))
    assert got["ok"] is False
    assert got["error"]["reason"] == "TopologyAffinityError"
    assert "cpusetMems" not in got


def test_a_resize_takes_and_gives_back_memory() -> None:
    got = outcomes(scenario(admit("b"), resize("b", "6Gi"), resize("b", "1Gi"), pods=BOTH))
    free = [one.accounting.machine_state[0].table("memory").free // GI for one in got]
    assert free == [7, 4, 9]
    assert [one.document for one in got] == [{"ok": True, "cpusetMems": {"c0": "0"}}] * 3


def test_a_resize_may_take_more_nodes_or_is_refused() -> None:
    got = documents(scenario(admit("b"), resize("b", "12Gi"), resize("b", "90Gi"), pods=BOTH))
    assert got[1] == {"ok": True, "cpusetMems": {"c0": "0-1"}}
    assert got[2]["ok"] is False
    assert got[2]["error"]["reason"] == "ResizeRejected"
    assert "cannot be resized to memory 90Gi" in got[2]["error"]["message"]


def test_a_container_that_does_not_run_is_not_resized() -> None:
    assert documents(scenario(resize("b", "6Gi"), pods=BOTH)) == [
        {"ok": True, "cpusetMems": {"c0": None}}
    ]


def test_a_pod_keeps_the_memory_of_a_stopped_container() -> None:
    steps = [admit("b"), stop("b"), stop("b"), admit("b"), remove("b")]
    got = outcomes(scenario(*steps, pods=BOTH))
    assert [one.document for one in got[1:3]] == [{"ok": True}] * 2
    reserved = [one.accounting.machine_state[0].table("memory").reserved // GI for one in got]
    assert reserved == [3, 3, 3, 3, 0]


def test_an_admitted_pod_is_started_once() -> None:
    got = outcomes(scenario(admit("a"), admit("a"), pods=[pod("a", "3Gi", init="4Gi")]))
    assert got[1].document == got[0].document
    assert got[1].accounting == got[0].accounting


def test_an_ended_init_container_keeps_its_nodes_in_the_output() -> None:
    """After a resize of the app, the pod has nothing of its init container left."""
    steps = [admit("a"), resize("a", "15Gi"), admit("a")]
    got = outcomes(scenario(*steps, pods=[pod("a", "3Gi", init="9Gi")]))
    assert got[1].document == {"ok": True, "cpusetMems": {"c0": "0-1"}}
    assert list(got[1].accounting.assignments["a"]) == ["c0"]
    assert got[2].document == {"ok": True, "cpusetMems": {"init": "0", "c0": "0-1"}}


def test_a_pod_prefers_the_nodes_that_it_had() -> None:
    steps = [admit("b"), admit("a"), remove("b"), remove("a"), admit("a")]
    got = documents(scenario(*steps, pods=BOTH))
    assert got[1]["cpusetMems"] == {"c0": "0", "c1": "1"}
    assert got[-1]["cpusetMems"] == {"c0": "0", "c1": "1"}


def test_a_pool_that_is_not_used_up_is_shown() -> None:
    """In pod scope the whole pod has its memory before its second container starts."""
    settings = {"topologyManagerScope": "pod", "topologyManagerPolicy": "restricted"}
    steps = [admit("a", devices={"c1": [[1]]}, cpus={"c0": "0"})]
    pods = [pod("a", "3Gi", containers=2)]
    (got,) = outcomes(scenario(*steps, machine=machine_with_cpus(), settings=settings, pods=pods))
    assert got.document["cpusetMems"] == {"c0": "0"}
    assert {n: b[0].size // GI for n, b in got.accounting.assignments["a"].items()} == {
        "c0": 3,
        HolderKind.POD: 3,
    }


def test_other_pods_are_not_managed() -> None:
    described = pod("a", "3Gi")
    del described["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    (got,) = outcomes(scenario(admit("a"), pods=[described]))
    assert got.document["cpusetMems"] == {"c0": None}
    assert got.accounting.assignments == {}


def test_a_pod_that_is_not_managed_can_end() -> None:
    described = pod("a", "3Gi", init="4Gi")
    del described["spec"]["containers"][0]["resources"]["limits"]["cpu"]
    got = documents(scenario(admit("a"), remove("a"), admit("a"), pods=[described]))
    assert got[2] == {"ok": True, "cpusetMems": {"init": None, "c0": None}}


def pod_level(uid: str, memory: str, *own: str | None) -> Document:
    """Return a pod with a pod-level limit, and containers with and without limits of their own."""
    limits = [{"memory": amount} if amount else {} for amount in own]
    containers = [
        {"name": f"c{index}", "resources": {"limits": found}} for index, found in enumerate(limits)
    ]
    resources = {"limits": {"cpu": 1, "memory": memory}}
    return {"metadata": {"uid": uid}, "spec": {"resources": resources, "containers": containers}}


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_containers_share_a_pod_level_limit(scope: str) -> None:
    pods = [pod_level("a", "4Gi", "4Gi", "4Gi", None), pod("b", "6Gi")]
    settings = {"topologyManagerScope": scope}
    got = outcomes(scenario(admit("a"), admit("b"), pods=pods, settings=settings))
    assert got[0].document == {"ok": True, "cpusetMems": dict.fromkeys(["c0", "c1", "c2"], "0")}
    assert got[1].document == {"ok": True, "cpusetMems": {"c0": "0"}}


def test_a_resize_does_not_change_a_pod_level_limit() -> None:
    steps = [admit("a"), resize("a", "2Gi")]
    got = outcomes(scenario(*steps, pods=[pod_level("a", "4Gi", "1Gi", None)]))
    assignments = got[1].accounting.assignments["a"]
    assert {name: blocks[0].size // GI for name, blocks in assignments.items()} == {
        "c0": 2,
        "c1": 2,
    }


def test_an_admission_that_is_only_tried_changes_nothing() -> None:
    first, second = {"admit": {"pod": "a"}}, {"admit": {"pod": "b"}}
    played = scenario_from_document(
        scenario(first, second, pods=[pod("a", "5Gi"), pod("b", "15Gi")])
    )
    player = Player(played)
    empty, (admit_a, admit_b) = player.accounting, played.steps
    assert isinstance(admit_b, Admit)
    player.play(admit_a)
    before = player.state
    assert player.try_in(before, None, admit_b).rejection is not None
    assert player.state is before
    assert player.try_in(player.state.with_accounting(empty), None, admit_b).cpuset_mems == {
        "c0": "0-1"
    }
    assert player.state is before
    assert player.play(admit_b).rejection is not None


def test_pods_are_placed_beside_a_claim_that_was_charged() -> None:
    played = scenario_from_document(scenario({"admit": {"pod": "a"}}, pods=[pod("a", "5Gi")]))
    player = Player(played)
    charged = prepare(player.accounting, "claim", {0: {"memory": 6 * GI}})
    assert isinstance(charged, State)
    player.replace_accounting(charged)
    assert player.play(played.steps[0]).cpuset_mems == {"c0": "1"}


@pytest.mark.parametrize("action", ["use", "lastResort"])
@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
def test_exclusive_cpus_beside_nodes_without_cpus(policy: str, scope: str, action: str) -> None:
    """Node 1 has no CPUs. A full node 0 refuses exclusive CPUs, and nothing else."""
    nodes = [{"id": 0, "memory": "11Gi", "cpus": "0-7"}, {"id": 1, "memory": "11Gi"}]
    settings: Document = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": scope,
        "memoryNodes": {"withoutCpus": action},
    }
    steps = [
        {"admit": {"pod": uid, **({"cpus": {"c0": cpus}} if cpus else {})}}
        for uid, cpus in (("full", "2-3"), ("exclusive", "4-5"), ("shared", ""))
    ]
    pods = [pod("full", "9Gi"), pod("exclusive", "2Gi"), pod("shared", "2Gi")]
    made = scenario(*steps, pods=pods, settings=settings, machine={"nodes": nodes})
    full, exclusive, shared = outcomes(made)
    assert full.document["cpusetMems"] == {"c0": "0"}
    assert shared.document["cpusetMems"] == {"c0": "1"}
    if policy == "best-effort":
        assert exclusive.document["cpusetMems"] == {"c0": "1"}
    else:
        assert "cpusetMems" not in exclusive.document
        assert exclusive.rejection is not None
        assert exclusive.rejection.reason == "TopologyAffinityError"
