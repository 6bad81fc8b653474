"""Where the memory of containers is, and head-room of NUMA nodes (`residency`)."""
