"""The metrics as a scraper reads them, in both formats, and the page that describes them."""

import math
import re
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from nri_numamem.engine.core.events import (
    CgroupUse,
    Container,
    CpusetRead,
    CpusetsRead,
    CreateContainer,
    Event,
    PodSandbox,
    RunPodSandbox,
    StopContainer,
    Synchronize,
)
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.residency.remote_memory import Round
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import Machine, NodeSet, NumaNode, Partition, PodStrategies, Strategy
from nri_numamem.numa.pages import Pages
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.metrics.counters import Meter, Sources
from nri_numamem.observe.metrics.exposition import OUTCOMES, Metrics
from nri_numamem.observe.metrics.families import PREFIX
from nri_numamem.version import VERSION
from tests.engine.records.examples import example

GI = 1 << 30
MI = 1 << 20
PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Plugin:
    """An engine whose records are metered as the service does it."""

    def __init__(self, settings: Policy | None = None) -> None:
        nodes = (NumaNode(0, 4 * GI, {2 * MI: 64}), NumaNode(1, 4 * GI, {2 * MI: 64}))
        given = settings or Policy(reserved_memory=(Reservation(1, {"memory": GI}),))
        self.engine: Engine | None = Engine(new_context(Machine(nodes), given))
        self.meter = Meter(lambda: 1e9)
        self.failed_writes = 0
        self.written_at_s: float | None = None
        self.remote_bytes: dict[int, int] = {}
        self.residency: Round | None = None

    def handle(self, event: Event) -> None:
        assert self.engine is not None
        for record in self.engine.apply(event).records:
            self.meter.count(record)

    def metrics(self) -> Metrics:
        engine = self.engine
        sources = Sources(
            self.meter,
            lambda: None if engine is None else engine.committed,
            lambda: self.failed_writes,
            lambda: self.written_at_s,
            lambda: self.remote_bytes,
            lambda: 0.0,
            residency=lambda: self.residency,
        )
        return Metrics(sources, pause_s=0)

    def scrape(self) -> Samples:
        _, text = render(self.metrics())
        return samples(text_string_to_metric_families(text.decode()))


def render(metrics: Metrics, accept: str = "") -> tuple[str, bytes]:
    """Return content type and body of a reply to a scraper with this Accept header."""
    environ: dict[str, object] = {}
    setup_testing_defaults(environ)
    if accept:
        environ["HTTP_ACCEPT"] = accept
    content_types: list[str] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> object:
        assert status == "200 OK"
        content_types.extend(value for name, value in headers if name == "Content-Type")
        return None

    body = b"".join(metrics.wsgi_app()(environ, start_response))  # type: ignore[arg-type]
    return content_types[0], body


def samples(families: Iterable[Metric]) -> Samples:
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name.removeprefix(PREFIX), tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def events(name: str) -> list[str]:
    """Return the outcomes of a metric."""
    return [kind.event for kind in OUTCOMES[name][1]]


def outcomes(found: Samples, name: str) -> list[float]:
    """Return the samples of a metric with a label for the outcome."""
    return [found[f"{name}_total", (("outcome", event),)] for event in events(name)]


def pod(number: int) -> PodSandbox:
    uid = f"uid{number}"
    return PodSandbox(f"s{number}", uid, "default", f"pod{number}", f"/kubepods/pod{uid}")


def container(number: int, name: str = "app", memory: int = GI) -> Container:
    return Container(f"c{number}-{name}", f"s{number}", name, memory)


def busy(*, per_container: bool = False) -> Plugin:
    """Return a plugin that has done some of everything."""
    plugin = Plugin(
        Policy(
            reserved_memory=(Reservation(1, {"memory": GI}),),
            pod_strategies=PodStrategies((Strategy.BALANCED_WITH_CPUS,)),
            partitions=(Partition("web", NodeSet([1]), namespaces=("web",)),),
        )
    )
    plugin.meter.registered()
    about = {"runtime": "containerd", "runtime_version": "v2.1", "nri_version": None}
    plugin.meter.count(example("configured", about))
    plugin.handle(Synchronize((), ()))
    for number in range(3):
        plugin.handle(RunPodSandbox(pod(number)))
        plugin.handle(CreateContainer(pod(number), container(number)))
    plugin.handle(CreateContainer(pod(3), container(3, memory=9 * GI)))
    burstable = PodSandbox("s4", "uid4", "default", "b", "/kubepods/burstable/poduid4")
    plugin.handle(CreateContainer(burstable, container(4)))
    plugin.handle(StopContainer(pod(0), container(0)))
    timed = plugin.meter.timed("CreateContainer", lambda _context, request: request)
    assert [timed(None, number) for number in range(4)] == [0, 1, 2, 3]
    plugin.meter.timed("UpdateContainer", lambda _context, request: request)
    plugin.meter.starts = {"service": 1}
    plugin.written_at_s = 1.5e9
    plugin.remote_bytes = {1: MI}
    plugin.residency = Round(
        pages={"c1-app": Pages({0: MI})},
        available={0: GI},
        unfaulted={0: MI},
        low_nodes=frozenset(),
        per_container=per_container,
    )
    return plugin


