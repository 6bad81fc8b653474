"""Nodes that are close to each other: on large machines they share a line."""

from nri_numamem.numa import Machine, NodeSet

# Lines that fit on a screen with the containers.
_CLUSTERS_MOST = 16


def clusters_of(machine: Machine, nodes: NodeSet) -> list[NodeSet]:
    """Divide nodes into sets that are connected by short distances, at most 16 if possible.

    Each node is alone if the machine shows no distances, or only equal ones.
    """
    known = [node for node in machine.nodes if node.node_id in nodes]
    pairs = {
        (a.node_id, b.node_id): a.distance_to(b.node_id)
        for a in known
        for b in known
        if a.node_id < b.node_id and a.distances
    }
    for most in sorted(set(pairs.values())):
        found = _connected(nodes, [pair for pair, distance in pairs.items() if distance <= most])
        if len(found) == 1:
            break
        if len(found) <= _CLUSTERS_MOST:
            return found
    return [NodeSet([node_id]) for node_id in nodes]


def _connected(nodes: NodeSet, pairs: list[tuple[int, int]]) -> list[NodeSet]:
    """Return the sets of nodes that are connected by pairs, ordered by their lowest ids."""
    of_node = {node_id: NodeSet([node_id]) for node_id in nodes}
    for a, b in pairs:
        if b not in of_node[a]:
            joined = of_node[a] | of_node[b]
            of_node.update(dict.fromkeys(joined, joined))
    return list(dict.fromkeys(of_node.values()))
