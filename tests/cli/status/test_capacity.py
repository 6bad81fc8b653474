from nri_numamem.cli.live.collect import collect
from nri_numamem.cli.status.judge import judge
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import GI, LiveHost


def test_the_parts_of_each_node_add_up_to_its_total(running_host: LiveHost) -> None:
    running_host.use_hugepages(0, 3)
    report = judge(collect(running_host.parsed()))
    for node in report.nodes:
        for amounts in node.amounts.values():
            parts = (amounts.system_reserved, amounts.pools, amounts.outside, amounts.assigned)
            assert sum(parts) + amounts.held + amounts.free == amounts.total
    assert report.nodes[0].amounts["hugepages-1Gi"].outside == 3 * GI
    assert report.nodes[0].group == NodeSet([0])
    assert report.nodes[3].group == NodeSet([2, 3])


def test_what_fits_leaves_out_hugepages_that_are_used_outside_of_pods(
    running_host: LiveHost,
) -> None:
    for node in (0, 2, 3):
        running_host.use_hugepages(node, 3)
    report = judge(collect(running_host.parsed()))
    assert report.one_node["hugepages-1Gi"].size_bytes == 2 * GI
    assert report.several_nodes["hugepages-1Gi"].size_bytes == 2 * GI
    running_host.config.write_text("topologyManagerPolicy: single-numa-node\n")
    assert judge(collect(running_host.parsed())).several_nodes == {}
