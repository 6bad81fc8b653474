"""Scenarios of placement strategies: which of several equally good NUMA nodes a container gets.

The machine has four NUMA nodes with one CPU each, 0 to 3. Amounts of memory are percent of the
smallest node; the largest one has 13 % more. Pods without an annotation fill the nodes, the lowest
ids first; a filler that ends leaves room on the nodes 0 or 2. Each strategy then prefers another
node.
"""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

from tests.features.guest import memory, nodes
from tests.features.guest.feature import Phase, restart_with
from tests.machines.guest.checks import Check, expect
from tests.machines.guest.host import Host
from tests.machines.guest.kubelet import ContainerSpec, Pod, PodSpec
from tests.machines.guest.waiting import wait_until

_ANNOTATION = "placement-strategy.numamem.io"
_METRICS = "127.0.0.1:9551"
_ENDPOINT = f"metricsAddress: {_METRICS}\n"
_POD_STRATEGIES = "podPlacementStrategies: {allowed: [pack, spread, balanced-with-cpus]}\n"
SETTINGS = _POD_STRATEGIES + _ENDPOINT
_ALL_PACK = (
    "placementStrategy: pack\n"
    "podPlacementStrategies: {allowed: [balanced-with-cpus], namespaces: [e2e]}\n"
)

_ALL_CPUS = frozenset(range(4))
_WRITTEN_MIB = 32
_PERCENT = 20
"""Of each pod whose placement is observed."""


def _spec(host: Host, name: str, percent: int, cpu_milli: int = 0, strategy: str = "") -> PodSpec:
    """Return a Guaranteed pod; one without a CPU request also has no CPU limit."""
    size = nodes.smallest_bytes(host) * percent // 100
    main = ContainerSpec("main", size, cpu_milli, command=memory.writer(_WRITTEN_MIB))
    return PodSpec(name, (main,), annotations={_ANNOTATION: strategy} if strategy else {})


def _fill(host: Host, name: str, percent: int, node: int, cpu_milli: int = 0) -> Pod:
    """Start a pod without an annotation, which is to be on this node."""
    pod = host.kubelet.run(_spec(host, name, percent, cpu_milli))
    expect(host.nodes(pod) == {node}, f"{name} is on {sorted(host.nodes(pod))}")
    return pod


def _place(host: Host, name: str, *, strategy: str = "", cpu_milli: int = 0) -> int:
    """Start a pod; return the node of its memory, which it may use with all CPUs; remove it."""
    pod = host.kubelet.run(_spec(host, name, _PERCENT, cpu_milli, strategy))
    mems, cpus = nodes.allowed(pod)
    (node,) = mems
    expect(cpus == _ALL_CPUS, f"CPUs {sorted(cpus)}")
    expect(host.nodes(pod) == mems, f"cpuset.mems {sorted(host.nodes(pod))}, and {sorted(mems)}")
    written = memory.wait_for_written(pod, _WRITTEN_MIB)
    expect(written[node] >= _WRITTEN_MIB, f"not all of it is on node {node}: {written}")
    host.kubelet.remove(pod)
    return node


def _admitted(host: Host, name: str) -> dict[str, Any]:
    return next(each for each in host.plugin.records("admitted") if each["pod"] == name)


def _expect_decided(host: Host, name: str, strategy: str, source: str) -> str:
    """Expect that a strategy chose between all four nodes; return the text of `explain`."""
    record = _admitted(host, name)
    decided = record["strategy"], record["strategy_source"], record["equal_nodes"]
    expect(decided == (strategy, source, ["0", "1", "2", "3"]), f"{record}")
    text = " ".join(host.plugin.command("explain", f"e2e/{name}").stdout.split())
    by = "the annotation" if source == "annotation" else "placementStrategy"
    expect(f"{strategy}, by {by}: " in text, text)
    expect("of the equal nodes 0, 1, 2, 3" in text, text)
    return text[text.index(f"{strategy}, by {by}") :].partition(", 3")[0] + ", 3"


