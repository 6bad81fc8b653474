"""Hugepages that are used outside of pods, as text and as document."""

from pathlib import Path

import pytest

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.live.outside import OutsideUse, outside_uses, use_document
from nri_numamem.config.settings import Settings
from nri_numamem.host.hugepage_users import HugepageFile, HugepageUser, HugepageUsers
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import GI, LiveHost, four_nodes

MI = 1 << 20
PAGES = "hugepages-2Mi"
FILE = HugepageFile("/dev/hugepages/a", PAGES, 4 * MI)


def user(pid: int, pages: int, node: int = 0) -> HugepageUser:
    return HugepageUser(pid, "p", pages * 2 * MI, {node: {PAGES: pages * 2 * MI}})


def use(*processes: HugepageUser, files: tuple[HugepageFile, ...] = ()) -> OutsideUse:
    users = HugepageUsers(processes, files)
    return OutsideUse(NodeSet([0]), PAGES, 8 * MI, 16 * MI, users)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (use(user(1, 4)), ": p (pid 1, 4 2Mi pages)"),
        (use(user(1, 1), user(2, 3)), ": p (pid 1, 1 2Mi page), p (pid 2, 3 2Mi pages)"),
        (
            use(HugepageUser(1, "p", 6 * MI)),
            ": p (pid 1, 6Mi of hugepages, nodes unknown)",
        ),
        (
            use(*(user(pid, 1) for pid in range(1, 6))),
            ": p (pid 1, 1 2Mi page), p (pid 2, 1 2Mi page), p (pid 3, 1 2Mi page), 2 more",
        ),
        (
            use(user(1, 2), files=(FILE,)),
            ": p (pid 1, 2 2Mi pages), file /dev/hugepages/a (2 2Mi pages, nodes unknown)",
        ),
        (
            use(user(1, 1)),
            (
                ": p (pid 1, 1 2Mi page); no process is known for 3 2Mi pages: look at pods that "
                "are not managed, and at shared memory (ipcs -m)"
            ),
        ),
    ],
)
def test_what_uses_the_pages(found: OutsideUse, text: str) -> None:
    assert found.text == f"node 0: 4 of 8 2Mi pages are used outside of pods{text}"


def test_users_of_a_node(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    host.save()
    host.use_hugepages(0, 2)
    host.start_process(8, "here", 2 * GI, "/x", {0: 2})
    host.start_process(9, "elsewhere", 2 * GI, "/x", {3: 2})
    host.start_process(10, "somewhere", 2 * GI, "/x")
    facts = collect(host.parsed())
    (found,) = outside_uses(facts)
    assert (str(found.nodes), found.size_bytes, found.pool_bytes) == ("0", 2 * GI, 4 * GI)
    assert [each.pid for each in found.users.processes] == [8, 10]
    assert list(outside_uses(Facts(0.0, Settings(), "", ""))) == []


def test_the_document() -> None:
    unknown = HugepageUser(7, "p", MI)
    assert use_document(use(user(1, 4), unknown, files=(FILE,))) == {
        "nodes": [0],
        "resource": PAGES,
        "bytes": 8 * MI,
        "poolBytes": 16 * MI,
        "processes": [
            {"pid": 1, "name": "p", "bytes": 8 * MI, "nodes": {"0": {PAGES: 8 * MI}}},
            {"pid": 7, "name": "p", "bytes": MI, "nodes": None},
        ],
        "files": [{"path": "/dev/hugepages/a", "resource": PAGES, "bytes": 4 * MI}],
    }
