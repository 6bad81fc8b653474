"""NUMA nodes that are set apart for a kind of pods (`partitions`)."""
