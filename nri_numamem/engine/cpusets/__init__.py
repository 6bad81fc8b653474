"""`cpuset.mems` in the cgroups of running containers: what it is, and what it should be."""
