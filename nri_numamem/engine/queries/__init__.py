"""What is computed from a committed state and changes nothing; no request of a runtime comes here.

Commands and the daemon's dumps use it: records of the whole state, the memory manager's hints, the
accounting of a restored state, and rebalancing plans.
"""
