"""Objects of kubectl on a host with pods: four nodes of 60 GiB each."""

from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.simulate.workloads import (
    Host,
    Result,
    check_pod,
    try_workloads,
    workload_document,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.config.values import SettingsError
from nri_numamem.engine.core.state import EngineState
from nri_numamem.kubelet.workload import workloads_of
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import GI, LiveHost, four_nodes, host_with_a_small_pod
from tests.cli.simulate.kubectl import Object, deployment, pod


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    """Node 0 has nearly 20 GiB free, node 1 nearly 36, and nodes 2-3 nearly 30 as a group."""
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "postgres", 40 * GI)
    host.run("upf", "dpdk", 24 * GI, pages=2)
    host.run("train", "worker", 90 * GI)
    host.save()
    return host


def tried(host: LiveHost, *objects: Object, without: tuple[str, ...] = ()) -> Result:
    facts = collect(host.parsed())
    assert facts.context is not None
    assert facts.state is not None
    here = Host(facts.settings, facts.context, facts.state, facts.pool_use)
    found = [workload for document in objects for workload in workloads_of(document)]
    return try_workloads(here, found, without)


def test_a_pod_that_fits(host: LiveHost) -> None:
    (trial,) = tried(host, pod("web", "25Gi")).trials
    assert trial.fits
    assert trial.placed == (("web", {"c": "1"}),)


def test_replicas_are_tried_until_one_does_not_fit(host: LiveHost) -> None:
    result = tried(host, deployment("web", 5, "16Gi"), pod("late", "1Gi"))
    web, late = result.trials
    assert [(name, mems["c"]) for name, mems in web.placed] == [
        ("web-0", "0"),
        ("web-1", "1"),
        ("web-2", "1"),
        ("web-3", "2-3"),
    ]
    assert not web.fits
    assert web.rejection is not None
    assert late.placed == (("late", {"c": "0"}),)
    # The pod that did not fit holds nothing.
    uids = set(result.accountings[0].assignments) - {"db", "upf", "train"}
    assert {result.pod_names[uid] for uid in uids} == {f"shop/web-{n}" for n in range(4)}


def test_no_replicas(host: LiveHost) -> None:
    (trial,) = tried(host, deployment("web", 0)).trials
    assert (trial.fits, trial.placed) == (True, ())


@pytest.mark.parametrize("name", ["train", "shop/train-x", "train-x"])
def test_without_a_pod_its_memory_is_free(host: LiveHost, name: str) -> None:
    (trial,) = tried(host, pod("big", "100Gi")).trials
    assert not trial.fits
    result = tried(host, pod("big", "100Gi"), without=(name,))
    assert result.trials[0].placed == (("big", {"c": "2-3"}),)
    assert "train" not in result.before.assignments


def test_an_unknown_pod(host: LiveHost) -> None:
    with pytest.raises(UsageError, match=r"no pod x; give one such as shop/db-x, shop/tra"):
        tried(host, pod("a"), without=("x",))
    host.run("other", "c", GI)
    state = host.engine.state
    reason = next(iter(state.reasons.pinned.values()))
    host.engine = type(host.engine).with_state(
        host.engine.context,
        state.with_reasons(
            type(state.reasons)(
                {
                    key: type(reason)(
                        key, each.sandbox_id, each.key, each.key[0], "same", each.event
                    )
                    for key, each in state.reasons.pinned.items()
                }
            )
        ),
    )
    host.save()
    with pytest.raises(UsageError, match="same is the name of several pods; give one of db"):
        tried(host, pod("a"), without=("same",))


