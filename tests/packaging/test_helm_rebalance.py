"""Rebalancing by the agent in the Helm chart: options, permissions, and what it writes."""

from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import new_parser
from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.config.load import DEFAULT_CONFIG
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.observe import earmark_files
from tests.packaging import manifests
from tests.packaging.manifests import NAME, only, render_chart, validated

pytestmark = manifests.needs_tools

AGENT, ROLE = f"{NAME}-export", f"{NAME}-rebalance"
REBALANCE = {"rebalance.policy": "consented", "rebalance.namespaces": ["ml"]}


def test_it_is_off_by_default() -> None:
    text = render_chart({"export.enabled": True})
    assert "rebalance" not in text
    assert "eviction" not in text


def test_the_options_are_those_of_the_agent() -> None:
    values = {
        **REBALANCE,
        "rebalance.namespaces": ["ml", "shop"],
        "rebalance.maxEvictionsPerHour": 2,
        "rebalance.cooldownMinutes": 30,
    }
    documents = [each for each in yaml.safe_load_all(render_chart(values)) if each]
    (agent,) = (each for each in documents if each["metadata"]["name"] == AGENT and "spec" in each)
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    args = new_parser(["agent"]).parse(container["args"])
    assert (args.rebalance, args.rebalance_namespaces) == ("consented", {"ml", "shop"})
    assert (args.max_evictions_per_hour, args.cooldown) == (2, 30)
    assert not args.claims
    bound = [each["metadata"]["namespace"] for each in documents if each["kind"] == "RoleBinding"]
    assert bound == ["ml", "shop"]


def test_it_evicts_in_the_listed_namespaces_only() -> None:
    found = validated(render_chart(REBALANCE))
    role, binding = found["Role", ROLE], found["RoleBinding", ROLE]
    assert {(*rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
        ("pods", "get"),
        ("pods/eviction", "create"),
    }
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "ml"
    assert binding["roleRef"]["name"] == ROLE
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (AGENT, "kube-system")
    cluster = found["ClusterRole", AGENT]["rules"]
    assert not [rule for rule in cluster if any("pods" in each for each in rule["resources"])]


def test_the_plugin_sets_room_aside() -> None:
    text = only(validated(render_chart(REBALANCE)), "ConfigMap")["data"][DEFAULT_CONFIG.name]
    assert yaml.safe_load(text) == {"earmarks": {"enabled": True}}


def test_the_agent_writes_earmarks_and_what_it_has_evicted() -> None:
    agent = validated(render_chart(REBALANCE))["DaemonSet", AGENT]
    pod = agent["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    written = {
        mount["name"]: mount["mountPath"]
        for mount in container["volumeMounts"]
        if not mount.get("readOnly")
    }
    state_file = Path(STATE_FILE)
    wanted = earmark_files.file_of(earmark_files.directory_of(state_file), "x").parent
    assert set(written.values()) == {str(wanted), str(EvictionHistoryFile(state_file).path.parent)}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for name, path in written.items():
        assert volumes[name]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}


@pytest.mark.parametrize(
    "values",
    [
        {"rebalance.policy": "consented"},
        {**REBALANCE, "rebalance.namespaces": ["*"]},
        {**REBALANCE, "rebalance.policy": "all"},
        {**REBALANCE, "rebalance.maxEvictionsPerHour": 0},
    ],
)
def test_helm_refuses_other_values(values: dict[str, object]) -> None:
    done = manifests.run("helm", *manifests.helm(values=values))
    assert done.returncode == 1
    assert "rebalance" in done.stderr
