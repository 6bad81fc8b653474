"""The CPU requests of NUMA nodes, as text."""

from collections.abc import Sequence

from nri_numamem.cli.status.report import Node
from nri_numamem.engine.core.cpu_requests import MILLICORES
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.numa import NodeSet


def cpus_text(nodes: Sequence[Node]) -> str:
    """Return the CPU requests on some nodes, "3.5 of 8 requested on node 0"; "" if unknown."""
    known = [node.cpus for node in nodes if node.cpus is not None]
    if not known:
        return ""
    requested, usable = sum(each.requested for each in known), sum(each.usable for each in known)
    where = format_nodes(NodeSet(node.node_id for node in nodes))
    return f"{requested / MILLICORES:g} of {usable / MILLICORES:g} requested on {where}"
