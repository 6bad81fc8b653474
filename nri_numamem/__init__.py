"""NRI plugin that pins the memory and hugepages of Guaranteed containers to NUMA nodes."""
