import re
from typing import Any

import pytest

from nri_numamem.kubelet.manifest import (
    CpuAmounts,
    ManifestError,
    cpu_amounts,
    pod_from_manifest,
    qos_class,
)
from nri_numamem.memorymanager import Container, ContainerKind, Pod, QosClass

FULL = {"cpu": "2", "memory": "1Gi"}


def manifest(*containers: Any, init: tuple[Any, ...] = (), **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    def named(found: tuple[Any, ...], prefix: str) -> list[Any]:
        return [{"name": f"{prefix}{i}", "resources": r} for i, r in enumerate(found)]

    made = {"containers": named(containers, "c"), "initContainers": named(init, "i"), **spec}
    return {"metadata": {"uid": "u"}, "spec": made}


def both(**amounts: str) -> dict[str, Any]:
    return {"requests": amounts, "limits": amounts}


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        ({}, "BestEffort"),
        (None, "BestEffort"),
        ({"limits": FULL}, "Guaranteed"),
        ({"requests": FULL, "limits": FULL}, "Guaranteed"),
        ({"requests": {"cpu": "2000m", "memory": "1024Mi"}, "limits": FULL}, "Guaranteed"),
        ({"requests": {"cpu": 2, "memory": 2**30}, "limits": FULL}, "Guaranteed"),
        ({"requests": FULL}, "Burstable"),
        ({"requests": {"cpu": "1"}, "limits": FULL}, "Burstable"),
        ({"limits": {"memory": "1Gi"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "0", "memory": "0"}}, "BestEffort"),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, "BestEffort"),
        ({"limits": {**FULL, "hugepages-2Mi": "2Mi"}}, "Guaranteed"),
    ],
)
def test_the_class_of_one_container(resources: object, want: str) -> None:
    assert qos_class(manifest(resources)) == want


@pytest.mark.parametrize(
    ("document", "want"),
    [
        (manifest(), "BestEffort"),
        (manifest({"limits": FULL}, {"limits": FULL}), "Guaranteed"),
        (manifest({"limits": FULL}, {}), "Burstable"),
        (manifest({"limits": FULL}, init=({},)), "Burstable"),
        (manifest({"limits": FULL}, init=({"limits": FULL},)), "Guaranteed"),
        (manifest({}, ephemeralContainers=[{"name": "e"}]), "BestEffort"),
        (manifest({}, resources=both(cpu="1", memory="1")), "Guaranteed"),
        ({**manifest({}), "status": {"qosClass": "Guaranteed"}}, "Guaranteed"),
        ({**manifest({"limits": FULL}), "status": {"phase": "Pending"}}, "Guaranteed"),
    ],
)
def test_the_class_of_a_pod(document: dict[str, Any], want: str) -> None:
    assert qos_class(document) is QosClass(want)


def test_a_pod() -> None:
    document = manifest(
        {"limits": {**FULL, "hugepages-2Mi": "4Mi", "example.com/gpu": 1}},
        init=({"limits": FULL}, {"limits": FULL}),
    )
    document["spec"]["initContainers"][1]["restartPolicy"] = "Always"
    document["spec"]["containers"][0]["restartPolicy"] = "Always"
    memory = {"memory": 2**30}
    assert pod_from_manifest(document) == Pod(
        "u",
        guaranteed=True,
        containers=(
            Container("i0", ContainerKind.INIT, memory),
            Container("i1", ContainerKind.RESTARTABLE_INIT, memory),
            Container("c0", ContainerKind.APP, {**memory, "hugepages-2Mi": 4 * 2**20}),
        ),
    )


def test_requests_are_used_if_limits_differ() -> None:
    document = manifest({"requests": {"memory": "1Mi"}, "limits": {"memory": "2Mi"}})
    pod = pod_from_manifest(document)
    assert not pod.guaranteed
    assert pod.containers[0].requests == {"memory": 2**20}


