"""CPUs of the NUMA nodes of a container's memory (`cpuFollowsMemory`)."""
