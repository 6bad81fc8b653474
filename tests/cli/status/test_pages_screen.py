"""The screens of `status --pages`, as files in screens/; WRITE_SCREENS=1 writes them anew."""

import io
from pathlib import Path

from rich.console import Console

from nri_numamem.cli.status.pages_screen import show
from tests.cli.live.live_host import LiveHost
from tests.cli.status.pages_host import add_burstable, add_pages
from tests.cli.status.test_pages import report_of
from tests.cli.status.test_screen import expect


def shown(host: LiveHost, query: str = "", columns: int = 80) -> str:
    file = io.StringIO()
    show(report_of(host, query), Console(file=file, width=columns, highlight=False))
    return file.getvalue()


def test_managed_containers(host: LiveHost) -> None:
    add_pages(host)
    screen = shown(host)
    expect(screen, "pages")
    assert max(map(len, screen.splitlines())) <= 80


def test_one_pod(host: LiveHost) -> None:
    add_burstable(host)
    expect(shown(host, "redis-0"), "pages-burstable")


def test_a_pod_with_nodes_that_the_plugin_did_not_assign(host: LiveHost) -> None:
    add_burstable(host, "3")
    screen = shown(host, "redis-0")
    assert "(3)" in screen
    assert "50%" in screen


def test_a_small_share(host: LiveHost) -> None:
    container = host.engine.state.holders["db-1", "postgres"].container_id
    host.use("db-1", container, {0: 30 << 30, 1: 8192})
    assert "<1%" in shown(host, "db-1-x")


def test_what_is_missing(host: LiveHost) -> None:
    assert "Pages of nothing: no running container" in shown(host, "nothing")
    container = host.engine.state.holders["upf-7", "dpdk"].container_id
    stat = host.directory("upf-7", container) / "memory.numa_stat"
    stat.write_text("")
    assert "dpdk 1" in shown(host, "upf-7-x")
    stat.unlink()
    assert shown(host, "upf-7-x").splitlines()[2].endswith("?")


def test_too_little_memory_and_problems(host: LiveHost) -> None:
    meminfo = host.root / "sys/devices/system/node/node1/meminfo"
    meminfo.write_text("Node 1 MemTotal: 67108864 kB\nNode 1 MemFree: 7340032 kB\n")
    screen = " ".join(shown(host).split())
    assert "short node 1: containers may still allocate 8Gi more than is available there" in screen
    Path(meminfo).unlink()
    screen = shown(host)
    assert "problem" in screen
    assert "?" in screen
