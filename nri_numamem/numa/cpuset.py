"""Sets of CPUs; their text is the list that the kernel uses in `cpuset.cpus` and `cpulist`."""

from typing import ClassVar

from nri_numamem.numa.idset import IdSet

# Linux can be built for 8,192 CPUs (x86 CONFIG_NR_CPUS) and no more.
CPU_ID_LIMIT = 8192


class CpuSet(IdSet):
    """An immutable set of CPU ids, 0 <= id < 8192."""

    __slots__ = ()

    LIMIT: ClassVar[int] = CPU_ID_LIMIT
    NAME: ClassVar[str] = "CPU"