def test_tables_per_node_and_resource() -> None:
    found = busy().scrape()
    memory = (("numa_node", "1"), ("resource", "memory"))
    total, reserved = 4 * GI, GI
    allocatable = total - reserved - 128 * MI
    assert found["node_total_bytes", memory] == total
    assert found["node_system_reserved_bytes", memory] == reserved
    assert found["node_allocatable_bytes", memory] == allocatable
    pages = (("numa_node", "0"), ("resource", "hugepages-2Mi"))
    assert found["node_free_bytes", pages] == 128 * MI
    held = {
        node: found["node_reserved_bytes", (("numa_node", node), ("resource", "memory"))]
        for node in ("0", "1")
    }
    assert sum(held.values()) == 3 * GI
    assert found["node_free_bytes", memory] == allocatable - held["1"]
    assert sum(found["node_assignments", (("numa_node", node),)] for node in "01") == 3
    assert found["node_group_size", (("numa_node", "0"),)] == 1
    assert found["running_pods", ()] == 4
    assert found["running_containers", ()] == 2
    assert found["assignments", ()] == 3


def test_decisions_are_counted_and_all_labels_are_there_from_the_start() -> None:
    found = busy().scrape()
    outcomes = {
        dict(labels)["outcome"]: value
        for (name, labels), value in found.items()
        if name == "containers_total"
    }
    assert outcomes == {
        **dict.fromkeys(events("containers"), 0),
        "admitted": 3,
        "rejected": 1,
        "not_managed": 1,
    }
    reasons = {k: v for k, v in found.items() if k[0] == "rejections_total"}
    assert sorted(reasons.values()) == [0, 1]
    assert found["synchronizations_total", ()] == 1
    assert found["last_synchronize_containers", ()] == 0


def test_a_retry_of_a_rejected_container_is_no_second_container() -> None:
    plugin = Plugin()
    for name in ("app", "app", "other", "app"):
        plugin.handle(CreateContainer(pod(3), container(3, name, memory=9 * GI)))
    found = plugin.scrape()
    reason = (("reason", "UnexpectedAdmissionError"),)
    assert found["rejections_total", reason] == 4
    assert found["rejected_containers_total", reason] == 2
    assert found["rejected_containers_total", (("reason", "TopologyAffinityError"),)] == 0


def test_times_of_the_last_synchronize_and_write() -> None:
    plugin = Plugin()
    names = {name for name, _ in plugin.scrape()}
    assert not any(name.endswith("timestamp_seconds") for name in names)
    plugin.handle(Synchronize((), ()))
    plugin.written_at_s = 2e9
    found = plugin.scrape()
    assert found["last_synchronize_timestamp_seconds", ()] == 1e9
    assert found["state_file_last_write_timestamp_seconds", ()] == 2e9


def test_starts_and_remote_bytes() -> None:
    found = busy().scrape()
    assert found["starts_total", (("cause", "service"),)] == 1
    assert found["remote_bytes", (("numa_node", "1"),)] == MI


def test_the_largest_request_that_fits() -> None:
    plugin = Plugin(Policy())
    one = (("nodes", "one"), ("resource", "memory"))
    group = (("nodes", "group"), ("resource", "memory"))
    found = plugin.scrape()
    free = found["node_free_bytes", (("numa_node", "1"), ("resource", "memory"))]
    assert found["largest_request_bytes", one] == free
    assert found["largest_request_bytes", group] == 2 * free
    plugin.handle(CreateContainer(pod(0), container(0)))
    found = plugin.scrape()
    assert (found["largest_request_bytes", one], found["largest_request_bytes", group]) == (free, 0)


