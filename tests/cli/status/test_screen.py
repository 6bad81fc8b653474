"""The screens of `status`, as files in screens/; WRITE_SCREENS=1 writes them anew."""

import fcntl
import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from nri_numamem.cli.host_arguments import plugin_settings
from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.main import main
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.screen import show, show_pages
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import RuntimeFacts
from tests.cli.live.live_host import GI, NOW_S, LiveHost, four_nodes
from tests.cli.status.pages_host import add_burstable, add_pages
from tests.cli.status.test_pages import report_of

SCREENS = Path(__file__).parent / "screens"


def shown(host: LiveHost, columns: int = 80, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    report = judge(collect(host.parsed()))
    show(report, Console(file=file, width=columns, highlight=False))
    file.seek(0)
    return file.read()


def expect(screen: str, name: str) -> None:
    path = SCREENS / f"{name}.txt"
    if os.environ.get("WRITE_SCREENS"):
        path.write_text(screen)
    assert screen == path.read_text()


@pytest.fixture(name="short_paths", autouse=True)
def _short_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the origin of the settings have a short name, so that lines break where they do."""
    monkeypatch.setattr(
        "nri_numamem.cli.live.collect.plugin_settings",
        lambda path, root: (plugin_settings(path, root)[0], "config.yaml"),
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_a_host_with_pods(running_host: LiveHost, columns: int) -> None:
    expect(shown(running_host, columns), f"pods-{columns}")


@pytest.mark.parametrize("columns", [80, 120])
def test_hugepages_used_outside_of_pods(running_host: LiveHost, columns: int) -> None:
    running_host.use_hugepages(0, 3)
    running_host.use_hugepages(2, 1)
    running_host.start_process(881, "dpdk-testpmd", 3 * GI, "/user.slice/x.scope", {0: 3})
    screen = shown(running_host, columns)
    expect(screen[screen.index("Differences") :], f"outside-{columns}")


def test_nodes_with_other_page_sizes(host: LiveHost, running_host: LiveHost) -> None:
    """A node need not have pools of each size."""
    pool = host.root / "sys/devices/system/node/node0/hugepages/hugepages-2048kB"
    pool.mkdir()
    for name in ("nr", "free", "surplus"):
        (pool / f"{name}_hugepages").write_text("512\n" if name != "surplus" else "0\n")
    first, second, *_ = [line for line in shown(running_host, 120).splitlines() if "single" in line]
    assert first.count("Gi") == second.count("Gi") + 1
    assert "hugepages-2Mi 1Gi on node 0" in shown(running_host)


def test_without_unicode(running_host: LiveHost) -> None:
    screen = shown(running_host, encoding="ascii")
    assert screen.isascii()
    expect(screen, "pods-ascii")


def test_without_a_plugin(host: LiveHost) -> None:
    expect(shown(host), "no-plugin")
    host.state_file.unlink()
    screen = " ".join(shown(host).split())
    assert "state none: " in screen
    assert "postgres" not in screen
    assert "its cpuset.mems is 2-3: the plugin has no state" in screen


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": "9.9.9"}, "version runs 9.9.9, installed 1.2.3: restart the plugin, or the"),
        ({"runtime": None}, "runtime none has accepted the plugin yet: containers that start now"),
        (
            {"is_connected": False},
            "containerd 2.1.9, NRI 0.11.0; not connected since 2026-09-21T14:13:19Z: containers",
        ),
        (
            {"runtime": RuntimeFacts("crio", "1.29", None, 1), "connection_changed_s": None},
            "runtime crio 1.29; connected policy",
        ),
    ],
    ids=["another version", "no runtime", "not connected", "old runtime"],
)
def test_the_connection_of_the_plugin(
    running_host: LiveHost, changes: dict[str, object], text: str
) -> None:
    running_host.describe(**changes)
    assert text in " ".join(shown(running_host).split())


def test_a_plugin_that_ended(host: LiveHost) -> None:
    host.describe(ended_s=NOW_S)
    assert "does not run since 2026-09-23T21:46:40Z: containers" in " ".join(shown(host).split())


def test_times_of_the_state_that_are_no_dates(running_host: LiveHost) -> None:
    running_host.write_cgroup("late", "f" * 64, "", GI)
    state = running_host.engine.state
    names = ("s", ("late", "main"), "shop", "late-x", "unpinned_no_capacity")
    reason = Reason("f" * 64, *names, since_s=10**18)
    reasons = Reasons(state.reasons.pinned, {reason.container_id: reason})
    running_host.state_file.write_bytes(snapshot(state.with_reasons(reasons)))
    assert "since 9999-12-31T23:59:59Z" in " ".join(shown(running_host).split())
    assert main(["status", "--output", "json", *running_host.arguments()]) == 0


def test_a_lock_without_a_date(host: LiveHost) -> None:
    lock = lock_file_of(host.state_file)
    with lock.open("w+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lock.write_text("something else")
        assert "runs: something else" in shown(host)
        lock.write_text("pid 7, since 0001-01-01, launched")
        assert "runs: pid 7, since 0001-01-01, launched" in shown(host)


def test_a_large_machine_is_grouped_by_distance(tmp_path: Path) -> None:
    def distance(a: int, b: int) -> int:
        return 10 if a == b else 12 if a // 4 == b // 4 else 32

    nodes = [
        NumaNode(a, 64 * GI, {GI: 0}, CpuSet([a]), {b: distance(a, b) for b in range(16)})
        for a in range(16)
    ]
    host = LiveHost(tmp_path, Machine(tuple(nodes)))
    for uid, size in (("one", 40), ("two", 100), ("three", 50)):
        host.run(uid, "c", size * GI, used={})
    host.save()
    with host.running():
        expect(shown(host), "16-nodes")


def test_a_node_that_is_left_out(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes(), 'memoryNodes: {override: {"3": cpuless}}\n')
    text = "node 3: no container is placed there, because memoryNodes.withoutCpus is exclude"
    assert f"  left out  {text}\n" in shown(host, 120)
    assert "left out" not in shown(LiveHost(tmp_path / "whole", four_nodes()))


def test_a_broken_state_file(running_host: LiveHost) -> None:
    running_host.state_file.write_text("{")
    screen = shown(running_host)
    assert "problem   " in screen
    assert "not JSON" in screen
    assert "node group" in screen
    assert main(["status", *running_host.arguments()]) == 1


def test_without_a_machine_the_containers_are_shown(running_host: LiveHost) -> None:
    (running_host.root / "sys/devices/system/node/node0/meminfo").unlink()
    screen = shown(running_host)
    assert "no such file" in screen
    assert "node group" not in screen
    assert "postgres" in screen


def test_without_a_state_file_nothing_is_known(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes(), 'stateFile: ""\nmemoryManagerPolicy: None\n')
    arguments = [word for word in host.arguments() if word != str(host.state_file)]
    arguments.remove("--state-file")
    assert main(["status", *arguments]) == 1


def test_containers_that_run_unpinned(running_host: LiveHost) -> None:
    unpinned = running_host.new_id()
    running_host.write_cgroup("late", unpinned, "", 5 * GI)
    running_host.use("late", unpinned, {0: 4 * GI}, file={0: GI})
    pinned = running_host.new_id()
    running_host.write_cgroup("other", pinned, "1", 5 * GI)
    pause = running_host.write_cgroup("late", running_host.new_id(), "", 0)
    (pause / "memory.max").write_text("max\n")
    expect(shown(running_host), "unpinned")


def test_control_characters_do_not_reach_the_terminal(running_host: LiveHost) -> None:
    running_host.run("ev\x1bil", "na\x1bme", GI)
    running_host.save()
    screen = shown(running_host)
    assert "\x1b" not in screen
    assert "ev\\u001bil" in screen


def test_a_pod_as_a_whole(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes(), "topologyManagerScope: pod\n")
    pod = host.sandbox("whole", 20 * GI)
    first, plan = host.create(pod, "first", 12 * GI)
    assert plan.adjustment is not None
    host.write_cgroup("whole", first.container_id, plan.adjustment.cpuset_mems, 12 * GI)
    host.save()
    with host.running():
        expect(shown(host), "pod-scope")


def test_colours_only_on_a_terminal(
    running_host: LiveHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["status", *running_host.arguments()]) == 0
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(["status", *running_host.arguments()])
    assert "\x1b[36m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["status", *running_host.arguments()])
    assert "\x1b[36m" not in capsys.readouterr().out


def pages_shown(host: LiveHost, query: str = "", columns: int = 80) -> str:
    file = io.StringIO()
    show_pages(report_of(host, query), Console(file=file, width=columns, highlight=False))
    return file.getvalue()


def test_managed_containers(host: LiveHost) -> None:
    add_pages(host)
    screen = pages_shown(host)
    expect(screen, "pages")
    assert max(map(len, screen.splitlines())) <= 80


def test_one_pod(host: LiveHost) -> None:
    add_burstable(host)
    expect(pages_shown(host, "redis-0"), "pages-burstable")


def test_a_pod_with_nodes_that_the_plugin_did_not_assign(host: LiveHost) -> None:
    add_burstable(host, "3")
    screen = pages_shown(host, "redis-0")
    assert "(3)" in screen
    assert "50%" in screen


def test_a_small_share(host: LiveHost) -> None:
    container = host.engine.state.holders["db-1", "postgres"].container_id
    host.use("db-1", container, {0: 30 << 30, 1: 8192})
    assert "<1%" in pages_shown(host, "db-1-x")


def test_what_is_missing(host: LiveHost) -> None:
    assert "Pages of nothing: no running container" in pages_shown(host, "nothing")
    container = host.engine.state.holders["upf-7", "dpdk"].container_id
    stat = host.directory("upf-7", container) / "memory.numa_stat"
    stat.write_text("")
    assert "dpdk 1" in pages_shown(host, "upf-7-x")
    stat.unlink()
    assert pages_shown(host, "upf-7-x").splitlines()[2].endswith("?")


def test_too_little_memory_and_problems(host: LiveHost) -> None:
    meminfo = host.root / "sys/devices/system/node/node1/meminfo"
    meminfo.write_text("Node 1 MemTotal: 67108864 kB\nNode 1 MemFree: 7340032 kB\n")
    screen = " ".join(pages_shown(host).split())
    assert "short node 1: containers may still allocate 8Gi more than is available there" in screen
    Path(meminfo).unlink()
    screen = pages_shown(host)
    assert "problem" in screen
    assert "?" in screen
