"""The machine as its files show it: NUMA topology, hugepage pools and cgroups.

Every function takes the root directories that it reads below, so that a recorded or invented
tree serves as well as the real one. Nothing here decides anything; values of
``memorymanager.machine`` come out, or ``MachineError`` with one line that names the file.
"""