def test_a_policy_of_one_node_admits_no_group() -> None:
    found = Plugin(Policy(topology_manager_policy="single-numa-node")).scrape()
    assert found["largest_request_bytes", (("nodes", "group"), ("resource", "memory"))] == 0


@pytest.mark.parametrize("is_managed_twice", [False, True])
def test_a_kubelet_that_manages_memory_too(is_managed_twice: bool) -> None:
    found = Plugin(Policy(is_managed_twice=is_managed_twice)).scrape()
    assert found["kubelet_memory_manager_conflict", ()] == is_managed_twice


def test_the_text_for_node_exporter_has_no_metric_of_that_exporter() -> None:
    text = busy().metrics().text_renderer()().decode()
    families = list(text_string_to_metric_families(text))
    assert all(family.name.startswith(PREFIX) for family in families)
    found = samples(families)
    assert found["process_resident_memory_bytes", ()] > MI
    assert found["containers_total", (("outcome", "admitted"),)] == 3


def test_misaligned_containers_by_provider_and_cause() -> None:
    plugin = Plugin()
    assert not any(name == "misalignments_total" for name, _ in plugin.scrape())
    assert plugin.scrape()["misaligned_containers", ()] == 0
    away = replace(container(0), cpuset_mems="0", device_nodes=(NodeSet([1]),))
    plugin.handle(CreateContainer(pod(0), away))
    found = plugin.scrape()
    cause = (("cause", "adopted"), ("provider", "devices"))
    assert found["misalignments_total", cause] == 1
    assert found["misaligned_containers", ()] == 1
    plugin.meter.count(example("misaligned", {"causes": {"cpu": "other_group"}}))
    assert plugin.scrape()["misalignments_total", (("cause", "other_group"), ("provider", "cpu"))]
    plugin.handle(StopContainer(pod(0), away))
    assert plugin.scrape()["misaligned_containers", ()] == 0


def test_containers_whose_cgroup_lacks_their_nodes() -> None:
    plugin = Plugin()
    for number in range(4):
        plugin.handle(CreateContainer(pod(number), container(number)))
    use = CgroupUse(memory_bytes={})
    reads = [
        CpusetRead("c0-app", NodeSet(), use),
        CpusetRead("c1-app", NodeSet()),
        CpusetRead("c2-app", NodeSet(), use),
        CpusetRead("c3-app", NodeSet([0, 1]), use),
    ]
    plugin.handle(CpusetsRead(tuple(reads)))
    assert plugin.scrape()["unpinned_containers", ()] == 3
    plugin.handle(StopContainer(pod(2), container(2)))  # the reply repairs the first one
    found = plugin.scrape()
    assert found["unpinned_containers", ()] == 1
    assert found["cpuset_mems_conflicts_total", ()] == 1


def test_guaranteed_containers_that_run_unpinned() -> None:
    plugin = Plugin(Policy(when_unsatisfiable="RunUnpinned"))
    for number in range(2):
        plugin.handle(CreateContainer(pod(number), container(number, memory=9 * GI)))
    label = (("outcome", "unpinned_no_capacity"),)
    assert plugin.scrape()["guaranteed_unpinned_containers", label] == 2
    plugin.handle(StopContainer(pod(0), container(0, memory=9 * GI)))
    found = plugin.scrape()
    assert found["guaranteed_unpinned_containers", label] == 1
    assert found["guaranteed_unpinned_containers", (("outcome", "cpuset_mems_missing"),)] == 0


def test_memory_policies_by_outcome() -> None:
    plugin = Plugin()
    for event in (*events("memory_policies"), "memory_policy_set"):
        plugin.meter.count(example(event, {"container": "c"}))
    found = plugin.scrape()
    assert outcomes(found, "memory_policies") == [2, 1, 1]


def test_network_hints_by_outcome() -> None:
    plugin = Plugin()
    for event in (*events("network_hints"), "network_hints_found"):
        plugin.meter.count(example(event, {"container": "c"}))
    found = plugin.scrape()
    assert outcomes(found, "network_hints") == [2, 1, 1]


def test_burstable_containers_by_outcome() -> None:
    plugin = Plugin()
    for event in (*events("burstable_containers"), "burstable_pinned"):
        plugin.meter.count(example(event, {"container": "c"}))
    found = plugin.scrape()
    assert outcomes(found, "burstable_containers") == [2, 1, 1]


