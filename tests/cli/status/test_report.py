from pathlib import Path

from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.status.report import Amounts, Condition, ContainerRow, Report
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import LiveHost, four_nodes


def test_amounts_are_added_part_by_part() -> None:
    assert Amounts(10, 1, 2, 0, 3, 0, 4).plus(Amounts(20, 0, 0, 5, 0, 6, 9)) == Amounts(
        30, 1, 2, 5, 3, 6, 13
    )


def test_the_title_of_a_pod() -> None:
    row = ContainerRow("uid", "", "", "c", "id", Condition.RUNNING, NodeSet([0]), {})
    assert row.title == "uid"
    named = ContainerRow("uid", "shop", "cart", "c", "id", Condition.RUNNING, NodeSet([0]), {})
    assert named.title == "shop/cart"


def test_problems_are_those_of_all_parts(tmp_path: Path) -> None:
    host = LiveHost(tmp_path, four_nodes())
    assert Report(collect(host.parsed())).problems == ()
    host.state_file.write_text("x")
    (tmp_path / "sys/devices/system/node/node0/meminfo").write_text("")
    first, second = Report(collect(host.parsed())).problems
    assert "not JSON" in first
    assert "MemTotal" in second
