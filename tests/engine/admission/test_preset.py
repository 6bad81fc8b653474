"""Containers that have their NUMA nodes before the plugin sees them."""

from nri_numamem.engine.records.plain import fields_of
from tests.engine.conftest import GI, MI, PAGE, Host

FREE = GI - 64 * MI - 16 * PAGE  # of an empty node


def test_a_preset_cpuset_mems_is_kept_and_recorded(host: Host) -> None:
    plan = host.create(host.run("a"), mems="2")
    assert plan.adjustment is None
    assert [record.event for record in plan.records] == ["adopted"]
    assert host.free()[2] == FREE - 200 * MI
    assert host.create(host.run("b"), mems="two").records[0].level == "warning"


def test_adoption_records_the_shortfall(host: Host) -> None:
    plan = host.create(host.run("a"), mems="1", memory=2 * GI)
    (record,) = plan.records
    assert record.level == "warning"
    assert fields_of(record)["shortfall_bytes"] == {"memory": 2 * GI - FREE}
    host.stop_pod(host.pods["sandbox-a"])
    assert host.free() == [FREE] * 4
