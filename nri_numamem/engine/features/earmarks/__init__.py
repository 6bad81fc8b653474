"""Earmarks: room on NUMA nodes that is set aside for some pods, until a time."""
