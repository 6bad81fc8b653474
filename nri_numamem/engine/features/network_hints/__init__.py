"""Hints from the NUMA nodes of network interfaces (`networkHints`)."""
