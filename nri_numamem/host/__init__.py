"""Reads the host's files: NUMA topology, hugepage pools, devices, cgroups, and uevents.

Every function takes the root directories below which it reads, so a recorded or generated tree
serves as well as the real one. Functions return values of ``numa`` and ``memorymanager`` or raise
``MachineError``, one line that names the file. This room makes no placement decisions.
"""
