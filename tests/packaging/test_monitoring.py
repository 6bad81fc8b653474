"""The alert rules and the dashboard: promtool evaluates each expression on a real scrape."""

import json
import re
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.laboratory import objects
from tests.laboratory.runtime import FakeRuntime, PluginRefused
from tests.simulated_host import WAIT_S, SimulatedHost

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus" / "nri-numamem.rules.yml"
DASHBOARD = ROOT / "packaging" / "grafana" / "nri-numamem.json"
TOOL = ROOT / "build" / "promtool" / "usr" / "bin" / "promtool"
GI = 1 << 30

Sample = tuple[str, Mapping[str, str]]
Change = tuple[str, Mapping[str, str], str]
"""Metric, labels of the samples, and their values."""

TARGET = {"job": "nri-numamem", "instance": "host-1"}
TEXTFILE = "/var/lib/prometheus/node-exporter/nri_numamem.prom"

# Grafana's documentation, "Dashboard JSON model"; the panels of a new installation.
JSON_MODEL = {
    "uid",
    "title",
    "tags",
    "timezone",
    "editable",
    "graphTooltip",
    "panels",
    "time",
    "timepicker",
    "templating",
    "annotations",
    "refresh",
    "schemaVersion",
    "version",
    "links",
}
PANEL_TYPES = {"stat", "bargauge", "timeseries", "table"}
UNITS = {"short", "none", "s", "bytes", "percentunit", "ops", "cps"}
MATCHERS = {"byName", "byRegexp", "byFrameRefID", "byType"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

# Metrics of Prometheus and node_exporter.
OTHERS: list[tuple[Sample, str]] = [
    (("up", {}), "1x120"),
    # Written again each minute, as promtool's time passes.
    (("node_textfile_mtime_seconds", {"file": TEXTFILE}), "0+60x120"),
]

# What only the text file has, and what has no sample until something happens: expressions with them
# are evaluated on these.
LATER: list[tuple[Sample, str]] = [
    (("nri_numamem_process_resident_memory_bytes", {}), "3e7x120"),
    (
        ("nri_numamem_non_pod_hugepages_bytes", {"numa_nodes": "0", "resource": "hugepages-2Mi"}),
        "2097152x120",
    ),
]

# What a plugin with the setting residency has besides.
RESIDENCY: list[tuple[Sample, str]] = [
    (("nri_numamem_node_head_room_low", {"numa_node": "0"}), "0x120"),
    (("nri_numamem_node_head_room_low", {"numa_node": "1"}), "0x120"),
    (("nri_numamem_node_available_bytes", {"numa_node": "0"}), f"{2 * GI}x120"),
    (("nri_numamem_node_unfaulted_bytes", {"numa_node": "0"}), f"{GI}x120"),
    (("nri_numamem_remote_memory_containers", {}), "0x120"),
]

# Alert -> metric -> labels and values that make it fire, instead of those of the scrape.
STEP = "0x10 1x110"
FIRING: dict[str, Change] = {
    "NriNumamemDown": ("up", {}, "0x120"),
    "NriNumamemTextfileStale": ("node_textfile_mtime_seconds", {}, "0x120"),
    "NriNumamemDisconnected": ("nri_numamem_connected", {}, "0x120"),
    "NriNumamemInvariantViolated": ("nri_numamem_invariant_violations_total", {}, STEP),
    "NriNumamemInternalError": ("nri_numamem_internal_errors_total", {}, STEP),
    "NriNumamemRestarting": ("nri_numamem_starts_total", {"cause": "crashed"}, "0x10 0+1x60"),
    "NriNumamemGuaranteedUnpinned": (
        "nri_numamem_guaranteed_unpinned_containers",
        {"outcome": "unpinned_no_capacity"},
        "1x120",
    ),
    "NriNumamemOvercommitted": ("nri_numamem_shortfall_bytes", {"resource": "memory"}, "4096x120"),
    "NriNumamemContainersRejected": (
        "nri_numamem_rejected_containers_total",
        {"reason": "UnexpectedAdmissionError"},
        STEP,
    ),
    "NriNumamemKubeletConflict": ("nri_numamem_kubelet_memory_manager_conflict", {}, "1x120"),
    "NriNumamemCpusetConflict": ("nri_numamem_cpuset_mems_conflicts_total", {}, STEP),
    "NriNumamemRequestTimeouts": ("nri_numamem_request_timeouts_total", {}, STEP),
    "NriNumamemSlowRequests": (
        "nri_numamem_request_duration_seconds_bucket",
        {"method": "CreateContainer", "le": "+Inf"},
        "0+9x120",
    ),
    "NriNumamemStateFileNotWritten": (
        "nri_numamem_state_file_failed_writes_total",
        {},
        "0+1x120",
    ),
    "NriNumamemLogRecordsDropped": ("nri_numamem_log_records_dropped_total", {}, STEP),
    "NriNumamemRemoteMemory": ("nri_numamem_remote_bytes", {"numa_node": "1"}, f"{2 * GI}x120"),
    "NriNumamemHeadRoomLow": ("nri_numamem_node_head_room_low", {"numa_node": "1"}, "1x120"),
    "NriNumamemRemoteMemoryContainers": ("nri_numamem_remote_memory_containers", {}, "2x120"),
}


@pytest.fixture(scope="module")
def promtool() -> Callable[..., str]:
    found = str(TOOL) if TOOL.exists() else shutil.which("promtool")
    assert found, "promtool is missing; run tests/packaging/install-tools"

    def run(*arguments: str | Path) -> str:
        result = subprocess.run(
            (found, *map(str, arguments)), capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Metric]]:
    """Return a scrape of a plugin that has placed, rejected and left alone."""
    host = SimulatedHost(tmp_path_factory.mktemp("host"))
    with socket.create_server(("127.0.0.1", 0)) as sock:
        address = f"127.0.0.1:{sock.getsockname()[1]}"
    try:
        with FakeRuntime() as runtime:
            runtime.listen(host.socket)
            host.start("--metrics-address", address)
            runtime.accept(WAIT_S)
            runtime.synchronize()
            use(host, runtime)
            host.wait_record("metrics_endpoint_started")
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT_S) as reply:
                text = reply.read().decode()
        yield list(text_string_to_metric_families(text))
    finally:
        host.close()