def _default_takes_the_lowest_id(host: Host) -> str:
    """Use 60 % on node 0, 75 % on node 1, nothing on node 2, and 60 % on node 3."""
    _fill(host, "some", 60, node=0)
    _fill(host, "most", 75, node=1)
    filler = _fill(host, "filler", 90, node=2)
    _fill(host, "as-much", 60, node=3)
    host.kubelet.remove(filler)
    node = _place(host, "default")
    expect(node == 0, f"it is on node {node}")
    expect("strategy" not in _admitted(host, "default"), f"{_admitted(host, 'default')}")
    return f"node {node}"


def _pack_takes_the_fullest_node(host: Host) -> str:
    node = _place(host, "packed", strategy="pack")
    expect(node == 1, f"it is on node {node}")
    return f"node {node}: {_expect_decided(host, 'packed', 'pack', 'annotation')}"


def _spread_takes_the_emptiest_node(host: Host) -> str:
    node = _place(host, "spread", strategy="spread")
    expect(node == 2, f"it is on node {node}")
    return f"node {node}: {_expect_decided(host, 'spread', 'spread', 'annotation')}"


def _metric_counts_what_strategies_decided(host: Host) -> str:
    found = {
        name: value
        for name, value in _metrics()
        if name.startswith("nri_numamem_strategy_decisions_total{")
    }
    expected = {
        f'nri_numamem_strategy_decisions_total{{strategy="{name}"}}': 1.0
        for name in ("pack", "spread")
    }
    expect(found == expected, f"{found}")
    return f"{found}"


def _setting_counts_for_all_pods(host: Host) -> str:
    restart_with(host, _ALL_PACK)
    node = _place(host, "by-setting")
    expect(node == 1, f"it is on node {node}")
    return f"node {node}: {_expect_decided(host, 'by-setting', 'pack', 'setting')}"


def _annotation_that_is_not_allowed_has_one_record(host: Host) -> str:
    """Start the container twice: the pod has one record, and the node of the setting."""
    spec = _spec(host, "ignored", _PERCENT, strategy="spread")
    pod = host.kubelet.run(spec)
    expect(host.nodes(pod) == {1}, f"it is on {sorted(host.nodes(pod))}")
    host.kubelet.client.stop_container(pod.container_ids["main"])
    host.kubelet.run_container(pod, "main")
    expect(host.nodes(pod) == {1}, f"then it is on {sorted(host.nodes(pod))}")
    _wait_for_admissions(host, "ignored", 2)
    found = [e for e in host.plugin.records("placement_strategy_ignored") if e["pod"] == "ignored"]
    expect(len(found) == 1, f"{found}")
    host.kubelet.remove(pod)
    return str(found[0]["cause"])


def _wait_for_admissions(host: Host, name: str, count: int) -> None:
    """Wait for the records of a pod's containers, which follow the replies."""

    def is_recorded() -> bool:
        found = [each for each in host.plugin.records("admitted") if each["pod"] == name]
        return len(found) >= count

    wait_until(is_recorded, f"{count} records of {name}")


def _cpu_requests_decide(host: Host) -> str:
    """Give node 1 much memory without CPU requests, and node 2 both.

    With a pod of 20 %, the used fractions of memory and CPU requests are 20 and 0 % on the nodes 0
    and 3, 95 and 0 % on node 1, 85 and 90 % on node 2. With its own CPU request of 90 % they are 20
    and 90, 95 and 90, 85 and 180 %.
    """
    restart_with(host, SETTINGS)
    filler = _fill(host, "filler", 90, node=0)
    _fill(host, "memory", 75, node=1)
    _fill(host, "both", 65, node=2, cpu_milli=900)
    host.kubelet.remove(filler)
    return _expect_balanced(host, "begin")


def _expect_balanced(host: Host, prefix: str) -> str:
    """Expect that two pods that differ in their CPU requests are on different nodes."""
    few = _place(host, f"{prefix}-few", strategy="balanced-with-cpus")
    expect(few == 2, f"without a CPU request it is on node {few}")
    many = _place(host, f"{prefix}-many", strategy="balanced-with-cpus", cpu_milli=900)
    expect(many == 1, f"with a CPU request of 900m it is on node {many}")
    text = _expect_decided(host, f"{prefix}-many", "balanced-with-cpus", "annotation")
    return f"no CPU request: node {few}; 900m: node {many}; {text}"


