"""The kustomize overlays: the same pod as the Helm chart's, and valid by Kubernetes' own types."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri_numamem.config.load import DEFAULT_CONFIG, load_text
from nri_numamem.version import VERSION
from tests.packaging import manifests
from tests.packaging.manifests import (
    KUSTOMIZE,
    NAME,
    ROOT,
    Manifest,
    only,
    render_chart,
    render_overlay,
    validated,
)

pytestmark = manifests.needs_tools

# The values of the chart that render the same pod as an overlay.
OVERLAYS: Mapping[str, Mapping[str, object]] = {
    "containerd": {},
    "crio": {"seLinuxOptions": {"type": "spc_t"}},
    "kind": {"image.pullPolicy": "Never"},
}


def test_each_overlay_is_tested() -> None:
    assert {folder.name for folder in (KUSTOMIZE / "overlays").iterdir()} == set(OVERLAYS)


def pod_of(daemon_set: Manifest) -> dict[str, Any]:
    """Return the specification of the pod; the ConfigMap has one name, without its hash."""
    pod: dict[str, Any] = json.loads(json.dumps(daemon_set["spec"]["template"]["spec"]))
    (volume,) = (volume for volume in pod["volumes"] if "configMap" in volume)
    volume["configMap"]["name"] = NAME
    return pod


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_is_that_of_the_chart(overlay: str) -> None:
    found = validated(render_overlay(overlay))
    chart = validated(render_chart(OVERLAYS[overlay]))
    ours, theirs = only(found, "DaemonSet"), only(chart, "DaemonSet")
    assert pod_of(ours) == pod_of(theirs)
    assert ours["spec"]["updateStrategy"] == theirs["spec"]["updateStrategy"]
    assert ours["metadata"]["namespace"] == theirs["metadata"]["namespace"]
    account = only(found, "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == pod_of(ours)["serviceAccountName"]
    (image,) = [container["image"] for container in pod_of(ours)["containers"]]
    assert image == f"localhost/nri-numamem:{VERSION}"


def test_the_configuration_sets_nothing() -> None:
    text = only(validated(render_overlay("containerd")), "ConfigMap")["data"][DEFAULT_CONFIG.name]
    assert load_text(text, "overlay") == load_text("", "nothing")


def write(folder: Path, document: Mapping[str, object]) -> Path:
    """Write a kustomization of a user, who refers to this folder; return its folder."""
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return folder


def relative(folder: Path, path: str) -> str:
    """Return a path in the repository; kustomize takes no absolute ones."""
    return os.path.relpath(ROOT / path, folder)


def test_a_change_of_the_configuration_replaces_the_pods(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("topologyManagerPolicy: restricted\n")
    generator = {"name": NAME, "behavior": "replace", "files": ["config.yaml"]}
    folder = write(
        tmp_path,
        {
            "namespace": "kube-system",
            "resources": [relative(tmp_path, "packaging/kustomize/overlays/containerd")],
            "configMapGenerator": [generator],
        },
    )
    names = set()
    for rendered in (
        render_overlay("containerd"),
        manifests.output_of("kustomize", "build", folder),
    ):
        found = validated(rendered)
        config = only(found, "ConfigMap")["metadata"]["name"]
        volumes = only(found, "DaemonSet")["spec"]["template"]["spec"]["volumes"]
        assert [v["configMap"]["name"] for v in volumes if "configMap" in v] == [config]
        names.add(config)
    assert len(names) == 2


def test_monitoring_is_a_component(tmp_path: Path) -> None:
    components = [relative(tmp_path, f"packaging/{name}") for name in ("prometheus", "grafana")]
    overlay = relative(tmp_path, "packaging/kustomize/overlays/containerd")
    folder = write(tmp_path, {"resources": [overlay], "components": components})
    found = validated(manifests.output_of("kustomize", "build", folder))
    dashboard = found["ConfigMap", f"{NAME}-dashboard"]
    original: Any = json.loads((ROOT / "packaging/grafana/nri-numamem.json").read_text())
    assert json.loads(dashboard["data"]["nri-numamem.json"]) == original
    values = {"metrics.podMonitor.enabled": True}
    theirs = only(validated(render_chart(values)), "PodMonitor")["spec"]
    ours = only(found, "PodMonitor")["spec"]
    assert ours["podMetricsEndpoints"] == theirs["podMetricsEndpoints"]
    labels = only(found, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert ours["selector"]["matchLabels"].items() <= labels.items()


def with_exporter(
    folder: Path, overlay: str = "containerd", **document: object
) -> dict[tuple[str, str], Manifest]:
    """Return the manifests of an overlay with the exporter."""
    paths = (f"overlays/{overlay}", "components/export")
    resource, component = (relative(folder, f"packaging/kustomize/{path}") for path in paths)
    written = write(folder, {"resources": [resource], "components": [component], **document})
    return validated(manifests.output_of("kustomize", "build", written))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_with_the_hook_program_of_claims_is_that_of_the_chart(
    tmp_path: Path, overlay: str
) -> None:
    paths = (f"overlays/{overlay}", "components/claims")
    resource, component = (relative(tmp_path, f"packaging/kustomize/{path}") for path in paths)
    folder = write(tmp_path, {"resources": [resource], "components": [component]})
    found = validated(manifests.output_of("kustomize", "build", folder))
    chart = validated(render_chart({"claims.enabled": True, **OVERLAYS[overlay]}))
    ours, theirs = (pod_of(each["DaemonSet", NAME]) for each in (found, chart))
    assert by_name(ours) == by_name(theirs)


def by_name(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod without the order of its volumes and mounts."""
    plugin, *others = pod["containers"]
    mounts = {mount["name"]: mount for mount in plugin["volumeMounts"]}
    containers = [{**plugin, "volumeMounts": mounts}, *others]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    return {**pod, "containers": containers, "volumes": volumes}


