"""The kubelet's formats: memory manager state, configuration, Pod manifests, PodResources."""
