"""The NodeResourceTopology object, from which a NUMA-aware scheduler plugin selects hosts.

The scheduler has no other source: the kubelet's PodResources API has memory only with the kubelet's
own memory manager. The room is pure; its values come from the plugin's state, the machine, cgroups
and the kubelet's files, which the command ``export`` reads.

- ``noderesourcetopology``: the object.
- ``amounts``: memory, hugepages, devices and CPUs of each node.
- ``pods``: the fingerprint of the pods, and memory of containers for PodResources.
"""