def _status_shows_the_requests(host: Host) -> str:
    expected = {0: 0, 1: 0, 2: 900, 3: 0}
    found = _requests(host)
    expect(found == expected, f"{found}")
    screen = " ".join(host.plugin.command("status").stdout.split())
    expect("0.9 of 1 requested on node 2" in screen, screen)
    return f"millicores: {found}"


def _metrics_show_requests_and_decisions(host: Host) -> str:
    found = dict(_metrics())
    names = [
        'nri_numamem_cpu_requests_millicores{numa_node="2"}',
        'nri_numamem_strategy_decisions_total{strategy="balanced-with-cpus"}',
    ]
    values = [found.get(name) for name in names]
    expect(values == [900.0, 2.0], f"{found}")
    return f"{dict(zip(names, values, strict=True))}"


def _restart_of_the_plugin_keeps_it(host: Host) -> str:
    before, requests = host.running(), _requests(host)
    with host.without_plugin():
        pass
    return _expect_same(host, before, requests, "plugin")


def _restart_of_containerd_keeps_it(host: Host) -> str:
    before, requests = host.running(), _requests(host)
    host.restart_runtime(killed=True)
    return _expect_same(host, before, requests, "containerd")


def _expect_same(
    host: Host, before: dict[str, tuple[Any, ...]], requests: dict[int, int], restarted: str
) -> str:
    """Expect that nothing has changed, and that the next pods are placed as before."""
    expect(host.running() == before, f"{host.running()} instead of {before}")
    found = _requests(host)
    expect(found == requests, f"CPU requests {found} instead of {requests}")
    return _expect_balanced(host, restarted)


def _resized_cpu_request_counts(host: Host) -> str:
    """Leave a tenth of the CPU requests of node 2: it is not balanced any more."""
    host.kubelet.resize_cpu(host.kubelet.pod("both"), "main", 100)
    wait_until(lambda: _requests(host)[2] == 100, "the CPU request after the resize")
    node = _place(host, "resized", strategy="balanced-with-cpus")
    expect(node in {0, 3}, f"it is on node {node}")
    return f"node {node}, millicores: {_requests(host)}"


def _requests(host: Host) -> dict[int, int]:
    """Return NUMA node -> CPU requests in millicores, as `status` shows them."""
    done = host.plugin.command("status", "--output", "json")
    found = json.loads(done.stdout)["nodes"]
    return {node["id"]: node["cpus"]["requestedMillicores"] for node in found}


def _metrics() -> Iterator[tuple[str, float]]:
    """Yield metrics with their labels, as text, and their values."""
    with urlopen(f"http://{_METRICS}/metrics", timeout=60) as reply:
        text = reply.read().decode()
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            yield name, float(value)


_FREE_MEMORY = (
    Check("default_takes_the_lowest_id", _default_takes_the_lowest_id),
    Check("pack_takes_the_fullest_node", _pack_takes_the_fullest_node),
    Check("spread_takes_the_emptiest_node", _spread_takes_the_emptiest_node),
    Check("metric_counts_what_strategies_decided", _metric_counts_what_strategies_decided),
    Check("setting_counts_for_all_pods", _setting_counts_for_all_pods),
    Check(
        "annotation_that_is_not_allowed_has_one_record",
        _annotation_that_is_not_allowed_has_one_record,
    ),
)
_WITH_CPUS = (
    Check("cpu_requests_decide", _cpu_requests_decide),
    Check("status_shows_the_requests", _status_shows_the_requests),
    Check("metrics_show_requests_and_decisions", _metrics_show_requests_and_decisions),
    Check("restart_of_the_plugin_keeps_it", _restart_of_the_plugin_keeps_it),
    Check("restart_of_containerd_keeps_it", _restart_of_containerd_keeps_it),
    Check("resized_cpu_request_counts", _resized_cpu_request_counts),
)

PHASES = (
    Phase(name="placement-strategy", scenarios=(_FREE_MEMORY, _WITH_CPUS), settings=SETTINGS),
)
