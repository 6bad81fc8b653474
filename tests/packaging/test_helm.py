"""The Helm chart: helm renders it, and Kubernetes' own types judge the result."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from nri_numamem.apiserver.access import SERVICE_ACCOUNT
from nri_numamem.cli.export.kubelet import socket_of
from nri_numamem.cli.main import new_parser
from nri_numamem.config.claims import ClaimSettings
from nri_numamem.config.load import DEFAULT_CONFIG, load_file
from nri_numamem.config.settings import (
    KEYS,
    STATE_FILE,
    Settings,
    SettingsError,
    described_settings,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.daemon.external import DEFAULT_SOCKET
from nri_numamem.host.pod_logs import POD_LOGS
from nri_numamem.host.roots import HostRoots
from nri_numamem.version import VERSION
from tests.packaging import manifests
from tests.packaging.manifests import CHART, NAME, ROOT, Manifest, only, render_chart, validated

MONITORING = {
    f"metrics.{name}": {"enabled": True, "labels": {"team": "numa"}}
    for name in ("podMonitor", "rules", "dashboard")
}

HOOK_DIRECTORY, CDI_DIRECTORY = "/opt/nri-numamem/bin", "/var/run/cdi"
CREATED = "DirectoryOrCreate"
FEATURES = {
    "claims.enabled": True,
    "networkHints.podInterfaces": True,
    "networkHints.hostInterfaces": True,
    "kubeletDirectory": "/data/kubelet",
}


def daemon_set(values: Mapping[str, object] | None = None, name: str = NAME) -> Manifest:
    return validated(render_chart(values))["DaemonSet", name]


def pod_of(values: Mapping[str, object] | None = None, name: str = NAME) -> Manifest:
    pod: Manifest = daemon_set(values, name)["spec"]["template"]["spec"]
    return pod


def container_of(values: Mapping[str, object] | None = None, name: str = NAME) -> Manifest:
    (container,) = pod_of(values, name)["containers"]
    found: Manifest = container
    return found


def config_of(values: Mapping[str, object]) -> object:
    """Return the plugin's configuration in the ConfigMap."""
    config = only(validated(render_chart(values)), "ConfigMap")["data"][DEFAULT_CONFIG.name]
    found: object = yaml.safe_load(config)
    return found


def refusal_of(**values: object) -> str:
    """Return the error for values, whose names have _ for . here."""
    given = {name.replace("__", "."): value for name, value in values.items()}
    done = manifests.run("helm", *manifests.helm(values=given))
    assert done.returncode == 1
    return done.stderr


def test_the_version_is_that_of_the_plugin() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


SETTINGS = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]
ELSEWHERE = {"stateFile", "logFile", "metricsAddress", "metricsTextfile", "kubeletConfigFile"}


def is_valid(settings: Mapping[str, object]) -> bool:
    return bool(jsonschema.Draft7Validator(SETTINGS).is_valid(settings))


