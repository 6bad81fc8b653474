"""Sets of NUMA nodes; their text is the list that the kernel uses in `cpuset.mems`."""

from typing import ClassVar

from nri_numamem.numa.idset import IdSet

# Linux can be built for 1,024 NUMA nodes (CONFIG_NODES_SHIFT=10) and no more.
NODE_ID_LIMIT = 1024


class NodeSet(IdSet):
    """An immutable set of NUMA node ids, 0 <= id < 1024.

    Of two sets, the kubelet prefers the one with the "lower value": that with the smaller mask.
    """

    __slots__ = ()

    LIMIT: ClassVar[int] = NODE_ID_LIMIT
    NAME: ClassVar[str] = "NUMA node"
