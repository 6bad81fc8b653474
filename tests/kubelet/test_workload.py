"""Objects of kubectl that make pods, and how many."""

from typing import Any

import pytest

from nri_numamem.kubelet.workload import WorkloadError, is_kubernetes_object, workloads_of

SPEC = {"containers": [{"name": "c"}]}
TEMPLATE = {"metadata": {"labels": {}}, "spec": SPEC}
Object = dict[str, Any]


def made(kind: str, spec: Object, **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}


def one(document: Object) -> tuple[str, int, tuple[str | int, ...]]:
    (workload,) = workloads_of(document)
    assert workload.manifest["spec"] == SPEC
    return f"{workload.namespace}/{workload.name}", workload.replicas, workload.path


@pytest.mark.parametrize(
    ("document", "replicas", "path"),
    [
        (made("Pod", SPEC), 1, ()),
        (made("Deployment", {"template": TEMPLATE}), 1, ("spec", "template")),
        (made("Deployment", {"template": TEMPLATE, "replicas": 3}), 3, ("spec", "template")),
        (made("ReplicaSet", {"template": TEMPLATE, "replicas": 0}), 0, ("spec", "template")),
        (made("StatefulSet", {"template": TEMPLATE, "replicas": 2}), 2, ("spec", "template")),
        (made("DaemonSet", {"template": TEMPLATE}), 1, ("spec", "template")),
        (made("Job", {"template": TEMPLATE}), 1, ("spec", "template")),
        (made("Job", {"template": TEMPLATE, "parallelism": 4}), 4, ("spec", "template")),
        (
            made("Job", {"template": TEMPLATE, "parallelism": 4, "completions": 2}),
            2,
            ("spec", "template"),
        ),
        (
            made("CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE, "parallelism": 2}}}),
            2,
            ("spec", "jobTemplate", "spec", "template"),
        ),
    ],
)
def test_one_object(document: Object, replicas: int, path: tuple[str, ...]) -> None:
    assert one(document) == ("default/x", replicas, path)


def test_names() -> None:
    assert one(made("Pod", SPEC, namespace="shop"))[0] == "shop/x"
    assert one(made("Pod", SPEC, name=None, generateName="y-"))[0] == "default/y-"


def test_only_a_pod_has_a_uid() -> None:
    (pod,) = workloads_of(made("Pod", SPEC, uid="u"))
    (other,) = workloads_of(made("Deployment", {"template": TEMPLATE}, uid="u"))
    (unborn,) = workloads_of(made("Pod", SPEC))
    assert (pod.uid, other.uid, unborn.uid) == ("u", "", "")


def test_lists_are_unpacked_and_other_kinds_left_out() -> None:
    inner = {"kind": "PodList", "items": [made("Pod", SPEC)]}
    document = {"kind": "List", "items": [{"kind": "Service"}, made("Pod", SPEC), inner]}
    found = list(workloads_of(document))
    assert [workload.path for workload in found] == [("items", 1), ("items", 2, "items", 0)]
    assert list(workloads_of({"kind": "List"})) == []
    assert list(workloads_of({"kind": "AllowList"})) == []


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        ([], (), "expected an object with kind"),
        ({"spec": {}}, (), "no kind"),
        ({"kind": "List", "items": 5}, ("items",), "expected a list"),
        ({"kind": "List", "items": [5]}, ("items", 0), "expected an object"),
        ({"kind": "Pod", "metadata": 5}, ("metadata",), "expected a mapping"),
        ({"kind": "Pod"}, ("metadata", "name"), "missing"),
        (made("Pod", SPEC, namespace=5), ("metadata", "namespace"), "expected a text"),
        (made("Pod", 5), ("spec",), "expected a mapping"),  # type: ignore[arg-type]
        (made("Deployment", {"template": []}), ("spec", "template"), "expected a mapping"),
        (made("Deployment", {"replicas": -1}), ("spec", "replicas"), "expected a number from 0"),
        (made("Job", {"parallelism": True}), ("spec", "parallelism"), "expected a number"),
        (made("Job", {"completions": 10**9}), ("spec", "completions"), "expected a number"),
        (made("CronJob", {"jobTemplate": 1}), ("spec", "jobTemplate"), "expected a mapping"),
    ],
)
def test_invalid_objects(document: Object, path: tuple[str | int, ...], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem) as failed:
        list(workloads_of(document))
    assert failed.value.path == path
    assert "\n" not in str(failed.value)


def test_the_text_names_the_place() -> None:
    with pytest.raises(WorkloadError, match=r"^items\[0\]\.spec\.replicas: expected a number"):
        list(workloads_of({"kind": "List", "items": [made("Deployment", {"replicas": "1"})]}))


def test_objects_and_scenarios() -> None:
    assert is_kubernetes_object({"kind": "Service"})
    assert not is_kubernetes_object({"machine": {}, "pods": []})
    assert not is_kubernetes_object([])
