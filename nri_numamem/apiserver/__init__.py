"""A client of the Kubernetes API server, by the standard library alone.

- ``access``: server, authorities and credentials; those of a pod's service account; TLS with them.
- ``kubeconfig``: the same from a kubeconfig file.
- ``client``: one request and its answer.
"""