def test_the_schema_has_the_settings() -> None:
    assert set(SETTINGS["properties"]) == set(KEYS) - ELSEWHERE
    assert all(name in SETTINGS["description"] for name in ELSEWHERE)
    assert all(SETTINGS["properties"].values())
    keys = [key.split(".") for key, _, _ in described_settings()]
    found = {name: schema.get("properties", {}) for name, schema in SETTINGS["properties"].items()}
    assert all(key[1] in found[key[0]] for key in keys if len(key) > 1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        dict.fromkeys(set(KEYS) - ELSEWHERE),
        {
            key: value
            for key, value in settings_to_mapping(Settings()).items()
            if key not in ELSEWHERE
        },
        {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1Gi": 0}}]},
        {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": False}},
        {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "16"}},
        {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": 16}},
        {"kubeReserved": {"cpu": 0.5, "memory": 1048576, "hugepages-2Mi": "4Mi"}},
        {"evictionHard": {"memory.available": "5%", "nodefs.available": "10%"}},
        # What `off` and `none` of YAML 1.1 without quotes become.
        {"networkHints": False, "cpuFollowsMemory": False, "topologyManagerPolicy": "none"},
        {"memoryNodes": {"override": {"4-7": "dram"}}},
        {"memoryPolicy": {"runtimes": "auto", "modes": ["bind"], "defaults": {"lab": "local"}}},
        {"memoryPolicy": {"runtimes": ["crun"], "minPerNode": 0, "maxNodes": 4}},
        {"burstablePods": {"evidence": ["limits"], "namespaces": ["a"], "oomScoreAdj": -500}},
        {"residency": {"intervalSeconds": 30, "headRoom": "5%", "perContainerMetrics": "true"}},
        {"failOnTimeout": 1, "logLevel": "debug"},
    ],
)
def test_the_schema_accepts_what_the_plugin_accepts(settings: Mapping[str, object]) -> None:
    settings_from_mapping(settings)
    assert is_valid(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"topologyManagerPolicy": "restrictd"},
        {"topologyManagerPolicys": "restricted"},
        {"topologyManagerScope": ""},
        {"memoryManagerPolicy": "none"},
        {"reservedMemory": {"memory": "1Gi"}},
        {"reservedMemory": [{"numaNode": 0}]},
        {"reservedMemory": [{"numaNode": "a", "limits": {"memory": "1Gi"}}]},
        {"reservedMemory": [{"numaNode": 0, "limits": {"cpu": "1"}}]},
        {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": 7}},
        {"topologyManagerPolicyOptions": {"prefer": "true"}},
        {"kubeReserved": {"memories": "1Gi"}},
        {"systemReserved": {"memory": ["1Gi"]}},
        {"evictionHard": {"memory-available": "1Gi"}},
        {"memoryNodes": {"override": {"4": "hbm"}}},
        {"memoryPolicy": {"modes": "bind"}},
        {"memoryPolicy": {"runtimes": "crun"}},
        {"networkHints": True},
        {"burstablePods": {"evidence": ["limit"]}},
        {"burstablePods": {"oomScoreAdj": 1000}},
        {"residency": {"intervalSeconds": "soon"}},
        {"failOnTimeout": "yes"},
    ],
)
def test_the_schema_refuses_what_the_plugin_refuses(settings: Mapping[str, object]) -> None:
    with pytest.raises(SettingsError):
        settings_from_mapping(settings)
    assert not is_valid(settings)


@manifests.needs_tools
def test_helm_refuses_a_misspelt_setting() -> None:
    assert "topologyManagerPolicy" in refusal_of(config__topologyManagerPolicy="restrictd")


def test_the_document_has_the_values() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert set(schema) - {"global"} == set(values)
    document = (ROOT / "docs/kubernetes.md").read_text()
    named = set(re.findall(r"`([\w.]+)`", document))
    groups = ("image", "resources", "claims", "rebalance", "export", "metrics", "networkHints")
    deep = {f"{name}.{key}" for name in groups for key in values[name]}
    assert deep <= named
    assert set(values) - {*groups, "nri"} <= named


@manifests.needs_tools
def test_helm_finds_nothing_to_criticize() -> None:
    done = manifests.run("helm", "lint", "--strict", "--kube-version=1.34.0", CHART)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@manifests.needs_tools
@pytest.mark.parametrize(
    "values",
    [
        {},
        MONITORING,
        {
            "imagePullSecrets": [{"name": "registry"}],
            "kubeletConfigFile": "/var/lib/kubelet/config.yaml",
            "nri.plugin.annotations": {"a.example/b": "true"},
            "affinity": {"nodeAffinity": {}},
            "nodeSelector": {"numa": "yes"},
            "extraEnv": {"MALLOC_ARENA_MAX": 2},
            "seLinuxOptions": {"type": "spc_t"},
        },
        # test_helm_claims.py has what claims add.
        {**FEATURES, "claims.enabled": False},
        # What users of nri-plugins set to switch something off.
        {"tolerations": [], "affinity": None, "nodeSelector": None, "resources.limits": None},
    ],
)
def test_the_manifests_are_valid(values: Mapping[str, object]) -> None:
    found = validated(render_chart(values))
    kinds = {"ServiceAccount", "ConfigMap", "DaemonSet"}
    if values is MONITORING:
        kinds |= {"PodMonitor", "PrometheusRule"}
    assert {kind for kind, _name in found} == kinds
    assert {manifest["metadata"]["namespace"] for manifest in found.values()} == {"kube-system"}
    labels = found["DaemonSet", NAME]["spec"]["template"]["metadata"]["labels"]
    selector = found["DaemonSet", NAME]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= labels.items()


