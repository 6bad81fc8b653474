"""The NodeResourceTopology object, from which a NUMA-aware scheduler plugin selects hosts.

The scheduler has no other source: the kubelet's PodResources API has memory only with the kubelet's
own memory manager. The room is pure; its values come from the plugin's state, the machine, cgroups
and the kubelet's files, which the command ``export`` reads.

- ``noderesourcetopology``: the object.
- ``memory``: memory and hugepages of each node, as the engine would give them to one more pod.
- ``cpus``: CPUs of each node.
- ``devices``: devices of each node.
- ``container_memory``: memory and hugepages of each container, for the PodResources API.
- ``pods``: the pods that count for the fingerprint.
- ``fingerprint``: the fingerprint of a set of pods.
"""