def use(host: SimulatedHost, runtime: FakeRuntime) -> None:
    """Let a runtime create a container on each node, and one that does not fit."""
    for number in range(2):
        pod = runtime.run_pod_sandbox(objects.pod(f"p{number}", memory_limit_bytes=3 * GI))
        new = objects.container(pod, "c", memory_limit_bytes=3 * GI)
        created = runtime.create_container(pod, new)
        nodes = created.linux.resources.cpu.mems
        host.make_cgroup(pod)
        host.write_container(new, nodes, {0: 4096, 1: 4096})
    large = runtime.run_pod_sandbox(objects.pod("large", memory_limit_bytes=2 * GI))
    with pytest.raises(PluginRefused):
        runtime.create_container(large, objects.container(large, "c", memory_limit_bytes=2 * GI))
    host.wait_record("rejected")


@pytest.fixture(scope="module")
def scrape(families: list[Metric]) -> list[tuple[Sample, str]]:
    """Each sample with its value, constant for two hours."""
    own = [
        ((sample.name, sample.labels), f"{sample.value}x120")
        for family in families
        for sample in family.samples
    ]
    return own + OTHERS + RESIDENCY


def series(scrape: list[tuple[Sample, str]], change: Change | None = None) -> list[dict[str, str]]:
    """Return promtool's series; `change` replaces the values of some."""
    found = []
    changed = 0
    for (name, labels), own in scrape:
        values = own
        if change and name == change[0] and change[1].items() <= labels.items():
            values, changed = change[2], changed + 1
        text = ",".join(f'{key}="{value}"' for key, value in {**labels, **TARGET}.items())
        found.append({"series": f"{name}{{{text}}}", "values": values})
    assert changed == bool(change), change
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels() -> list[dict[str, Any]]:
    return list(json.loads(DASHBOARD.read_text())["panels"])


def dashboard_expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def filled(expression: str) -> str:
    """Return an expression of the dashboard with values for Grafana's variables."""
    values = {
        "job": TARGET["job"],
        "instance": ".*",
        "resource": "memory",
        "__rate_interval": "5m",
        "__range": "1h",
    }
    found = re.sub(r"\$(\w+)", lambda match: values[match[1]], expression)
    assert "$" not in found
    return found


def evaluate(
    promtool: Callable[..., str], folder: Path, tests: list[dict[str, Any]], at: str = "60m"
) -> None:
    """Let promtool evaluate expressions on series; fails where a value is another."""
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": test["series"],
                "promql_expr_test": [
                    {
                        "expr": expression,
                        "eval_time": test.get("at", at),
                        "exp_samples": [{"labels": "{}", "value": value}],
                    }
                    for expression, value in test["expected"].items()
                ],
            }
            for test in tests
        ],
    }
    file = folder / "tests.yml"
    file.write_text(json.dumps(document))
    promtool("test", "rules", file)


