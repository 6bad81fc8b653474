"""Resource claims: the scheduler chooses the NUMA nodes, and the plugin enforces them."""