def test_confined_containers_are_counted() -> None:
    web = Partition("web", NodeSet([1]), namespaces=("default",), confine=True)
    plugin = Plugin(Policy(partitions=(web,)))
    assert plugin.scrape()["confined_containers_total", ()] == 0
    best_effort = PodSandbox("s1", "uid1", "default", "b", "/kubepods/besteffort/poduid1")
    plugin.handle(CreateContainer(best_effort, Container("c1", "s1", "app")))
    plugin.handle(CreateContainer(pod(2), container(2)))
    assert plugin.scrape()["confined_containers_total", ()] == 1


def test_decisions_of_placement_strategies() -> None:
    plugin = Plugin()
    fields = {"strategy": "pack", "equal_nodes": ["0", "1"]}
    for event in ("admitted", "pod_admitted"):
        plugin.meter.count(example(event, fields))
    plugin.meter.count(example("admitted", {"strategy": "pack"}))
    plugin.meter.count(example("placement_strategy_ignored"))
    found = plugin.scrape()
    assert found["strategy_decisions_total", (("strategy", "pack"),)] == 2
    assert found["ignored_strategy_annotations_total", ()] == 1


def test_decisions_on_cpus_by_outcome() -> None:
    plugin = Plugin()
    for event in (*events("cpus"), "cpus_set"):
        plugin.meter.count(example(event, {"container": "c"}))
    found = plugin.scrape()
    assert outcomes(found, "cpus") == [2, 1]


def test_the_shortfall_in_bytes() -> None:
    plugin = Plugin()
    memory = (("resource", "memory"),)
    assert plugin.scrape()["shortfall_bytes", memory] == 0
    running = replace(container(0, memory=6 * GI), cpuset_mems="0")
    plugin.handle(CreateContainer(pod(0), running))
    found = plugin.scrape()
    assert found["shortfall_bytes", memory] == 2 * GI + 128 * MI
    assert found["shortfall_bytes", (("resource", "hugepages-2Mi"),)] == 0


def test_hugepages_of_processes_outside_of_pods() -> None:
    plugin = Plugin()
    assert not any(name == "non_pod_hugepages_bytes" for name, _ in plugin.scrape())
    taken = {"0": {"hugepages-2Mi": 4 * MI}, "2-3": {"hugepages-1Gi": GI}}
    plugin.meter.count(example("non_pod_hugepages_found", {"non_pod_bytes": taken}))
    found = plugin.scrape()
    one = (("numa_nodes", "0"), ("resource", "hugepages-2Mi"))
    two = (("numa_nodes", "2-3"), ("resource", "hugepages-1Gi"))
    assert found["non_pod_hugepages_bytes", one] == 4 * MI
    assert found["non_pod_hugepages_bytes", two] == GI


def test_the_reservation_of_a_pod_is_not_a_container() -> None:
    plugin = Plugin(Policy(topology_manager_scope="pod"))
    whole = PodSandbox("s1", "u1", "default", "p", "/kubepods/podu1", memory_limit_bytes=2 * GI)
    plugin.handle(RunPodSandbox(whole))
    found = plugin.scrape()
    assert found["pods_total", (("outcome", "pod_admitted"),)] == 1
    assert found["running_containers", ()] == 0
    assert found["assignments", ()] == 1


def test_the_connection_and_the_runtime() -> None:
    plugin = busy()
    found = plugin.scrape()
    assert found["connected", ()] == 1
    about = (("nri_version", ""), ("runtime", "containerd"), ("runtime_version", "v2.1"))
    assert found["runtime_info", about] == 1
    plugin.meter.disconnected()
    assert plugin.scrape()["connected", ()] == 0
    assert plugin.scrape()["registrations_total", ()] == 1


def test_durations_are_cumulative_and_only_of_methods_that_were_called() -> None:
    plugin = busy()
    durations = plugin.meter.durations["CreateContainer"]
    durations.counts[:] = [1, 0, 2, *[0] * 12, 1]
    durations.sum_s = 3.5
    method = ("method", "CreateContainer")
    found = {k: v for k, v in plugin.scrape().items() if k[0].startswith("request_duration")}
    assert all(method in labels for _, labels in found)
    assert found["request_duration_seconds_count", (method,)] == 4
    assert found["request_duration_seconds_sum", (method,)] == 3.5
    buckets = [
        (float(dict(labels)["le"]), value)
        for (name, labels), value in found.items()
        if name == "request_duration_seconds_bucket"
    ]
    assert [count for _, count in sorted(buckets)] == [1, 1, *[3] * 13, 4]
    assert min(buckets)[0] == 50e-6
    assert max(buckets)[0] == math.inf