def test_promtool_accepts_the_rules(promtool: Callable[..., str]) -> None:
    assert f"SUCCESS: {len(rules())} rules found" in promtool("check", "rules", RULES)


def test_every_rule_has_a_severity_a_time_and_texts() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["annotations"]["summary"].count("$labels.instance") == 1
    assert {rule["alert"] for rule in rules()} == set(FIRING)


def test_every_metric_is_one_that_a_real_plugin_has(families: list[Metric]) -> None:
    names = {sample.name for family in families for sample in family.samples}
    expressions = [rule["expr"] for rule in rules()] + dashboard_expressions()
    text = re.sub(r'"[^"]*"', "", " ".join(expressions))
    used = set(re.findall(r"\b(?:nri_numamem|process|node|up)_?\w*", text))
    allowed = {name for (name, _), _ in OTHERS + LATER + RESIDENCY}
    assert used - names == allowed
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    queried = re.findall(r"nri_numamem\w+", json.dumps(variables))
    assert queried
    assert set(queried) <= names


def test_a_healthy_plugin_raises_no_alert(
    promtool: Callable[..., str], scrape: list[tuple[Sample, str]], tmp_path: Path
) -> None:
    test = {"series": series(scrape), "expected": {"count(ALERTS) or vector(0)": 0}}
    evaluate(promtool, tmp_path, [test])


def test_each_alert_fires_alone(
    promtool: Callable[..., str], scrape: list[tuple[Sample, str]], tmp_path: Path
) -> None:
    tests = []
    for alert, change in FIRING.items():
        at = "90m" if alert == "NriNumamemRemoteMemory" else "60m"
        expected = {
            f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})': 1,
            'count(ALERTS{alertstate="firing"})': 1,
        }
        tests.append({"series": series(scrape, change), "expected": expected, "at": at})
    evaluate(promtool, tmp_path, tests)


def test_each_expression_of_the_dashboard_has_data(
    promtool: Callable[..., str], scrape: list[tuple[Sample, str]], tmp_path: Path
) -> None:
    expressions = dashboard_expressions()
    assert len(expressions) > 20
    unpinned = FIRING["NriNumamemGuaranteedUnpinned"]
    expected = {f"clamp_max(count({filled(expression)}), 1)": 1 for expression in expressions}
    evaluate(
        promtool, tmp_path, [{"series": series(scrape + LATER, unpinned), "expected": expected}]
    )


def test_the_dashboard_can_be_imported() -> None:
    document = json.loads(DASHBOARD.read_text())
    assert document.keys() >= JSON_MODEL
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", document["uid"])
    assert document["schemaVersion"] >= 41
    assert "id" not in document  # Grafana assigns it
    numbers = [panel["id"] for panel in panels()]
    assert len(numbers) == len(set(numbers))
    variables = {variable["name"] for variable in document["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(document["panels"])))
    assert used - {"__rate_interval", "__range"} == variables
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            assert variable["datasource"] == DATASOURCE
            assert variable["query"]["query"] == variable["definition"]
        else:
            assert (variable["type"], variable["query"]) == ("datasource", "prometheus")


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_has_what_grafana_needs(panel: dict[str, Any]) -> None:
    if panel["type"] == "row":
        assert (panel["collapsed"], panel["panels"]) == (False, [])
        assert "targets" not in panel
        return
    assert panel["type"] in PANEL_TYPES
    assert panel["datasource"] == DATASOURCE
    assert panel["title"]
    assert panel["description"]
    defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
    assert defaults["unit"] in UNITS
    steps = defaults.get("thresholds", {"steps": [{"value": None}]})["steps"]
    assert steps[0]["value"] is None
    assert all(override["matcher"]["id"] in MATCHERS for override in overrides)
    names = [target["refId"] for target in panel["targets"]]
    assert names
    assert len(set(names)) == len(names)
    for target in panel["targets"]:
        assert target["datasource"] == DATASOURCE
        assert target["expr"].strip()
        assert target["range"] is not target["instant"]


def test_the_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert place.keys() == {"x", "y", "w", "h"}
        assert min(place["x"], place["y"]) >= 0
        assert min(place["w"], place["h"]) > 0
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