EXPORT = f"{NAME}-export"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_exporter_is_that_of_the_chart(tmp_path: Path, overlay: str) -> None:
    found = with_exporter(tmp_path, overlay)
    chart = validated(render_chart({"export.enabled": True, **OVERLAYS[overlay]}))
    for name in (NAME, EXPORT):
        key = "DaemonSet", name
        assert pod_of(found[key]) == pod_of(chart[key])
        (container,) = pod_of(found[key])["containers"]
        assert container["image"] == f"localhost/nri-numamem:{VERSION}"
    assert found["ClusterRole", EXPORT]["rules"] == chart["ClusterRole", EXPORT]["rules"]
    ours, theirs = (manifest["ClusterRoleBinding", EXPORT] for manifest in (found, chart))
    assert (ours["roleRef"], ours["subjects"]) == (theirs["roleRef"], theirs["subjects"])


def test_the_exporters_pods_are_not_those_of_the_plugin(tmp_path: Path) -> None:
    found = with_exporter(tmp_path)
    sets = [found["DaemonSet", name]["spec"] for name in (NAME, EXPORT)]
    for own, other in (sets, reversed(sets)):
        labels = own["template"]["metadata"]["labels"]
        assert own["selector"]["matchLabels"].items() <= labels.items()
        assert not other["selector"]["matchLabels"].items() <= labels.items()


def test_the_exporter_reads_the_configuration_of_the_plugin(tmp_path: Path) -> None:
    """Its pods are replaced as well when the configuration changes."""
    found = with_exporter(tmp_path)
    config = only(found, "ConfigMap")["metadata"]["name"]
    volumes = found["DaemonSet", EXPORT]["spec"]["template"]["spec"]["volumes"]
    assert [v["configMap"]["name"] for v in volumes if "configMap" in v] == [config]


def test_the_exporter_in_another_namespace(tmp_path: Path) -> None:
    found = with_exporter(tmp_path, namespace="numa")
    (subject,) = found["ClusterRoleBinding", EXPORT]["subjects"]
    assert (subject["name"], subject["namespace"]) == (EXPORT, "numa")
    for key in (("ServiceAccount", EXPORT), ("DaemonSet", EXPORT), ("DaemonSet", NAME)):
        assert found[key]["metadata"]["namespace"] == "numa"


def test_every_component_is_tested() -> None:
    names = {folder.name for folder in (KUSTOMIZE / "components").iterdir()}
    assert names == {"claims", "export"}