@manifests.needs_tools
def test_a_manifest_that_is_not_valid() -> None:
    """The judge of these tests finds unknown fields, wrong types and missing ones."""
    text = render_chart()
    for good, bad in (
        ("readOnlyRootFilesystem: true", "readOnlyRootFilesystems: true"),
        ("terminationGracePeriodSeconds: 10", "terminationGracePeriodSeconds: soon"),
        ("  selector:\n    matchLabels:", "  selectors:\n    matchLabels:"),
        ("containerPort: 9551", "name: port"),
    ):
        assert text.count(good) == 1
        done = manifests.run(
            "kubernetes_tools",
            "validate",
            manifests.TOOLS / "swagger.json",
            text=text.replace(good, bad),
        )
        assert done.returncode == 1, bad


@manifests.needs_tools
def test_the_pod_has_no_privileges() -> None:
    """test_image_life.py shows that the plugin works with them."""
    pod, container = pod_of(), container_of()
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert not any("hostPort" in port for port in container["ports"])


@manifests.needs_tools
def test_features_have_what_they_need_and_nothing_else() -> None:
    def added(values: Mapping[str, object]) -> tuple[dict[str, str], list[str], Manifest]:
        pod, container = pod_of(values), container_of(values)
        usual = {mount["name"] for mount in container_of()["volumeMounts"]}
        sources = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"][3:]}
        mounts = [mount for mount in container["volumeMounts"] if mount["name"] not in usual]
        assert all(mount["readOnly"] for mount in mounts)
        for mount in mounts:
            is_followed = mount["name"] == "netns"
            assert ("mountPropagation" in mount) is is_followed
        context = container["securityContext"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["allowPrivilegeEscalation"] is False
        found = {sources[mount["name"]]: mount["mountPath"] for mount in mounts}
        return found, context["capabilities"].get("add", []), pod

    mounts, capabilities, pod = added({"networkHints.podInterfaces": True})
    assert (mounts, capabilities) == ({"/var/run/netns": "/var/run/netns"}, ["SYS_ADMIN"])
    assert "hostNetwork" not in pod
    mounts, capabilities, pod = added({"networkHints.hostInterfaces": True})
    assert (mounts, capabilities, pod["hostNetwork"]) == ({}, [], True)
    mounts, capabilities, pod = added({"kubeletDirectory": "/data/kubelet"})
    assert (mounts, capabilities) == ({"/data/kubelet": str(HostRoots().kubelet)}, [])
    assert "hostNetwork" not in pod


@manifests.needs_tools
def test_an_init_container_writes_the_hook_program_of_claims() -> None:
    """test_image_life.py runs it. The plugin's container has no mount of its directory."""
    pod = pod_of({"claims.enabled": True})
    (init,) = pod["initContainers"]
    (mount,) = init["volumeMounts"]
    added = [
        {"name": "cdi", "hostPath": {"path": CDI_DIRECTORY, "type": CREATED}},
        {"name": mount["name"], "hostPath": {"path": HOOK_DIRECTORY, "type": CREATED}},
    ]
    assert [volume for volume in pod["volumes"] if volume not in pod_of()["volumes"]] == added
    assert mount == {"name": "claim-hook", "mountPath": HOOK_DIRECTORY}
    assert init["args"] == ["install", f"--claim-hook={HOOK_DIRECTORY}/claim-hook"]
    assert new_parser(["install"]).parse_args(init["args"]).claim_hook
    plugin = container_of({"claims.enabled": True})
    cdi = {"name": "cdi", "mountPath": CDI_DIRECTORY}
    assert [each for each in plugin["volumeMounts"] if each != cdi] == container_of()[
        "volumeMounts"
    ]
    assert {**plugin, "volumeMounts": []} == {**container_of(), "volumeMounts": []}
    for key in ("image", "imagePullPolicy", "resources", "securityContext"):
        assert init[key] == container_of()[key]


@manifests.needs_tools
def test_the_value_for_claims_is_in_the_settings() -> None:
    values = {"claims.enabled": True, "config.topologyManagerPolicy": "restricted"}
    settings = settings_from_mapping(config_of(values))
    assert settings.claims == ClaimSettings(
        enabled=True, hook_program=f"{HOOK_DIRECTORY}/claim-hook", cdi_directory=CDI_DIRECTORY
    )
    assert settings.topology_manager_policy == "restricted"
    assert not settings_from_mapping(config_of({})).claims.enabled


@manifests.needs_tools
def test_two_pods_never_share_the_network_of_a_host() -> None:
    """The scheduler does not place a second pod with the same port there."""
    values = {"networkHints.hostInterfaces": True}
    update = daemon_set(values)["spec"]["updateStrategy"]["rollingUpdate"]
    assert update == {"maxSurge": 0, "maxUnavailable": 1}


@manifests.needs_tools
def test_the_mounts_are_where_the_plugin_looks() -> None:
    places = {mount["name"]: mount for mount in container_of()["volumeMounts"]}
    assert {name: mount["mountPath"] for name, mount in places.items()} == {
        "config": str(DEFAULT_CONFIG.parent),
        "state": str(Path(STATE_FILE).parent),
        "nri": str(DEFAULT_SOCKET.parent),
        "cgroup": str(HostRoots().cgroup),
    }
    assert {name for name, mount in places.items() if not mount.get("readOnly")} == {"state"}
    volumes = {volume["name"]: volume for volume in pod_of()["volumes"]}
    assert volumes.keys() == places.keys()
    for name in ("state", "nri", "cgroup"):
        assert volumes[name]["hostPath"]["path"] == places[name]["mountPath"]


@manifests.needs_tools
def test_a_rolling_update_never_leaves_a_node_without_a_pod() -> None:
    spec = daemon_set()["spec"]
    rolling = {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert spec["template"]["spec"]["priorityClassName"] == "system-node-critical"
    assert spec["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    probe = container_of()["readinessProbe"]
    assert probe["httpGet"] == {"path": "/healthz", "port": "metrics"}


@manifests.needs_tools
def test_the_configuration_is_that_of_the_values(tmp_path: Path) -> None:
    config = {
        "topologyManagerPolicy": "restricted",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    }
    texts = []
    sums = set()
    for values in ({}, {"config": config}):
        found = validated(render_chart(values))
        texts.append(only(found, "ConfigMap")["data"][DEFAULT_CONFIG.name])
        annotations = only(found, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]
        sums.add(annotations["checksum/config"])
    assert len(sums) == 2  # so that the pods are replaced
    path = tmp_path / "config.yaml"
    path.write_text(texts[0])
    default = load_file(path)
    path.write_text(texts[1])
    changed = load_file(path)
    assert (default.topology_manager_policy, changed.topology_manager_policy) == (
        "best-effort",
        "restricted",
    )
    assert changed.reserved_memory


@manifests.needs_tools
def test_values() -> None:
    values = {
        "image.name": "registry.example/nri-numamem",
        "image.tag": "1.2",
        "nri.plugin.index": 7,
        "metrics.port": 9999,
        "podPriorityClassNodeCritical": False,
        "kubeletConfigFile": "/etc/kubelet.yaml",
        "nodeSelector": {"numa": "yes"},
    }
    pod = pod_of(values)
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/nri-numamem:1.2"
    assert container["args"][1:] == [
        "--idx=07",
        "--metrics-address=[$(POD_IP)]:9999",
        "--kubelet-config=/etc/kubelet.yaml",
    ]
    assert container["ports"] == [{"name": "metrics", "containerPort": 9999}]
    assert "priorityClassName" not in pod
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "numa": "yes"}
    assert container_of()["image"] == f"localhost/nri-numamem:{VERSION}"


@manifests.needs_tools
def test_values_that_are_refused() -> None:
    text = "nri.runtime.patchConfig is not supported; enable NRI in the runtime's configuration"
    assert text in refusal_of(nri__runtime__patchConfig=True)
    assert "metricsAddress" in refusal_of(config={"metricsAddress": "0.0.0.0:1"})
    assert "plugin-test" in refusal_of(**{"plugin-test": {"enableAPIs": True}})
    assert "index" in refusal_of(nri__plugin__index=100)


@manifests.needs_tools
def test_dashboard_and_alerts_are_the_same_as_elsewhere() -> None:
    found = validated(render_chart(MONITORING))
    dashboard = found["ConfigMap", f"{NAME}-dashboard"]
    original: Any = json.loads((ROOT / "packaging/grafana/nri-numamem.json").read_text())
    assert json.loads(dashboard["data"]["nri-numamem.json"]) == original
    assert dashboard["metadata"]["labels"]["team"] == "numa"
    rules = yaml.safe_load((ROOT / "packaging/prometheus/nri-numamem.rules.yml").read_text())
    assert found["PrometheusRule", NAME]["spec"] == rules
    monitor = found["PodMonitor", NAME]
    labels = found["DaemonSet", NAME]["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (port,) = container_of()["ports"]
    assert endpoint["port"] == port["name"]
    # Of the alerts' and the dashboard's job.
    assert re.search(r'up\{job="(.+?)"\}', json.dumps(rules).replace("\\", ""))
    assert endpoint["relabelings"][0] == {"targetLabel": "job", "replacement": "nri-numamem"}


EXPORT = f"{NAME}-export"


class TestExport:
    """The exporter's DaemonSet, its permissions, and the job after an uninstall."""

    pytestmark = manifests.needs_tools

    @staticmethod
    def pod(**values: object) -> Manifest:
        """Return the exporter's pod."""
        return pod_of({"export.enabled": True, **values}, EXPORT)

    @staticmethod
    def container(**values: object) -> Manifest:
        """Return the exporter's container."""
        return container_of({"export.enabled": True, **values}, EXPORT)

    def test_the_manifests_are_valid(self) -> None:
        found = validated(render_chart({"export.enabled": True}))
        assert sorted(key for key in found if "export" in key[1]) == [
            ("ClusterRole", EXPORT),
            ("ClusterRole", f"{EXPORT}-delete"),
            ("ClusterRoleBinding", EXPORT),
            ("ClusterRoleBinding", f"{EXPORT}-delete"),
            ("DaemonSet", EXPORT),
            ("Job", f"{EXPORT}-delete"),
            ("ServiceAccount", EXPORT),
            ("ServiceAccount", f"{EXPORT}-delete"),
        ]

    def test_it_is_off_by_default_and_does_not_change_the_plugins_pod(self) -> None:
        off = validated(render_chart())
        assert [name for kind, name in off if kind == "DaemonSet"] == [NAME]
        assert daemon_set({"export.enabled": True}) == off["DaemonSet", NAME]

    def test_it_shares_nothing_with_the_plugin_by_which_the_runtime_can_be_reached(self) -> None:
        """Root in a process namespace reaches the mounts of another process by /proc/PID/root."""
        pod = self.pod()
        shared = {"hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace"}
        assert not pod.keys() & shared
        paths = [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v]
        assert not any("/run" in path for path in paths)
        names = [container["name"] for container in pod["containers"]]
        assert names == ["export"]

    def test_only_the_exporter_has_a_token_and_an_account_with_permissions(self) -> None:
        plugin, exporter = pod_of({"export.enabled": True}), self.pod()
        assert "token" in {volume["name"] for volume in exporter["volumes"]}
        assert "token" not in {volume["name"] for volume in plugin["volumes"]}
        assert not exporter["automountServiceAccountToken"]
        assert not plugin["automountServiceAccountToken"]
        assert (plugin["serviceAccountName"], exporter["serviceAccountName"]) == (NAME, EXPORT)

    def test_its_pods_are_not_those_of_the_plugin(self) -> None:
        """Neither the plugin's DaemonSet nor the PodMonitor selects them."""
        sets = [daemon_set({"export.enabled": True}, name)["spec"] for name in (NAME, EXPORT)]
        for own, other in (sets, reversed(sets)):
            labels = own["template"]["metadata"]["labels"]
            assert own["selector"]["matchLabels"].items() <= labels.items()
            assert not other["selector"]["matchLabels"].items() <= labels.items()

    def test_it_runs_where_the_plugin_runs(self) -> None:
        values = {
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "nodeSelector": {"numa": "yes"},
            "affinity": {"nodeAffinity": {}},
            "seLinuxOptions": {"type": "spc_t"},
            "imagePullSecrets": [{"name": "registry"}],
            "podPriorityClassNodeCritical": False,
            "config": {"logLevel": "debug"},
        }
        found = validated(render_chart({"export.enabled": True, **values}))
        templates = [found["DaemonSet", name]["spec"]["template"] for name in (NAME, EXPORT)]
        plugin, exporter = (template["spec"] for template in templates)
        own = {"containers", "volumes", "serviceAccountName"}
        assert {k: v for k, v in exporter.items() if k not in own} == {
            k: v for k, v in plugin.items() if k not in own
        }
        checksums = {
            template["metadata"]["annotations"]["checksum/config"] for template in templates
        }
        assert len(checksums) == 1

    def test_it_writes_nothing_and_has_no_privileges(self) -> None:
        exporter = self.container(kubeletConfigFile="/etc/kubelet.yaml")
        assert exporter["securityContext"] == container_of()["securityContext"]
        assert all(mount["readOnly"] for mount in exporter["volumeMounts"])
        mounts = {mount["name"]: mount["mountPath"] for mount in exporter["volumeMounts"]}
        assert mounts == {
            "config": str(DEFAULT_CONFIG.parent),
            "state": str(Path(STATE_FILE).parent),
            "cgroup": str(HostRoots().cgroup),
            "kubelet-config": "/etc/kubelet.yaml",
            "pod-resources": "/var/lib/kubelet/pod-resources",
            "pod-logs": str(POD_LOGS),
            "token": str(SERVICE_ACCOUNT),
        }

    def test_the_command_line_is_one_of_the_exporter(self) -> None:
        exporter = self.container()
        args = new_parser(["export"]).parse(exporter["args"])
        assert [args.dry_run, args.delete, args.delete_all] == [False] * 3
        assert socket_of(args).parent == Path("/var/lib/kubelet/pod-resources")
        (variable,) = exporter["env"]
        assert variable["name"] == "NODE_NAME"
        assert variable["valueFrom"]["fieldRef"] == {"fieldPath": "spec.nodeName"}

    def test_the_token_is_where_the_exporter_looks(self) -> None:
        volumes = {v["name"]: v for v in self.pod()["volumes"]}
        token, authority = volumes["token"]["projected"]["sources"]
        assert token["serviceAccountToken"]["path"] == "token"
        assert authority["configMap"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]

    def test_permissions(self) -> None:
        expected = [
            {
                "apiGroups": ["topology.node.k8s.io"],
                "resources": ["noderesourcetopologies"],
                "verbs": ["patch", "create"],
            },
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["patch", "create"]},
        ]
        found = validated(render_chart({"export.enabled": True}))
        assert found["ClusterRole", EXPORT]["rules"] == expected
        silent = validated(render_chart({"export.enabled": True, "export.podEvents": False}))
        assert silent["ClusterRole", EXPORT]["rules"] == expected[:-1]
        (container,) = silent["DaemonSet", EXPORT]["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["export", "--no-pod-events"]
        (rule,) = found["ClusterRole", f"{EXPORT}-delete"]["rules"]
        assert rule == {**expected[0], "verbs": ["deletecollection"]}
        for name in (EXPORT, f"{EXPORT}-delete"):
            binding = found["ClusterRoleBinding", name]
            assert binding["roleRef"]["name"] == name
            (subject,) = binding["subjects"]
            assert ("ServiceAccount", subject["name"]) in found
            assert subject["namespace"] == "kube-system"
        account = self.pod()["serviceAccountName"]
        subjects = found["ClusterRoleBinding", EXPORT]["subjects"]
        assert [subject["name"] for subject in subjects] == [account]

    def test_the_job_after_an_uninstall(self) -> None:
        found = validated(render_chart({"export.enabled": True, "nodeSelector": {"numa": "yes"}}))
        hooks = {
            key: manifest["metadata"]["annotations"]
            for key, manifest in found.items()
            if key[1] == f"{EXPORT}-delete"
        }
        assert {annotations["helm.sh/hook"] for annotations in hooks.values()} == {"post-delete"}
        weights = {kind: int(a["helm.sh/hook-weight"]) for (kind, _name), a in hooks.items()}
        assert weights["ClusterRole"] < weights["ClusterRoleBinding"] < weights["Job"]
        pod = found["Job", f"{EXPORT}-delete"]["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] == f"{EXPORT}-delete"
        assert pod["restartPolicy"] == "Never"
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "numa": "yes"}
        assert "volumes" not in pod
        (container,) = pod["containers"]
        assert new_parser(["export"]).parse(container["args"]).delete_all
        assert container["image"] == container_of()["image"]

    def test_resources(self) -> None:
        resources = {"cpu": "1m", "memory": "1Mi", "limits": None}
        exporter = self.container(**{"export.resources": resources})
        assert exporter["resources"] == {"requests": {"cpu": "1m", "memory": "1Mi"}}
        assert "export" in refusal_of(export={"enable": True})


@manifests.needs_tools
def test_a_policy_that_does_not_exist() -> None:
    text = refusal_of(config__topologyManagerPolicy="restrictd")
    assert "'/config/topologyManagerPolicy': value must be one of 'best-effort', 'none'," in text


@manifests.needs_tools
def test_another_name() -> None:
    found = validated(render_chart({"nameOverride": "numamem", "export.enabled": True}))
    assert {name.partition("-export")[0] for _, name in found} == {"numamem"}
    labels = found["DaemonSet", "numamem"]["spec"]["selector"]["matchLabels"]
    assert labels["app.kubernetes.io/instance"] == NAME
    (volume,) = (
        v for v in pod_of({"nameOverride": "numamem"}, "numamem")["volumes"] if "configMap" in v
    )
    assert volume["configMap"]["name"] == "numamem"
    assert "nameOverride" in refusal_of(nameOverride="Not a name")


@manifests.needs_tools
def test_annotations_of_all_pods() -> None:
    values = {"podAnnotations": {"a.example/b": "true"}, "export.enabled": True}
    found = validated(render_chart(values))
    for name in (NAME, f"{NAME}-export"):
        metadata = found["DaemonSet", name]["spec"]["template"]["metadata"]
        assert metadata["annotations"]["a.example/b"] == "true"


@manifests.needs_tools
def test_without_metrics() -> None:
    container = container_of({"metrics.enabled": False})
    assert "ports" not in container
    assert not [word for word in container["args"] if word.startswith("--metrics-address")]
    command = container["readinessProbe"]["exec"]["command"]
    assert new_parser().parse_args(command[1:]).command == "status"
    text = refusal_of(
        metrics__enabled=False, metrics__podMonitor={"enabled": True, "interval": "1s"}
    )
    assert "metrics.podMonitor.enabled needs metrics.enabled" in text