def test_an_empty_host_has_no_pod_to_end(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.save()
    with pytest.raises(UsageError, match=r"no pod x; it has placed none at all$"):
        tried(host, pod("a"), without=("x",))


def test_a_pod_that_runs_is_not_tried(host: LiveHost) -> None:
    result = tried(host, pod("train-x", "90Gi", uid="train"))
    (trial,) = result.trials
    assert trial.runs_on == NodeSet([2, 3])
    assert trial.fits
    assert result.accountings == (result.before,)
    (again,) = tried(host, pod("train-x", "90Gi", uid="train"), without=("train",)).trials
    assert again.placed == (("train-x", {"c": "2-3"}),)


def test_a_pod_that_would_run_unpinned_does_not_fit(host: LiveHost) -> None:
    host.config.write_text("whenUnsatisfiable: RunUnpinned\n")
    (trial,) = tried(host, pod("big", "100Gi")).trials
    assert not trial.fits
    assert trial.placed == ()


def test_hugepages_that_something_else_uses(host: LiveHost) -> None:
    wanted = deployment("dpdk", 1, "1Gi", **{"hugepages-1Gi": "4Gi"})
    assert tried(host, wanted).trials[0].placed == (("dpdk-0", {"c": "0"}),)
    host.use_hugepages(0, 1)
    assert tried(host, wanted).trials[0].placed == (("dpdk-0", {"c": "2-3"}),)


def test_the_document(host: LiveHost) -> None:
    burstable = pod("any")
    burstable["spec"]["containers"][0]["resources"] = {"requests": {"memory": "1Gi"}}
    running = pod("db-x", uid="db")
    result = tried(host, deployment("web", 2, "35Gi"), burstable, running)
    document: Any = workload_document(result)
    web, other, db = document["workloads"]
    assert web.pop("error")["reason"] == "UnexpectedAdmissionError"
    assert web.pop("plan")["text"] == "none with at most 2 moves"
    assert web == {
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "qosClass": "Guaranteed",
        "replicas": 2,
        "fit": 1,
        "runsOn": None,
        "pods": [{"name": "web-0", "cpusetMems": {"c": "1"}}],
        "confined": {},
        "claims": [],
    }
    assert (other["qosClass"], other["pods"]) == (
        "Burstable",
        [{"name": "any", "cpusetMems": {"c": None}}],
    )
    assert (db["fit"], db["runsOn"], db["error"]) == (1, [0], None)
    assert "entries" in document
    assert workload_document(tried(host))["workloads"] == []


def test_invalid_pods_name_the_place() -> None:
    broken = deployment("web", 1)
    broken["spec"]["template"]["spec"] = {}
    (workload,) = workloads_of({"kind": "List", "items": [broken]})
    with pytest.raises(SettingsError) as failed:
        check_pod(workload)
    path = ("items", 0, "spec", "template", "spec", "containers")
    assert failed.value.path == path
    broken["spec"]["template"]["metadata"] = []
    (workload,) = workloads_of(broken)
    with pytest.raises(SettingsError, match=r"^spec\.template\.metadata: expected a mapping"):
        check_pod(workload)


def test_a_state_without_pods(host: LiveHost) -> None:
    facts = collect(host.parsed())
    assert facts.context is not None
    empty = Host(facts.settings, facts.context, EngineState(facts.context.empty_accounting()))
    found = list(workloads_of(deployment("web", 9, "59Gi")))
    (trial,) = try_workloads(empty, found, ()).trials
    assert [mems["c"] for _, mems in trial.placed] == ["0", "1", "2", "3"]


def test_a_plan_for_a_pod_that_does_not_fit(tmp_path: Path) -> None:
    """Node 0 is empty; on node 1 is a small pod, which keeps it out of a group."""
    host = host_with_a_small_pod(tmp_path)
    result = tried(host, pod("big", "100Gi"))
    (big,) = result.trials
    assert big.plan is not None
    assert [(move.share.uid, move.target) for move in big.plan.moves] == [("small", 3)]
    assert big.plan.nodes == NodeSet([0, 1])
    document = workload_document(result)["workloads"]
    assert isinstance(document, list)
    assert document[0]["plan"]["text"] == (
        "would fit on nodes 0-1 if shop/small-x moved from node 1 to node 3 (5Gi, use unknown); "
        "without consent (movable.numamem.io): shop/small-x"
    )
    assert result.accountings == (result.before,)
    # As the operator does it.
    big = tried(host, pod("big", "100Gi"), without=("small",)).trials[0]
    assert big.placed == (("big", {"c": "0-1"}),)


def test_pods_that_were_tried_before_stay(tmp_path: Path) -> None:
    """The first object takes the target, so there is no plan for the second one."""
    host = host_with_a_small_pod(tmp_path)
    result = tried(host, pod("first", "18Gi"), pod("second", "100Gi"))
    first, second = result.trials
    assert (first.placed, first.plan) == ((("first", {"c": "0"}),), None)
    assert second.plan is not None
    assert all(move.share.uid != "first" for move in second.plan.moves)
    assert second.plan.moves == ()


def test_a_pod_of_several_containers_is_tried_as_a_whole(tmp_path: Path) -> None:
    host = host_with_a_small_pod(tmp_path)
    both = pod("both", "40Gi")
    both["spec"]["containers"].append({**both["spec"]["containers"][0], "name": "d"})
    (trial,) = tried(host, both).trials
    assert trial.fits
    both["spec"]["containers"].append({**both["spec"]["containers"][0], "name": "e"})
    (trial,) = tried(host, both).trials
    assert trial.plan is not None
    assert trial.plan.moves == ()
    assert not trial.plan.fits_now


def test_a_machine_without_pods_has_no_plan(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.save()
    (trial,) = tried(host, pod("huge", "900Gi")).trials
    assert (trial.fits, trial.plan) == (False, None)
