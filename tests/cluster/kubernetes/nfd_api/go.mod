module sigs.k8s.io/node-feature-discovery/api/nfd

go 1.23.0
