"""The kubelet's file formats: memory manager state, configuration, Pod manifests."""
