"""A client of the Kubernetes API server, by the standard library alone.

- ``access``: server, authorities and credentials; those of a pod's service account.
- ``kubeconfig``: the same from a kubeconfig file.
- ``tls``: a TLS context of them. Only here ``ssl`` is imported, when it is needed.
- ``client``: one request and its answer.
"""