def test_pods_with_pod_level_resources_are_not_pinned_by_the_kubelet() -> None:
    document = manifest({"limits": FULL}, resources=both(cpu="2", memory="1Gi"))
    assert qos_class(document) is QosClass.GUARANTEED
    assert not pod_from_manifest(document).guaranteed


def test_pod_level_limits_and_the_limits_of_containers() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
    own = {"limits": {"memory": "1Mi"}}
    document = manifest(own, {"requests": {"memory": "2Mi"}}, {}, resources={"limits": limits})
    pod = pod_from_manifest(document)
    assert pod.limits == {"memory": 2**30, "hugepages-2Mi": 2**22}
    assert [container.requests for container in pod.containers] == [{"memory": 2**20}, {}, {}]
    assert pod_from_manifest(manifest({"limits": FULL})).limits is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "manifest: expected a mapping"),
        ({1: 2}, "manifest: expected a mapping"),
        ({}, "metadata.uid: expected a text that is not empty"),
        ({"metadata": {"uid": ""}}, "metadata.uid: expected a text that is not empty"),
        ({"metadata": {"uid": "u"}, "spec": []}, "spec: expected a mapping"),
        (manifest(containers="x"), "spec.containers: expected a list of containers"),
        (manifest(containers=["x"]), "spec.containers[0]: expected a mapping"),
        (manifest(containers=[{}]), "spec.containers[0].name: expected a text"),
        (manifest(containers=[{"name": "a"}] * 2), "spec: two containers have the name a; rename"),
        (manifest("x"), "spec.containers[0].resources: expected a mapping"),
        (manifest({"limits": []}), "spec.containers[0].resources.limits: expected a mapping"),
        (manifest({"limits": 1}), "spec.containers[0].resources.limits: expected a mapping"),
        (
            manifest({"limits": {"memory": []}}),
            "spec.containers[0].resources.limits.memory: expected a quantity such as 1Gi",
        ),
        (
            manifest({"requests": {"cpu": "x"}}),
            "spec.containers[0].resources.requests.cpu: 'x' is not a quantity",
        ),
        (
            manifest(init=({"limits": {"memory": "100m"}},)),
            (
                "spec.initContainers[0].resources.requests.memory: [memorymanager] failed to "
                "represent quantity as int64: '100m' is not a whole number"
            ),
        ),
        (
            {**manifest({}), "status": {"qosClass": "Best"}},
            "status.qosClass: 'Best' is not one of Guaranteed, Burstable, BestEffort",
        ),
        ({**manifest({}), "status": {"qosClass": 1}}, "status.qosClass: "),
        (manifest(), "spec.containers: no containers; a pod has at least one"),
        (manifest(init=({},)), "spec.containers: no containers"),
        (
            manifest({"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi", "cpu": 1}}),
            "spec.containers[0].resources.requests.memory: 2Gi is above the limit 1Gi",
        ),
        (
            manifest({}, resources={"requests": {"cpu": "1500m"}, "limits": {"cpu": 1}}),
            "spec.resources.requests.cpu: 1500m is above the limit 1",
        ),
    ],
)
def test_invalid_manifests(document: object, problem: str) -> None:
    with pytest.raises(ManifestError, match=f"^{re.escape(problem)}") as refusal:
        pod_from_manifest(document)
    assert "\n" not in str(refusal.value)


def test_the_cpu_amounts_of_containers() -> None:
    document = manifest(
        {"limits": {"cpu": "1500m"}},
        {"requests": {"cpu": "0.1001"}, "limits": {"cpu": 2}},
        {"requests": {"memory": "1Gi"}},
        init=({"requests": {"cpu": "3"}},),
    )
    assert cpu_amounts(document) == {
        "i0": CpuAmounts(3000),
        "c0": CpuAmounts(1500, 1500),
        "c1": CpuAmounts(101, 2000),
        "c2": CpuAmounts(),
    }


def test_an_invalid_cpu_amount_names_its_place() -> None:
    document = manifest({"requests": {"cpu": "many"}})
    with pytest.raises(ManifestError, match=re.escape("containers[0].resources.requests.cpu: 'ma")):
        cpu_amounts(document)