def test_errors_are_counted() -> None:
    plugin = Plugin()
    for event in ("request_timed_out", "synchronize_timed_out"):
        plugin.meter.count(example(event))
    plugin.meter.count(example("internal_error"))
    plugin.failed_writes = 7
    found = plugin.scrape()
    assert found["request_timeouts_total", ()] == 2
    assert found["internal_errors_total", ()] == 1
    assert found["state_file_failed_writes_total", ()] == 7


def test_lost_records_are_counted(restored_output: None) -> None:
    before = logs.dropped_records()
    logs._OUTPUT.losses.add()
    assert Plugin().scrape()["log_records_dropped_total", ()] == before + 1


def test_without_an_engine_there_are_no_tables() -> None:
    plugin = Plugin()
    plugin.engine = None
    names = {name for name, _ in plugin.scrape()}
    assert "connected" in names
    assert not any(name.startswith("node_") for name in names)


def test_metrics_of_the_process() -> None:
    found = Plugin().scrape()
    assert found["process_resident_memory_bytes", ()] > MI
    assert found["process_open_fds", ()] >= 3
    (about,) = [dict(labels) for name, labels in found if name == "build_info"]
    assert about["version"] == VERSION


@pytest.mark.parametrize(
    ("accept", "content_type", "parse"),
    [
        ("", "text/plain; version=0.0.4", text_string_to_metric_families),
        ("text/html, */*", "text/plain; version=0.0.4", text_string_to_metric_families),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            "application/openmetrics-text; version=",
            openmetrics.text_string_to_metric_families,
        ),
    ],
    ids=["nothing", "a browser", "Prometheus"],
)
def test_the_client_chooses_the_format(
    accept: str, content_type: str, parse: Callable[[str], Iterable[Metric]]
) -> None:
    found_type, text = render(busy().metrics(), accept)
    assert found_type.startswith(content_type)
    found = samples(parse(text.decode()))
    assert found["containers_total", (("outcome", "admitted"),)] == 3


def test_no_label_comes_from_a_pod() -> None:
    _, text = render(busy().metrics())
    settings = text.decode().replace('partition="default"', "")
    assert not re.search(r"pod\d|uid\d|c\d-app|s\d\b|default", settings)


def test_metrics_can_be_read_while_the_loop_works() -> None:
    plugin = Plugin()
    metrics = plugin.metrics()
    texts: list[bytes] = []

    def scrape() -> None:
        texts.extend(render(metrics)[1] for _ in range(5))

    scraper = threading.Thread(target=scrape)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the threads take turns in the middle of everything
    try:
        scraper.start()
        number = 0
        while scraper.is_alive():
            number += 1
            new = container(number % 3, f"app{number % 50}", MI)
            plugin.handle(CreateContainer(pod(number % 3), new))
            plugin.meter.timed(f"Method{number % 99}", lambda _context, request: request)(None, 1)
            fields = {"container": "c", "reason": f"R{number % 99}"}
            plugin.meter.count(example("rejected", fields))
    finally:
        sys.setswitchinterval(interval_s)
        scraper.join()
    assert len(texts) == 5
    for text in texts:
        assert samples(text_string_to_metric_families(text.decode()))


def test_the_page_names_exactly_what_there_is() -> None:
    text = render(busy(per_container=True).metrics())[1].decode()
    families = text_string_to_metric_families(text)
    made = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families
        if family.name.startswith(PREFIX)
    }
    documented = set(re.findall(rf"^\| `({PREFIX}\w+)", PAGE.read_text(), re.MULTILINE))
    assert documented == made


def test_the_page_names_every_label() -> None:
    words = set(re.findall(r"\w+", PAGE.read_text()))
    text = render(busy(per_container=True).metrics())[1].decode()
    for family in text_string_to_metric_families(text):
        if family.name.startswith(PREFIX):
            for sample in family.samples:
                assert set(sample.labels) - {"le"} <= words
    assert {*events("containers"), *events("pods")} <= words


def test_the_pages_of_containers_are_shown_with_the_setting() -> None:
    plugin = Plugin()
    key = ("node_available_bytes", (("numa_node", "1"),))
    assert key not in plugin.scrape()
    plugin.residency = Round(available={1: 7})
    assert plugin.scrape()[key] == 7
